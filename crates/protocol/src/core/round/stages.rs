//! The interface of the stages of a protocol to what drives them: what goes in, what comes out.

use std::collections::BTreeSet;
use std::ops::Range;

use blindsum_math::words::Words;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use blindsum_mpc::ServerIndex;

use super::RoundSum;
use crate::{Fault, FaultKind, Input, PartyId, PartySet, Seat, ServerRole};

/// The party's vector, where the caller has it already.
pub(crate) type InputRef<'a> = Option<&'a dyn Input>;

/// A client that waits for one message of the server, with the secrets it needs from then on.
pub(crate) trait ClientStage: Send {
    /// The server's message in; the answer and the next stage out.
    fn answer(
        self: Box<Self>,
        body: &[u8],
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault>;

    /// Computes ahead what the server's message will need; gives the bytes filled.
    fn prepare(&mut self, _memory_bytes: usize, _rng: &mut dyn CryptoRng) -> usize {
        0
    }

    /// All that is needed to go on in another process. None where the stage, or one after it, still encrypts,
    /// masks or seals: whoever puts an older copy of the file back could make it do that a second time under
    /// one key, for another vector. Such a stage lives as long as its process.
    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        // guard: no-snapshot-before-the-vector-is-out
        Ok(None)
    }
}

/// What a client does when it starts, and with a message.
pub(crate) enum ClientStep {
    /// It answers and waits for the next message: in the first stage, or the one behind the message's.
    Send {
        body: Body,
        next: Box<dyn ClientStage>,
    },
    /// It answers as in [`Send`](Self::Send), after each of these servers has taken its own part of the answer.
    Upload {
        parts: Vec<(ServerRole, Body)>,
        body: Body,
        next: Box<dyn ClientStage>,
    },
    /// It has nothing to say and waits for the next message.
    Wait { next: Box<dyn ClientStage> },
    /// It has the result.
    Done(RoundSum),
    /// It holds the key of the job, as these parties do.
    KeyHeld(PartySet),
}

/// A message without its frame; a large one has room for it.
pub(crate) type Body = Vec<u8>;

/// A server other than the coordinator that waits for one message of the coordinator.
pub(crate) trait FollowerStage: Send {
    /// The coordinator's message in; the answer and the next stage out.
    fn answer(self: Box<Self>, body: &[u8], rng: &mut dyn CryptoRng)
    -> Result<FollowerStep, Fault>;

    /// What a party sends to this server directly. An error leaves the stage as if it had not come.
    fn take_upload(&mut self, _from: PartyId, _body: &[u8]) -> Result<(), FaultKind> {
        Err(FaultKind::NotAMember)
    }

    /// What it tells the servers that compute with it of uploads that it took, since this was asked last.
    fn notices(&mut self) -> Letters {
        Letters::new()
    }

    /// What another server that computes with this one tells of an upload that it took.
    fn note(&mut self, _from: ServerIndex, _body: &[u8]) -> Result<(), Fault> {
        Err(Fault::nobody(FaultKind::NotAMember))
    }

    /// What another server that computes with this one says to it.
    fn receive_letter(
        self: Box<Self>,
        _from: ServerIndex,
        _body: &[u8],
    ) -> Result<FollowerStep, Fault> {
        Err(Fault::nobody(FaultKind::NotAMember))
    }
}

/// What servers that compute together say to each other, in this order.
pub(crate) type Letters = Vec<(ServerIndex, Body)>;

/// What such a server does with a message.
pub(crate) struct FollowerStep {
    /// Its answer, if it has one.
    pub body: Option<Body>,
    /// Its letters to the other servers.
    pub letters: Letters,
    /// The result, if it has learnt it now.
    pub learnt: Option<RoundSum>,
    /// What it waits for next, unless its part in the round is over.
    pub next: Option<Box<dyn FollowerStage>>,
}

/// A server that collects the answers of one stage.
pub(crate) trait ServerStage: Send {
    /// Who may answer.
    fn expected(&self) -> &BTreeSet<PartyId>;

    /// How many answers are enough to go on.
    fn required(&self) -> usize;

    /// One party's answer. An error leaves the stage as if the message had not come.
    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind>;

    /// Which other servers may answer.
    fn servers(&self) -> &[ServerRole] {
        &[]
    }

    /// The answer of another server. An error leaves the stage as if the message had not come.
    fn receive_of(&mut self, _from: ServerRole, _body: &[u8]) -> Result<(), FaultKind> {
        Err(FaultKind::NotAMember)
    }

    /// What it tells the servers that compute with it of uploads that it took, since this was asked last.
    fn notices(&mut self) -> Letters {
        Letters::new()
    }

    /// What another server that computes with this one tells of an upload that it took.
    fn note(&mut self, _from: ServerIndex, _body: &[u8]) -> Result<(), Fault> {
        Err(Fault::nobody(FaultKind::NotAMember))
    }

    /// What another server that computes with this one says to it.
    fn receive_letter(&mut self, _from: ServerIndex, _body: &[u8]) -> Result<(), Fault> {
        Err(Fault::nobody(FaultKind::NotAMember))
    }

    /// What it says to the other servers since this was asked last.
    fn letters(&mut self) -> Letters {
        Letters::new()
    }

    /// Whether an answer that is refused may be kept and shown as evidence. Not where it holds what only this server may
    /// know: whoever is shown it could put it together with what another server has.
    fn may_show(&self) -> bool {
        true
    }

    /// Whether servers still compute together: the stage is not to be closed, though all may have answered.
    fn is_computing(&self) -> bool {
        false
    }

    /// How many optional stages were skipped to come to this one.
    fn skipped(&self) -> u8 {
        0
    }

    /// Whom this stage and all after it go on without, though they answered the one before. Asked when the stage
    /// begins.
    fn excuses(&self) -> Vec<Excuse> {
        Vec::new()
    }

    /// Ends the stage with the answers there are.
    fn close(self: Box<Self>, rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault>;
}

/// What a server does when a stage ends.
pub(crate) enum ServerStep {
    /// It sends messages and collects the next answers.
    Next {
        next: Box<dyn ServerStage>,
        bodies: Bodies,
        /// Parties found to have cheated.
        faults: Vec<Fault>,
    },
    /// The round is over.
    Done {
        /// None where the server does not learn it, or where there is none.
        sum: Option<Words>,
        survivors: PartySet,
        /// Those who are told the result.
        bodies: Bodies,
        faults: Vec<Fault>,
    },
}

/// What the server says at the end of a stage.
pub(crate) enum Bodies {
    /// The same to all of these.
    Same(Vec<PartyId>, Vec<u8>),
    /// To each its own.
    Each(Vec<(PartyId, Vec<u8>)>),
    /// To each its own, with pieces of what parties answered.
    Relayed(Vec<Relayed>),
}

/// A body of which the server only has the beginning.
pub(crate) struct Relayed {
    pub to: Seat,
    /// The server's own part.
    pub head: Vec<u8>,
    /// The remaining parts of the bodies of answers to the stage that ends.
    pub pieces: Vec<Piece>,
}

/// A part of one party's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The party whose answer it is.
    pub from: PartyId,
    /// Which bytes of the answer: in [`Outgoing`](crate::Outgoing) of the whole message with its frame, inside a
    /// protocol of the body.
    pub range: Range<usize>,
}

/// A party that the round goes on without, though it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excuse {
    /// The party.
    pub party: PartyId,
    /// The reason.
    pub reason: FaultKind,
}
