//! Stage 2, active only: collects signatures over the set of those who shared and passes them on to all.

use std::collections::{BTreeMap, BTreeSet};

use rand_core::CryptoRng;

use super::Common;
use super::aggregate::CollectSums;
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::kit::consistency::{SignatureEntry, Signatures, Signed, signed_survivors};
use crate::kit::wire::{Bounded, Opaque, encode};
use crate::{Fault, FaultKind, PartyId, PartySet};

pub(super) struct CollectSignatures {
    common: Common,
    expected: BTreeSet<PartyId>,
    survivors: PartySet,
    signatures: BTreeMap<PartyId, Opaque>,
}

impl CollectSignatures {
    pub fn new(common: Common, expected: BTreeSet<PartyId>, survivors: PartySet) -> Self {
        Self {
            common,
            expected,
            survivors,
            signatures: BTreeMap::new(),
        }
    }
}

impl ServerStage for CollectSignatures {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.common.sharing.parameters().threshold()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let round = &self.common.round;
        let Signed { signature } = Signed::read(round.parties(), body)?;
        if !signed_survivors(round, from, &self.survivors, signature.as_slice()) {
            return Err(FaultKind::BadSignature { signer: from });
        }
        self.signatures.insert(from, signature);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let signers: BTreeSet<PartyId> = self.signatures.keys().copied().collect();
        // As many as are needed: each costs every party a verification.
        let quorum = self.common.sharing.parameters().quorum();
        let entries: Vec<SignatureEntry> = self
            .signatures
            .into_iter()
            .take(quorum)
            .map(|(signer, signature)| SignatureEntry {
                party: signer.0,
                signature,
            })
            .collect();
        let body = encode("signatures", &Signatures { entries }).map_err(Fault::caller)?;
        Ok(ServerStep::Next {
            bodies: Bodies::Same(signers.iter().copied().collect(), body),
            next: Box::new(CollectSums::new(self.common, signers, self.survivors)),
            faults: Vec::new(),
        })
    }
}
