//! A connection as the job uses it.

use std::sync::Arc;

use super::face::{Effect, Input, LinkId, Peer, Say};
use super::shared::Shared;
use crate::machine::Hand;
use crate::pb::{CoordinatorFrame, Refused};

/// A connection, with who is at the other end and the way to say something.
pub(super) struct Link {
    pub id: LinkId,
    pub peer: Peer,
    pub hand: Hand<Input, Effect>,
}

impl Link {
    pub fn say(&self, say: Say) {
        self.hand.say(Effect::Send(self.id, say));
    }

    pub fn frame(&self, frame: CoordinatorFrame) {
        self.say(Say::Frame(frame));
    }

    pub fn shared(&self, frame: Arc<Shared>) {
        self.say(Say::Shared(frame));
    }

    /// Ends the connection after what was said.
    pub fn close(&self, last: Refused) {
        self.hand.say(Effect::Close(self.id, last));
    }

    /// Ends the connection, and drops what was said and is not sent yet.
    pub fn cut(&self, last: Refused) {
        self.hand.say(Effect::Cut(self.id, last));
    }

    /// The connection, and the bytes that came over it.
    pub fn heard(&self) -> (LinkId, u64) {
        (self.id, self.peer.traffic.read())
    }
}
