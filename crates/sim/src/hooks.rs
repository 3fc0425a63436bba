//! Where hostile servers, hostile parties and observers stand: between the machines.

use std::sync::Arc;

use blindsum_protocol::{Fault, Message, PartyId, Round};

use crate::Cohort;

/// What becomes of a message on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// It arrives as it is.
    #[default]
    Deliver,
    /// It never arrives.
    Drop,
    /// Another one arrives in its place.
    Replace(Vec<u8>),
    /// It arrives twice.
    Duplicate,
    /// These arrive instead, in this order.
    Send(Vec<Message>),
}

/// Sees and changes every message. What a hook leaves alone behaves honestly: a hostile server is a hook
/// on [`Self::server_says`], a hostile party one on [`Self::client_says`] of that party.
///
/// Messages are whole: a frame of 34 bytes (version, stage, context), then the body. A message is shown
/// once, before the network carries, repeats or loses it.
pub trait Hooks: Send {
    /// Whether key set-ups are seen and changed too; otherwise they go undisturbed.
    fn sees_key_setups(&self) -> bool {
        false
    }

    /// A round begins.
    fn begin(&mut self, _round: &Arc<Round>, _cohort: &Arc<Cohort>) {}

    /// The round that a party believes to be in; a hostile coordinator may tell it of another one.
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

    /// Further messages that reach the server just before it closes this stage.
    fn before_close(&mut self, _stage: u8) -> Vec<(PartyId, Message)> {
        Vec::new()
    }

    /// A party met a fault and says nothing more. `stage` is the one whose answer it did not give.
    fn client_ended(&mut self, _stage: u8, _party: PartyId, _fault: &Fault) {}

    /// The server refused a message.
    fn refused(&mut self, _stage: u8, _fault: &Fault) {}
}

/// Nobody listens.
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
