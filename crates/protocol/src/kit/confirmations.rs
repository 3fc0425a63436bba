//! At the server: signatures over what all were told, of which everybody hears enough.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::round::Bodies;
use crate::kit::consistency::{SignatureEntry, Signatures, Signed};
use crate::kit::wire::{Bounded, Opaque, encode};
use crate::{Fault, FaultKind, PartyId};

/// Those who may sign, and signatures that came.
pub(crate) struct Confirmations {
    pub expected: BTreeSet<PartyId>,
    signatures: BTreeMap<PartyId, Opaque>,
}

impl Confirmations {
    pub fn of(expected: BTreeSet<PartyId>) -> Self {
        Self {
            expected,
            signatures: BTreeMap::new(),
        }
    }

    /// Takes a signature, if `is_right` says that it is one.
    pub fn receive(
        &mut self,
        parties: usize,
        from: PartyId,
        body: &[u8],
        is_right: impl FnOnce(&[u8]) -> bool,
    ) -> Result<(), FaultKind> {
        let Signed { signature } = Signed::read(parties, body)?;
        if !is_right(signature.as_slice()) {
            return Err(FaultKind::BadSignature { signer: from });
        }
        self.signatures.insert(from, signature);
        Ok(())
    }

    /// How many of these have signed.
    pub fn count(&self, counts: impl Fn(PartyId) -> bool) -> usize {
        self.signatures
            .keys()
            .filter(|signer| counts(**signer))
            .count()
    }

    /// Who has signed, and what they are told: the first `most` signatures of those that count, for each costs every party a
    /// verification.
    pub fn close(
        self,
        counts: impl Fn(PartyId) -> bool,
        most: usize,
    ) -> Result<(BTreeSet<PartyId>, Bodies), Fault> {
        let signers: BTreeSet<PartyId> = self.signatures.keys().copied().collect();
        let counted = (self.signatures.into_iter()).filter(|(signer, _)| counts(*signer));
        let entries = counted
            .take(most)
            .map(|(signer, signature)| SignatureEntry {
                party: signer.0,
                signature,
            });
        let signatures = Signatures {
            entries: entries.collect(),
        };
        let body = encode(Signatures::NAME, &signatures).map_err(Fault::caller)?;
        let bodies = Bodies::Same(signers.iter().copied().collect(), body);
        Ok((signers, bodies))
    }
}
