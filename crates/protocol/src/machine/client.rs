//! One party's side of one round.

use std::fmt;
use std::sync::Arc;

use blindsum_crypto::fingerprint::fingerprint;
use blindsum_crypto::kdf::Context;
use blindsum_crypto::seal::StorageKey;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::heard::Heard;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef, RoundSum};
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::wire::{self, Message};
use crate::{Fault, FaultKind, Input, PartySet, ServerRole, SurvivorListError};

/// One party's side of one round.
///
/// A fault ends it: every later call gives [`FaultKind::Ended`], so nothing more is revealed. A message that comes
/// again is answered by the same bytes.
pub struct Client {
    setup: Arc<ClientSetup>,
    state: State,
    heard: Heard,
    /// The stage of the latest answer; none before the first.
    stage: Option<u8>,
    /// The latest answer, with its frame.
    latest: Message,
    /// The parts of it that other servers take before, each with its frame.
    parts: Vec<(ServerRole, Message)>,
}

enum State {
    Waiting(Box<dyn ClientStage>),
    Done,
    Ended,
}

/// A client's answer to a message of the server.
pub enum Answer {
    /// A message to send. The same request again gives the same bytes.
    Send(Message),
    /// There is nothing to say now; the next message of the server comes without an answer.
    Wait,
    /// The message is an old one that was answered, and the server has gone on since.
    Old,
    /// The round is over.
    Done(RoundSum),
    /// The key set-up is over: these parties hold the key, this one among them.
    KeyHeld(PartySet),
}

impl Answer {
    /// The message to send, if there is one.
    pub fn message(self) -> Option<Message> {
        match self {
            Answer::Send(message) => Some(message),
            Answer::Wait | Answer::Old | Answer::Done(_) | Answer::KeyHeld(_) => None,
        }
    }
}

/// Length only: a message of `plain` is the party's vector, which belongs in no log.
impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // guard: answers-are-not-printed
            Answer::Send(message) => write!(f, "Send({} bytes)", message.len()),
            Answer::Wait => write!(f, "Wait"),
            Answer::Old => write!(f, "Old"),
            Answer::KeyHeld(holders) => f.debug_tuple("KeyHeld").field(holders).finish(),
            Answer::Done(sum) => f.debug_tuple("Done").field(sum).finish(),
        }
    }
}

impl Client {
    /// Starts a round. Gives the client and its first message, unless it has to wait for the server first. `input` is
    /// needed if [`Plan::input_stage_of`](crate::Plan::input_stage_of) this party is 0.
    ///
    /// # Errors
    /// A roster that this party is not in, unusable parameters or input.
    pub fn start(
        setup: ClientSetup,
        input: Option<&dyn Input>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(Self, Answer), Fault> {
        setup.check()?;
        let setup = Arc::new(setup);
        let begun = match setup.prepared.take() {
            Some(starter) => starter.start(&setup, input, rng)?,
            None => setup.round.machines()?.start(&setup, input, rng)?,
        };
        let mut parts = Vec::new();
        let context = *setup.round.context();
        let frame = |body| wire::frame_in_place(&context, 0, body);
        let (next, latest) = match begun {
            ClientStep::Done(_) | ClientStep::KeyHeld(_) => {
                return Err(Fault::caller(FaultKind::Ended));
            }
            ClientStep::Wait { next } => (next, None),
            ClientStep::Send { body, next } => (next, Some(frame(body))),
            ClientStep::Upload {
                parts: bodies,
                body,
                next,
            } => {
                parts = framed(&setup, 0, bodies);
                (next, Some(wire::frame_secret(&context, 0, body)))
            }
        };
        let stage = latest.as_ref().map(|_| 0);
        let latest = latest.unwrap_or_default();
        let answer = match stage {
            Some(_) => Answer::Send(latest.clone()),
            None => Answer::Wait,
        };
        let client = Self {
            setup,
            state: State::Waiting(next),
            heard: Heard::default(),
            stage,
            latest,
            parts,
        };
        Ok((client, answer))
    }

    /// Computes ahead of time what the start of the round will need, before the party's vector is there. Uses at most
    /// `memory_bytes` and gives the bytes used: 0 if the protocol has nothing to compute ahead, or if the party lacks
    /// the key for it.
    ///
    /// # Errors
    /// A vault that cannot be read.
    pub fn prepare(setup: &ClientSetup, memory_bytes: usize) -> Result<usize, Fault> {
        let machines = setup.round.machines()?;
        let ahead = machines.prepare(setup, memory_bytes);
        Ok(ahead.map_err(Fault::caller)?.map_or(0, |ahead| {
            setup.prepared.put(ahead.starter);
            ahead.bytes
        }))
    }

    /// Computes ahead of time what the answer to the next message of the server will need; otherwise as
    /// [`prepare`](Self::prepare).
    pub fn prepare_answer(&mut self, memory_bytes: usize, rng: &mut dyn CryptoRng) -> usize {
        match &mut self.state {
            State::Waiting(stage) => stage.prepare(memory_bytes, rng),
            State::Done | State::Ended => 0,
        }
    }

    /// The stage of the latest answer; `None` before the first.
    pub fn stage(&self) -> Option<u8> {
        self.stage
    }

    /// One more than the stage of the latest message of the server that was received; 0 before the first.
    pub fn heard(&self) -> u8 {
        self.heard.next()
    }

    /// Whether the next answer carries the party's vector.
    pub fn needs_input(&self) -> bool {
        let plan = self.setup.round.plan();
        let next = plan.next_reply(self.setup.me, self.heard());
        next.is_some_and(|stage| self.needs_input_after(stage))
    }

    /// Whether the answer to this message carries the party's vector. The answer to a message that comes again does not
    /// count.
    pub fn takes_input_with(&self, message: &[u8]) -> bool {
        let Ok((stage, _)) = wire::unframe(&self.setup.round, message) else {
            return false;
        };
        // guard: an-update-for-the-message-that-needs-it
        self.needs_input_after(stage) && stage >= self.heard()
    }

    /// Whether the answer to the server's message of this stage carries the party's vector.
    fn needs_input_after(&self, stage: u8) -> bool {
        let input = self.setup.round.plan().input_stage_of(self.setup.me);
        input.is_some() && input == stage.checked_add(1)
    }

    /// The latest answer, to be sent again after a lost connection; empty once it is acknowledged.
    pub fn latest(&self) -> &Message {
        &self.latest
    }

    /// The parts of the latest answer that other servers take, each from the party directly. All of them have taken
    /// theirs before the answer is sent: the coordinator counts on it.
    pub fn parts(&self) -> &[(ServerRole, Message)] {
        &self.parts
    }

    /// Forgets the bytes of the latest answer, since the server has received it: a vector is large. The request that
    /// led to it gives [`Answer::Old`] from then on.
    pub fn acknowledged(&mut self) {
        self.latest = Message::new();
        self.parts = Vec::new();
    }

    /// Takes a message of the server and gives the answer. If [`Self::needs_input`], `input` must be given; otherwise
    /// the call fails with [`FaultKind::InputMissing`] and may be repeated.
    ///
    /// # Errors
    /// A message that no honest server sends, or an input that cannot be encoded: both end this
    /// client's round.
    pub fn answer(
        &mut self,
        message: &[u8],
        input: Option<&dyn Input>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Answer, Fault> {
        match self.try_answer(message, input, rng) {
            Err(fault) if fault.kind != FaultKind::InputMissing => {
                // guard: a-fault-ends-the-round
                self.state = State::Ended;
                Err(fault.found_in(message))
            }
            other => other,
        }
    }

    fn try_answer(
        &mut self,
        message: &[u8],
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Answer, Fault> {
        if matches!(self.state, State::Ended) {
            return Err(Fault::caller(FaultKind::Ended));
        }
        let (stage, body) = wire::unframe(&self.setup.round, message).map_err(Fault::server)?;
        let seen = fingerprint(self.setup.round.context(), message);
        let (plan, me) = (self.setup.round.plan(), self.setup.me.into());
        let known = self.heard.judge(plan, me, stage, seen);
        match known.map_err(Fault::server)? {
            // guard: second-request-is-answered-again
            true if self.repeats(stage) => return Ok(Answer::Send(self.latest.clone())),
            true => return Ok(Answer::Old),
            false => {}
        }
        if matches!(self.state, State::Done) {
            let (got, expected) = (stage, self.heard());
            return Err(Fault::server(FaultKind::OtherStage { got, expected }));
        }
        if self.needs_input_after(stage) && input.is_none() {
            return Err(Fault::caller(FaultKind::InputMissing));
        }
        let State::Waiting(state) = std::mem::replace(&mut self.state, State::Ended) else {
            return Err(Fault::caller(FaultKind::Ended));
        };
        let step = state.answer(body, input, rng)?;
        self.heard.add(stage, seen);
        self.parts = Vec::new();
        match step {
            ClientStep::Send { body, next } => Ok(self.says(wire::frame_in_place, body, next)),
            ClientStep::Upload { parts, body, next } => {
                self.parts = framed(&self.setup, self.heard(), parts);
                Ok(self.says(wire::frame_secret, body, next))
            }
            ClientStep::Wait { next } => {
                self.latest = Message::new();
                self.state = State::Waiting(next);
                Ok(Answer::Wait)
            }
            ClientStep::Done(sum) => {
                // Else the caller would take its update for counted.
                // guard: a-sum-is-for-those-who-are-in-it
                if !sum.survivors.contains(self.setup.me) {
                    let kind = FaultKind::BadSurvivorList(SurvivorListError::SelfDropped);
                    return Err(Fault::server(kind));
                }
                self.state = State::Done;
                Ok(Answer::Done(sum))
            }
            ClientStep::KeyHeld(holders) => {
                self.state = State::Done;
                Ok(Answer::KeyHeld(holders))
            }
        }
    }

    /// It answers what it has heard last, and waits for the next message.
    fn says(&mut self, frame: Frame, body: Vec<u8>, next: Box<dyn ClientStage>) -> Answer {
        let (context, stage) = (self.setup.round.context(), self.heard());
        self.latest = frame(context, stage, body);
        self.stage = Some(stage);
        self.state = State::Waiting(next);
        Answer::Send(self.latest.clone())
    }

    /// Whether the server's message of this stage, come again, is answered by the same bytes again.
    fn repeats(&self, stage: u8) -> bool {
        matches!(self.state, State::Waiting(_))
            && stage.saturating_add(1) == self.heard()
            && !self.latest.is_empty()
    }

    /// Everything that another process needs to go on, sealed under the party's storage key. Write it to disk before
    /// the latest answer is sent: then no message that may be sent only once is ever sent twice.
    ///
    /// `None` as long as this machine will still encrypt, mask or seal something. Until its vector is sent, the machine
    /// ends with its process: an old copy of a file can be put back, and a machine that goes on from it must not be
    /// able to use a key a second time.
    ///
    /// # Errors
    /// The round has ended.
    pub fn seal(
        &self,
        key: &StorageKey,
        rng: &mut dyn CryptoRng,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let State::Waiting(stage) = &self.state else {
            return Err(Fault::caller(FaultKind::Ended));
        };
        let Some(state) = stage.save().map_err(Fault::caller)? else {
            return Ok(None);
        };
        // By hand, not by the codec: it would leave copies of the stage's secrets in freed memory.
        let writer = Writer::default().number(self.heard.iter().len() as u32);
        let heard = self.heard.iter();
        let writer = heard.fold(writer, |writer, (stage, seen)| {
            // guard: what-was-answered-is-written-down
            writer.bytes(&[*stage]).bytes(seen)
        });
        let writer = writer
            .bytes(&[self.stage.map_or(0, |stage| stage.saturating_add(1))])
            .length(self.latest.len())
            .bytes(&self.latest)
            .number(self.parts.len() as u32);
        let parts = self.parts.iter();
        let writer = parts.fold(writer, |writer, (role, part)| {
            writer
                .bytes(&[role.number()])
                .length(part.len())
                .bytes(part)
        });
        let writer = writer.bytes(&state);
        let sealed = key.seal(&self.setup.snapshot_header(), &writer.finish(), rng);
        Ok(Some(sealed))
    }

    /// Restores a client from a snapshot of the same party in the same round.
    ///
    /// # Errors
    /// A snapshot of another party or round, or a damaged one.
    pub fn unseal(setup: ClientSetup, key: &StorageKey, sealed: &[u8]) -> Result<Self, Fault> {
        setup.check()?;
        let refused = |rule: &str| Fault::caller(FaultKind::Snapshot(rule.into()));
        let bytes = key
            .open(&setup.snapshot_header(), sealed)
            .map_err(|_| refused("not one of this party in this round, or damaged"))?;
        let mut reader = Reader::new(&bytes);
        let before = read_answers(&mut reader).map_err(Fault::caller)?;
        let (heard, stage, latest) = before;
        let parts = read_parts(&mut reader).map_err(Fault::caller)?;
        let setup = Arc::new(setup);
        let machines = setup.round.machines();
        let machines = machines.map_err(|fault| Fault::caller(fault.kind))?;
        let stage_of = setup.round.plan().answer(heard.next());
        let name = stage_of.ok_or_else(|| refused("no such stage"))?.name;
        let state = machines.restore(&setup, name, reader.rest());
        Ok(Self {
            setup,
            state: State::Waiting(state.map_err(Fault::caller)?),
            heard,
            stage,
            latest,
            parts,
        })
    }
}

/// Parts of an answer with their frames.
fn framed(
    setup: &ClientSetup,
    stage: u8,
    parts: Vec<(ServerRole, Vec<u8>)>,
) -> Vec<(ServerRole, Message)> {
    let context = setup.round.context();
    let frame = |(role, body)| (role, wire::frame_secret(context, stage, body));
    parts.into_iter().map(frame).collect()
}

/// Puts a frame before a body.
type Frame = fn(&Context, u8, Vec<u8>) -> Message;

/// What follows the latest answer in a snapshot: `count: u32 ‖ number of the server: u8, length: u64 and bytes of each
/// part of it`.
fn read_parts(reader: &mut Reader<'_>) -> Result<Vec<(ServerRole, Message)>, FaultKind> {
    let count = reader.number()?;
    let one = |reader: &mut Reader<'_>| {
        let role = ServerRole::numbered(reader.byte()?)
            .ok_or_else(|| FaultKind::Snapshot("no such server".into()))?;
        let length = reader.length()?;
        let part = Zeroizing::new(reader.bytes(length)?.to_vec());
        Ok((role, Message::from_owner(part)))
    };
    (0..count).map(|_| one(reader)).collect()
}

/// The head of a snapshot: `count: u32 ‖ stage: u8 and fingerprint of each message heard ‖ stage behind that of the latest
/// answer: u8 ‖ length: u64 ‖ latest answer`. What the stage has follows.
fn read_answers(reader: &mut Reader<'_>) -> Result<(Heard, Option<u8>, Message), FaultKind> {
    let count = reader.number()?;
    let one = |reader: &mut Reader<'_>| Ok((reader.byte()?, reader.array()?));
    let heard = (0..count).map(|_| one(reader));
    let heard = heard.collect::<Result<_, FaultKind>>()?;
    let stage = reader.byte()?.checked_sub(1);
    let length = reader.length()?;
    let latest = Message::copy_from_slice(reader.bytes(length)?);
    Ok((heard, stage, latest))
}

impl ClientSetup {
    fn check(&self) -> Result<(), Fault> {
        let key = self.round.roster().verifying_key(self.me.0);
        if key.is_some_and(|key| key == self.identity.verifying_key()) {
            Ok(())
        } else {
            let reason = "the roster holds another key at this party's place".into();
            Err(Fault::server(FaultKind::BadKey {
                owner: self.me,
                reason,
            }))
        }
    }

    fn snapshot_header(&self) -> Vec<u8> {
        [
            b"blindsum snapshot" as &[u8],
            &self.round.context().0,
            &self.me.0.to_be_bytes(),
        ]
        .concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rig;
    use crate::{JobSpec, PartyId, ProtocolName};

    fn rig() -> (Rig, PartyId) {
        let spec = JobSpec {
            protocol: ProtocolName::SecAgg.into(),
            parties: 5,
            dim: 4,
            ..JobSpec::default()
        };
        (Rig::at(spec, 1), PartyId(2))
    }

    #[test]
    fn acknowledged_answers_are_not_kept_or_repeated() {
        let (mut rig, party) = rig();
        assert!(matches!(rig.answer(party), Ok(Answer::Send(_))));
        let client = rig.clients.get_mut(&party).unwrap();
        client.acknowledged();
        assert!(client.latest().is_empty());
        assert!(matches!(rig.answer(party), Ok(Answer::Old)));
        rig.finish().unwrap();
    }

    #[test]
    fn a_repeated_result_is_an_old_message() {
        let (mut rig, party) = rig();
        rig.finish().unwrap();
        // It has taken the result already.
        assert!(matches!(rig.answer(party), Ok(Answer::Old)));
    }
}
