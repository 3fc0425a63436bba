//! The coordinator's side of one round.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use blindsum_crypto::fingerprint::fingerprint;
use blindsum_math::words::Words;
use rand_core::CryptoRng;

use super::Outgoing;
use super::letters::{self, Said};
use crate::core::round::{Bodies, Excuse, Piece, Relayed, ServerStage, ServerStep};
use crate::kit::wire;
use crate::{
    Fault, FaultKind, Message, PartyId, PartySet, Round, Seat, ServerIndex, ServerRole, Step,
};

/// The coordinator's side of one round. Answers are added as they come.
pub struct Server {
    round: Arc<Round>,
    stage: u8,
    state: Box<dyn ServerStage>,
    /// Fingerprint of every answer that was taken, per stage and seat. Who makes a second answer collide only hides
    /// it: the first one counts.
    taken: BTreeMap<(u8, Seat), [u8; 16]>,
    faults: Vec<Fault>,
    /// How many refused messages of a seat are among the faults; those of strangers count together.
    kept: BTreeMap<Option<Seat>, usize>,
}

/// Refused messages of one party that are kept as faults: enough to see what it does, and no more memory
/// however many it sends.
const MAX_KEPT: usize = 8;

/// What the server did with a message that it did not refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipt {
    /// The answer counts.
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
    /// Which parties have not answered yet.
    pub missing: Vec<PartyId>,
    /// Which other servers have not answered yet.
    pub servers: Vec<ServerRole>,
    /// How many parties and servers have answered.
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
        /// The messages and their receivers. Who gets no message is still in the round, as the plan allows.
        messages: Vec<(Seat, Outgoing)>,
        /// Parties that answered, but are not in the round any more.
        excused: Vec<Excuse>,
    },
    /// The round is over.
    Done {
        /// The sum.
        outcome: Outcome,
        /// The result as a message, for each who is told it.
        messages: Vec<(Seat, Outgoing)>,
    },
}

/// What a round led to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The sum of the survivors' words; `None` if only the parties learn it, and in a key set-up.
    pub sum: Option<Words>,
    /// The parties whose words are in the sum; in a key set-up, those who hold the key.
    pub survivors: PartySet,
    /// Who sent something wrong, and what.
    pub faults: Vec<Fault>,
}

impl Server {
    /// Starts a round. The server has nothing to send until it is answered.
    ///
    /// # Errors
    /// No safe parameters for a roster of this size.
    pub fn start(round: Arc<Round>) -> Result<Self, Fault> {
        let state = round.machines()?.serve(&round)?;
        Ok(Self {
            round,
            stage: 0,
            state,
            taken: BTreeMap::new(),
            faults: Vec::new(),
            kept: BTreeMap::new(),
        })
    }

    /// Takes an answer of a party or of another server. The same bytes again are no fault.
    ///
    /// # Errors
    /// A message that the sender must not send. It harms nobody else. The first few of each sender are kept for
    /// [`Outcome::faults`].
    pub fn receive(&mut self, from: impl Into<Seat>, message: &[u8]) -> Result<Receipt, Fault> {
        let from = from.into();
        self.try_receive(from, message).map_err(|kind| {
            let fault = Fault::of(from, kind);
            self.keep(from, &fault);
            match self.state.may_show() {
                true => fault.found_in(message),
                false => fault,
            }
        })
    }

    fn keep(&mut self, from: Seat, fault: &Fault) {
        let member = match from {
            Seat::Party(party) => party.rank() < self.round.parties(),
            Seat::Server(_) => true,
        };
        let member = member.then_some(from);
        let kept = self.kept.entry(member).or_default();
        // guard: spam-is-not-kept
        if *kept < MAX_KEPT && !self.faults.contains(fault) {
            *kept += 1;
            self.faults.push(fault.clone());
        }
    }

    fn try_receive(&mut self, from: Seat, message: &[u8]) -> Result<Receipt, FaultKind> {
        let (stage, body) = wire::unframe(&self.round, message)?;
        let seen = fingerprint(self.round.context(), message);
        // guard: answers-count-once, equal-answers-are-quiet-in-the-machine
        if let Some(before) = self.taken.get(&(stage, from)) {
            return match *before == seen {
                true => Ok(Receipt::Repeated),
                false => Err(FaultKind::Conflicting { stage }),
            };
        }
        // guard: stages-in-turn
        if stage != self.stage {
            return Err(FaultKind::OtherStage {
                got: stage,
                expected: self.stage,
            });
        }
        match from {
            // guard: answers-of-strangers
            Seat::Party(party) if self.state.expected().contains(&party) => {
                self.state.receive(party, body)?;
            }
            // guard: servers-speak-in-their-turn
            Seat::Server(role) if self.state.servers().contains(&role) => {
                self.state.receive_of(role, body)?;
            }
            _ => return Err(FaultKind::NotAMember),
        }
        self.taken.insert((stage, from), seen);
        Ok(Receipt::Taken)
    }

    /// Hears a server that computes with this one.
    ///
    /// # Errors
    /// A letter that no honest server sends, or whatever the computation finds wrong. The round cannot go on.
    pub fn receive_letter(&mut self, from: ServerIndex, letter: &[u8]) -> Result<(), Fault> {
        match letters::open(&self.round, from, letter)? {
            Said::Letter(body) => self.state.receive_letter(from, body),
            Said::Notice(body) => self.state.note(from, body),
        }
    }

    /// Whether a message of another server is a step of the computation, and no notice of an upload.
    pub fn is_letter(&self, message: &[u8]) -> bool {
        letters::is_letter(&self.round, message)
    }

    /// What it tells servers that compute with it of uploads that it took, since this was asked last. One that is lost
    /// costs them memory and nothing else.
    pub fn notices(&mut self) -> Vec<(ServerIndex, Message)> {
        letters::framed_notices(&self.round, self.state.notices())
    }

    /// What it says to servers that compute with it, since this was asked last.
    pub fn letters(&mut self) -> Vec<(ServerIndex, Message)> {
        letters::framed(&self.round, self.state.letters())
    }

    /// Whether servers still compute together: the stage is not to be closed before its deadline, though everybody
    /// may have answered.
    pub fn is_computing(&self) -> bool {
        self.state.is_computing()
    }

    /// What the stage waits for.
    pub fn waiting(&self) -> Waiting {
        let (expected, servers) = (self.state.expected(), self.state.servers());
        let absent = |seat: Seat| !self.taken.contains_key(&(self.stage, seat));
        let missing: Vec<PartyId> = expected
            .iter()
            .copied()
            .filter(|party| absent((*party).into()))
            .collect();
        let absent = |role: &ServerRole| absent((*role).into());
        let silent: Vec<ServerRole> = servers.iter().copied().filter(absent).collect();
        Waiting {
            stage: self.stage,
            name: self.step().map_or("result", |step| step.name),
            answered: expected.len() + servers.len() - missing.len() - silent.len(),
            missing,
            servers: silent,
            required: self.state.required(),
        }
    }

    /// Which parties have answered the stage under way.
    pub fn answered(&self) -> Vec<PartyId> {
        let of_stage = self.taken.keys().filter(|(stage, _)| *stage == self.stage);
        of_stage.filter_map(|(_, seat)| seat.party()).collect()
    }

    /// Whether the answers of this stage will be passed on in pieces. If so, the program that drives the server must
    /// keep the answers until everybody has received its message about the end of the stage.
    pub fn relays(&self) -> bool {
        self.step().is_some_and(|step| step.relayed)
    }

    fn step(&self) -> Option<&Step> {
        self.round.plan().answer(self.stage)
    }

    /// Ends the stage with the answers that have come. Who has not answered has dropped out.
    ///
    /// # Errors
    /// The round cannot go on. There is no partial sum. The fault has what was found out before.
    pub fn close(mut self, rng: &mut dyn CryptoRng) -> Result<Closed, Fault> {
        let waiting = self.waiting();
        // guard: server-needs-enough-answers
        if waiting.answered < waiting.required {
            let (have, need) = (waiting.answered, waiting.required);
            let few = Fault::nobody(FaultKind::TooFewSurvivors { have, need });
            // guard: what-was-found-before-stays
            return Err(few.after(self.faults));
        }
        let step = match self.state.close(rng) {
            Ok(step) => step,
            Err(fault) => return Err(fault.after(self.faults)),
        };
        match step {
            ServerStep::Next {
                next,
                bodies,
                faults,
            } => {
                // What is said where stages are skipped is said at the end of the last of them.
                let told = self.stage.saturating_add(next.skipped());
                let (stage, expected) = (told.saturating_add(1), self.stage.saturating_add(1));
                if !self.round.plan().may_skip(expected, stage) {
                    let got = stage;
                    return Err(Fault::caller(FaultKind::OtherStage { got, expected }));
                }
                let messages = framed(&self.round, told, bodies);
                self.faults.extend(faults);
                let excused = next.excuses();
                let server = Self {
                    state: next,
                    stage,
                    ..self
                };
                Ok(Closed::Next {
                    server,
                    messages,
                    excused,
                })
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

fn framed(round: &Round, stage: u8, bodies: Bodies) -> Vec<(Seat, Outgoing)> {
    let context = round.context();
    match bodies {
        Bodies::Same(parties, body) => {
            let message = wire::frame(context, stage, &body);
            let each = (parties.into_iter()).map(|to| (to.into(), message.clone().into()));
            each.collect()
        }
        Bodies::Each(bodies) => {
            let framed = |(to, body): (PartyId, Vec<u8>)| {
                (to.into(), wire::frame(context, stage, &body).into())
            };
            bodies.into_iter().map(framed).collect()
        }
        Bodies::Relayed(bodies) => {
            let framed = |Relayed { to, head, pieces }| {
                let head = wire::frame(context, stage, &head);
                let pieces = pieces.into_iter().map(after_frame).collect();
                (to, Outgoing { head, pieces })
            };
            bodies.into_iter().map(framed).collect()
        }
    }
}

/// A piece of a body as one of the message around it.
fn after_frame(piece: Piece) -> Piece {
    let Range { start, end } = piece.range;
    let range = start + wire::HEADER..end + wire::HEADER;
    Piece { range, ..piece }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand_core::SeedableRng;

    use super::*;
    use crate::testing::Cohort;
    use crate::{JobSpec, Message, ProtocolName};

    /// Passes the last byte of each answer on to everybody, behind a byte of its own.
    struct PassOn(BTreeSet<PartyId>, Vec<(PartyId, usize)>);

    impl ServerStage for PassOn {
        fn expected(&self) -> &BTreeSet<PartyId> {
            &self.0
        }

        fn required(&self) -> usize {
            1
        }

        fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
            self.1.push((from, body.len()));
            Ok(())
        }

        fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
            let last = |(from, length): &(PartyId, usize)| Piece {
                from: *from,
                range: length - 1..*length,
            };
            let relayed = |to: &PartyId| Relayed {
                to: (*to).into(),
                head: vec![to.0 as u8],
                pieces: self.1.iter().map(last).collect(),
            };
            Ok(ServerStep::Next {
                bodies: Bodies::Relayed(self.0.iter().map(relayed).collect()),
                next: Box::new(PassOn(self.0, Vec::new())),
                faults: Vec::new(),
            })
        }
    }

    #[test]
    fn pieces_are_of_messages_with_their_frames() {
        let spec = JobSpec {
            protocol: ProtocolName::SecAgg.into(),
            parties: 3,
            ..JobSpec::default()
        };
        let cohort = Cohort::new(spec, 1);
        let mut server = Server::start(cohort.round.clone()).unwrap();
        server.state = Box::new(PassOn(cohort.round.everyone().collect(), Vec::new()));
        let answer = |body: &[u8]| wire::frame(cohort.round.context(), 0, body);
        let answers: [Message; 3] = [answer(b"a"), answer(b"bcd"), answer(b"ef")];
        for (party, answer) in cohort.round.everyone().zip(&answers) {
            assert_eq!(server.receive(party, answer), Ok(Receipt::Taken));
        }
        let mut rng = rand_chacha::ChaCha20Rng::from_seed([0; 32]);
        let Closed::Next { messages, .. } = server.close(&mut rng).unwrap() else {
            panic!("the round goes on");
        };
        let answer_of = |party: PartyId| answers.get(party.rank()).map(|answer| &**answer);
        assert_eq!(messages.len(), 3);
        for (to, outgoing) in messages {
            let Seat::Party(to) = to else {
                panic!("{to} is no party");
            };
            let expected = wire::frame(cohort.round.context(), 0, &[to.0 as u8, b'a', b'd', b'f']);
            assert_eq!(outgoing.assemble(answer_of), Some(expected));
        }
    }

    #[test]
    fn a_message_that_is_refused_shows_the_fault_and_is_not_kept_with_it() {
        let job = JobSpec {
            protocol: ProtocolName::Plain.into(),
            parties: 3,
            ..JobSpec::default()
        };
        let cohort = Cohort::new(job, 1);
        let mut server = Server::start(cohort.round.clone()).unwrap();
        for message in [&[7; 50][..], &[7; 60]] {
            let fault = server.receive(PartyId(1), message).unwrap_err();
            assert_eq!(fault.evidence.unwrap().bytes(), message);
        }
        assert_eq!(server.faults.len(), 1, "the same fault twice");
        assert!(server.faults[0].evidence.is_none());
    }
}
