//! Stage `dispute`: accused provers show what they dealt their accusers.

use std::collections::{BTreeMap, BTreeSet};

use rand_core::CryptoRng;

use super::judge::Judgement;
use crate::core::round::{ServerStage, ServerStep};
use crate::protocols::pss_malicious::messages::Shown;
use crate::{Fault, FaultKind, PartyId};

pub(super) struct CollectShown {
    judgement: Judgement,
    expected: BTreeSet<PartyId>,
    shown: BTreeMap<PartyId, Vec<u8>>,
}

impl CollectShown {
    pub fn new(judgement: Judgement) -> Self {
        Self {
            expected: judgement.accused().keys().copied().collect(),
            judgement,
            shown: BTreeMap::new(),
        }
    }
}

impl ServerStage for CollectShown {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    /// Whoever shows nothing is guilty; the round goes on.
    fn required(&self) -> usize {
        0
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let told = &self.judgement.told;
        let (round, sharing) = (&told.common.round, &told.common.sharing);
        let wrong = |rule: String| FaultKind::malformed("columns", rule);
        let accusers = self
            .judgement
            .accused()
            .get(&from)
            .ok_or(FaultKind::NotAMember)?;
        let commitment = told.commitment(from).ok_or(FaultKind::NotAMember)?;
        let need = accusers.len() * Shown::len(sharing.shape());
        if body.len() != need {
            return Err(wrong(format!("{} bytes, but {need} are due", body.len())));
        }
        for (accuser, piece) in accusers
            .iter()
            .zip(body.chunks_exact(Shown::len(sharing.shape())))
        {
            let shape = sharing.shape();
            let shown = Shown::read(shape, piece).ok_or_else(|| wrong("cut short".into()))?;
            let root = shown.root(round, shape, (from, *accuser));
            // guard: shown-columns-are-committed-to
            if root.hash != commitment.root {
                return Err(wrong(format!(
                    "does not match the commitment for {accuser}"
                )));
            }
        }
        self.shown.insert(from, body.to_vec());
        Ok(())
    }

    fn close(self: Box<Self>, rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let mut judgement = self.judgement;
        for prover in &self.expected {
            let shown = self.shown.get(prover).map(Vec::as_slice);
            judgement.settle(*prover, shown, rng);
        }
        judgement.conclude(0)
    }
}
