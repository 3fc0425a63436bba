//! Stage `respond`: collects what every verifier answers about every prover, and judges provers by it.

use std::collections::{BTreeMap, BTreeSet};

use rand_core::CryptoRng;

use super::Shared;
use super::dispute::CollectShown;
use super::judge::{Heard, Judgement};
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::protocols::pss_malicious::messages::{ACCUSED, Response};
use crate::{Fault, FaultKind, PartyId};

pub(super) struct CollectResponses {
    told: Shared,
    expected: BTreeSet<PartyId>,
    heard: BTreeMap<PartyId, Heard>,
}

impl CollectResponses {
    pub fn new(told: Shared, expected: BTreeSet<PartyId>) -> Self {
        Self {
            told,
            expected,
            heard: BTreeMap::new(),
        }
    }
}

impl ServerStage for CollectResponses {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.told.common.required()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let Shared {
            common,
            parties,
            challenge,
            ..
        } = &self.told;
        let response = Response::read(
            &common.round,
            &common.sharing,
            (parties, challenge),
            from,
            body,
        )?;
        let answers = response
            .answers
            .iter()
            .map(|bytes| common.sharing.read_answer(bytes));
        let answers = answers.collect::<Result<_, _>>()?;
        let heard = Heard {
            body: body.to_vec(),
            unusable: response.unusable,
            answers,
        };
        self.heard.insert(from, heard);
        Ok(())
    }

    fn close(self: Box<Self>, rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let mut judgement = Judgement::new(self.told, self.heard, rng);
        // guard: the-lost-are-not-asked
        judgement.settle_the_lost(rng);
        if judgement.accused().is_empty() {
            return judgement.conclude(1);
        }
        let accusations = judgement.accused().iter().map(|(&prover, accusers)| {
            let mut body = vec![ACCUSED];
            for accuser in accusers {
                body.extend(accuser.0.to_be_bytes());
                body.extend(judgement.response_of(*accuser));
            }
            (prover, body)
        });
        Ok(ServerStep::Next {
            bodies: Bodies::Each(accusations.collect()),
            next: Box::new(CollectShown::new(judgement)),
            faults: Vec::new(),
        })
    }
}
