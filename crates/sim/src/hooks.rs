//! Hooks between the machines, for hostile servers, hostile parties and observers.

use std::sync::Arc;

use blindsum_protocol::{Fault, Message, PartyId, Round};

use crate::Cohort;

/// What a hook does with a message on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// It arrives as it is.
    #[default]
    Deliver,
    /// It never arrives.
    Drop,
    /// This message arrives in its place.
    Replace(Vec<u8>),
    /// It arrives twice.
    Duplicate,
    /// These messages arrive in its place, in this order.
    Send(Vec<Message>),
}

/// Sees and may change every message. What a hook leaves alone is honest: a hostile server is a hook on
/// [`Self::server_says`], a hostile party a hook on [`Self::client_says`] for that party.
///
/// Messages are whole: a frame of 34 bytes (version, stage, context), then the body. A hook sees a message once, before
/// the network carries, repeats or loses it.
pub trait Hooks: Send {
    /// Whether the hook also sees and may change key set-ups. If not, they run undisturbed.
    fn sees_key_setups(&self) -> bool {
        false
    }

    /// A round begins.
    fn begin(&mut self, _round: &Arc<Round>, _cohort: &Arc<Cohort>) {}

    /// The round in which a party believes it is. A hostile coordinator may tell it of another one.
    fn believed_round(&mut self, _party: PartyId, round: &Arc<Round>) -> Arc<Round> {
        round.clone()
    }

    /// A party's answer of this stage.
    fn client_says(&mut self, _stage: u8, _from: PartyId, _message: &Message) -> Action {
        Action::Deliver
    }

    /// The server's message at the end of this stage.
    fn server_says(&mut self, _stage: u8, _to: PartyId, _message: &Message) -> Action {
        Action::Deliver
    }

    /// More messages to reach the server just before it closes this stage.
    fn before_close(&mut self, _stage: u8) -> Vec<(PartyId, Message)> {
        Vec::new()
    }

    /// A party met a fault and sends nothing more. `stage` is the stage that it did not answer.
    fn client_ended(&mut self, _stage: u8, _party: PartyId, _fault: &Fault) {}

    /// The server refused a message.
    fn refused(&mut self, _stage: u8, _fault: &Fault) {}
}

/// A hook that changes nothing.
impl Hooks for () {}

impl Action {
    /// The messages that arrive.
    pub(crate) fn apply(self, message: Message) -> Vec<Message> {
        match self {
            Action::Deliver => vec![message],
            Action::Drop => Vec::new(),
            Action::Replace(bytes) => vec![bytes.into()],
            Action::Duplicate => vec![message.clone(), message],
            Action::Send(messages) => messages,
        }
    }
}
