//! The server's side of a round: it adds what it cannot read.

use std::collections::BTreeSet;
use std::sync::Arc;

use blindsum_he::flashe::EncryptedSum;
use rand_core::CryptoRng;

use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::protocols::flashe::shape;
use crate::{Fault, FaultKind, PartyId, PartySet, Round};

pub(crate) fn serve(round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
    let shape = shape(round.job(), round.parties()).map_err(|e| Fault::caller(e.into()))?;
    Ok(Box::new(CollectCiphertexts {
        expected: round.everyone().collect(),
        survivors: PartySet::empty(round.parties()),
        sum: EncryptedSum::new(shape),
        round: round.clone(),
    }))
}

/// Adds ciphertexts as they come.
struct CollectCiphertexts {
    round: Arc<Round>,
    expected: BTreeSet<PartyId>,
    survivors: PartySet,
    sum: EncryptedSum,
}

impl ServerStage for CollectCiphertexts {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.round.job().min_parties()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        self.sum
            .add(body)
            .map_err(|e| FaultKind::malformed("ciphertext", e.to_string()))?;
        self.survivors.insert(from);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let mut body = self.survivors.as_bitmap().to_vec();
        body.extend(self.sum.to_bytes());
        Ok(ServerStep::Done {
            bodies: Bodies::Same(self.survivors.iter().collect(), body),
            survivors: self.survivors,
            sum: None,
            faults: Vec::new(),
        })
    }
}
