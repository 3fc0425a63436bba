//! A sum in the clear from which parties are left out after a dispute.
//!
//! Parties send their vectors. The coordinator asks each whose first byte is large to name that byte, and goes on without
//! those that name one that is too large. Where no byte is large there is no dispute.
//!
//! It shows a stage that is skipped, messages to few, parties that are not asked, and parties that are left out though
//! they answered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::core::plan::{Stage, small};
use crate::core::protocol::ProtocolInfo;
use crate::core::round::{
    Bodies, ClientSetup, ClientStage, ClientStep, Excuse, InputRef, ServerStage, ServerStep,
};
use crate::kit::restore::{Restored, Stateless};
use crate::kit::result::{AwaitResult, result_body, split_survivors};
use crate::kit::snapshot::Reader;
use crate::kit::vector::pack_input;
use crate::{Fault, FaultKind, Job, Opens, PartyId, PartySet, Plan, Round, Who};

/// A first byte from here on is disputed.
const LARGE: u8 = 128;
/// A first byte from here on is too large.
const TOO_LARGE: u8 = 192;

pub(super) static INFO: ProtocolInfo = ProtocolInfo {
    min_parties: |_| 2,
    ..ProtocolInfo::of(plan, |_| {
        Ok(Arc::new(Stateless {
            start,
            restore,
            serve: |round| {
                Ok(Box::new(CollectVectors {
                    expected: round.everyone().collect(),
                    vectors: BTreeMap::new(),
                    round: round.clone(),
                }))
            },
        }))
    })
};

fn plan(job: &Job, _parties: usize) -> Plan {
    let small = small(job.spec());
    let vector = small + job.packed_len() as u64;
    let stages = [
        Stage::new("vector", vector, small)
            .input()
            .heard_by(Who::Few),
        Stage::new("dispute", small, small)
            .answered_by(Who::Few)
            .optional(),
        Stage::new("accept", small, vector),
    ];
    Plan::new(job.spec(), Opens::Coordinator, stages)
}

fn start(
    setup: &Arc<ClientSetup>,
    input: InputRef<'_>,
    _rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
    let body = pack_input(setup.round.job(), input, |_, _| {}).map_err(Fault::caller)?;
    let first = body.first().copied().unwrap_or(0);
    let next = Box::new(AwaitSet(setup.clone(), first));
    Ok(ClientStep::Send { body, next })
}

/// The first byte is kept up to the set, the set from there on.
fn restore(setup: &Arc<ClientSetup>, stage: &str, reader: &mut Reader<'_>) -> Restored {
    Ok(Some(match stage {
        "accept" => Box::new(AwaitResult::load(setup.clone(), reader)?),
        _ => Box::new(AwaitSet(setup.clone(), reader.byte()?)),
    }))
}

/// The vector is out; a question or the set of those who stay comes next.
struct AwaitSet(Arc<ClientSetup>, u8);

impl ClientStage for AwaitSet {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        if body.is_empty() {
            return Ok(ClientStep::Send {
                body: vec![self.1],
                next: self,
            });
        }
        let (survivors, _) = split_survivors(&self.0.round, body).map_err(Fault::server)?;
        Ok(ClientStep::Send {
            body: Vec::new(),
            next: Box::new(AwaitResult::new(self.0, survivors)),
        })
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        Ok(Some(vec![self.1].into()))
    }
}

struct CollectVectors {
    round: Arc<Round>,
    expected: BTreeSet<PartyId>,
    vectors: BTreeMap<PartyId, Vec<u8>>,
}

impl ServerStage for CollectVectors {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.round.job().min_parties()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        if body.len() != self.round.job().packed_len() {
            return Err(FaultKind::malformed("vector", "of another length"));
        }
        self.vectors.insert(from, body.to_vec());
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let large = |vector: &[u8]| vector.first().is_some_and(|first| *first >= LARGE);
        let disputed = self.vectors.iter().filter(|(_, vector)| large(vector));
        let expected: BTreeSet<PartyId> = disputed.map(|(party, _)| *party).collect();
        let nobody = expected.is_empty();
        let stage = AskThem {
            round: self.round,
            vectors: self.vectors,
            asked: expected.iter().copied().collect(),
            expected,
            too_large: BTreeSet::new(),
        };
        match nobody {
            true => Ok(stage.settle(1)),
            false => Ok(ServerStep::Next {
                bodies: Bodies::Same(stage.asked.clone(), Vec::new()),
                next: Box::new(stage),
                faults: Vec::new(),
            }),
        }
    }
}

/// Those who are asked name their first byte.
struct AskThem {
    round: Arc<Round>,
    vectors: BTreeMap<PartyId, Vec<u8>>,
    asked: Vec<PartyId>,
    expected: BTreeSet<PartyId>,
    too_large: BTreeSet<PartyId>,
}

impl AskThem {
    /// The set of those who stay, after so many stages that were skipped.
    fn settle(mut self, skipped: u8) -> ServerStep {
        let excused = self.too_large;
        self.vectors.retain(|party, _| !excused.contains(party));
        let stay = self.vectors.keys().copied();
        let set = PartySet::of(self.round.parties(), stay.clone());
        ServerStep::Next {
            bodies: Bodies::Same(stay.clone().collect(), set.as_bitmap().to_vec()),
            next: Box::new(CollectAssent {
                expected: stay.collect(),
                round: self.round,
                vectors: self.vectors,
                skipped,
                excused,
            }),
            faults: Vec::new(),
        }
    }
}

impl ServerStage for AskThem {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        1
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        match body {
            [first] if *first >= TOO_LARGE => self.too_large.insert(from),
            [_] => false,
            _ => return Err(FaultKind::malformed("byte", "one byte")),
        };
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        Ok(self.settle(0))
    }
}

/// Everybody who stays agrees to the set.
struct CollectAssent {
    round: Arc<Round>,
    expected: BTreeSet<PartyId>,
    vectors: BTreeMap<PartyId, Vec<u8>>,
    skipped: u8,
    excused: BTreeSet<PartyId>,
}

impl ServerStage for CollectAssent {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.round.job().min_parties()
    }

    fn receive(&mut self, _from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        match body {
            [] => Ok(()),
            _ => Err(FaultKind::malformed("assent", "must be empty")),
        }
    }

    fn skipped(&self) -> u8 {
        self.skipped
    }

    fn excuses(&self) -> Vec<Excuse> {
        let excuse = |party: &PartyId| Excuse {
            party: *party,
            reason: FaultKind::malformed("vector", "its first byte is too large"),
        };
        self.excused.iter().map(excuse).collect()
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let survivors = PartySet::of(self.round.parties(), self.expected.iter().copied());
        let mut sum = self.round.job().zeros();
        for vector in self.vectors.values() {
            let added = sum.add_packed(vector);
            added.map_err(|e| Fault::nobody(FaultKind::malformed("vector", e.to_string())))?;
        }
        let body = result_body(&survivors, &sum);
        Ok(ServerStep::Done {
            sum: Some(sum),
            bodies: Bodies::Same(survivors.iter().collect(), body),
            survivors,
            faults: Vec::new(),
        })
    }
}
