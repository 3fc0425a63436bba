//! The coordinator's side of one round.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::fingerprint::fingerprint;
use blindsum_math::words::Words;
use rand_core::CryptoRng;

use super::{Bodies, ServerStage, ServerStep};
use crate::wire::{self, Message};
use crate::{Fault, FaultKind, PartyId, PartySet, Round, registry};

/// The coordinator's side of one round. Answers are folded in as they come.
pub struct Server {
    round: Arc<Round>,
    stage: u8,
    state: Box<dyn ServerStage>,
    /// Fingerprint of every answer that was taken, per stage and party. A party that makes a second answer
    /// collide only hides it: the first one counts.
    taken: BTreeMap<(u8, PartyId), [u8; 16]>,
    faults: Vec<Fault>,
    /// How many of a party's refused messages are among the faults; those of strangers count together.
    kept: BTreeMap<Option<PartyId>, usize>,
}

/// Refused messages of one party that are kept as faults: enough to see what it does, and no more memory
/// however many it sends.
const MOST_KEPT: usize = 8;

/// What became of a message that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// It counts.
    Taken,
    /// The same bytes had come before.
    Repeated,
}

/// What a stage waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Number of the stage.
    pub stage: u8,
    /// Its name.
    pub name: &'static str,
    /// Who has not answered yet.
    pub missing: Vec<PartyId>,
    /// How many have.
    pub answered: usize,
    /// How many are enough to close the stage.
    pub required: usize,
}

/// The end of a stage.
pub enum Closed {
    /// Messages to send, then the next stage.
    Next {
        /// The server in its next stage.
        server: Server,
        /// To whom what.
        messages: Vec<(PartyId, Message)>,
    },
    /// The round is over.
    Done {
        /// The sum.
        outcome: Outcome,
        /// The result, to whom it is told.
        messages: Vec<(PartyId, Message)>,
    },
}

/// The sum of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The sum of the survivors' words.
    pub sum: Words,
    /// Whose words are in it.
    pub survivors: PartySet,
    /// Parties that sent something wrong, and what.
    pub faults: Vec<Fault>,
}

impl Server {
    /// Starts a round; clients speak first.
    ///
    /// # Errors
    /// No safe parameters for a roster of this size.
    pub fn start(round: Arc<Round>) -> Result<Self, Fault> {
        let state = (registry::info(round.job().spec().protocol).serve)(&round)?;
        Ok(Self {
            round,
            stage: 0,
            state,
            taken: BTreeMap::new(),
            faults: Vec::new(),
            kept: BTreeMap::new(),
        })
    }

    /// Takes one party's answer. The same bytes again are no fault.
    ///
    /// # Errors
    /// A message that the party must not send. It costs nobody else anything, and the party's first few are
    /// kept for [`Outcome::faults`].
    pub fn receive(&mut self, from: PartyId, message: &[u8]) -> Result<Receipt, Fault> {
        self.try_receive(from, message).map_err(|kind| {
            let fault = Fault::party(from, kind);
            self.keep(from, &fault);
            fault
        })
    }

    fn keep(&mut self, from: PartyId, fault: &Fault) {
        let member = (from.rank() < self.round.parties()).then_some(from);
        let kept = self.kept.entry(member).or_default();
        if *kept < MOST_KEPT && !self.faults.contains(fault) {
            *kept += 1;
            self.faults.push(fault.clone());
        }
    }

    fn try_receive(&mut self, from: PartyId, message: &[u8]) -> Result<Receipt, FaultKind> {
        let (stage, body) = wire::unframe(&self.round, message)?;
        let seen = fingerprint(self.round.context(), message);
        if let Some(before) = self.taken.get(&(stage, from)) {
            return match *before == seen {
                true => Ok(Receipt::Repeated),
                false => Err(FaultKind::Conflicting { stage }),
            };
        }
        if stage != self.stage {
            return Err(FaultKind::OtherStage {
                got: stage,
                expected: self.stage,
            });
        }
        if !self.state.expected().contains(&from) {
            return Err(FaultKind::NotAMember);
        }
        self.state.receive(from, body)?;
        self.taken.insert((stage, from), seen);
        Ok(Receipt::Taken)
    }

    /// What the stage waits for.
    pub fn waiting(&self) -> Waiting {
        let expected = self.state.expected();
        let missing: Vec<PartyId> = expected
            .iter()
            .copied()
            .filter(|party| !self.taken.contains_key(&(self.stage, *party)))
            .collect();
        let stages = self.round.job().stages();
        Waiting {
            stage: self.stage,
            name: stages
                .get(usize::from(self.stage))
                .copied()
                .unwrap_or("result"),
            answered: expected.len() - missing.len(),
            missing,
            required: self.state.required(),
        }
    }

    /// Ends the stage with the answers there are: those who did not answer have dropped out.
    ///
    /// # Errors
    /// The round cannot go on; there is no partial sum.
    pub fn close(mut self, rng: &mut dyn CryptoRng) -> Result<Closed, Fault> {
        let waiting = self.waiting();
        if waiting.answered < waiting.required {
            let (have, need) = (waiting.answered, waiting.required);
            return Err(Fault::nobody(FaultKind::TooFewSurvivors { have, need }));
        }
        match self.state.close(rng)? {
            ServerStep::Next {
                next,
                bodies,
                faults,
            } => {
                let messages = framed(&self.round, self.stage, bodies);
                self.faults.extend(faults);
                let server = Self {
                    state: next,
                    stage: self.stage + 1,
                    ..self
                };
                Ok(Closed::Next { server, messages })
            }
            ServerStep::Done {
                sum,
                survivors,
                bodies,
                faults,
            } => {
                self.faults.extend(faults);
                let messages = framed(&self.round, self.stage, bodies);
                let outcome = Outcome {
                    sum,
                    survivors,
                    faults: self.faults,
                };
                Ok(Closed::Done { outcome, messages })
            }
        }
    }
}

fn framed(round: &Round, stage: u8, bodies: Bodies) -> Vec<(PartyId, Message)> {
    let context = round.context();
    match bodies {
        Bodies::Same(parties, body) => {
            let message = wire::frame(context, stage, &body);
            parties
                .into_iter()
                .map(|party| (party, message.clone()))
                .collect()
        }
        Bodies::Each(bodies) => bodies
            .into_iter()
            .map(|(party, body)| (party, wire::frame(context, stage, &body)))
            .collect(),
    }
}
