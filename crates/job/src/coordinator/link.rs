//! A connection as the job uses it.

use std::sync::Arc;

use super::api::{Effect, Input, LinkId, Peer, Say};
use super::shared::Shared;
use crate::machine::Hand;
use crate::membership::Lease;
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

    /// A party is let in over this connection: it is a member, with a lease of its own.
    pub fn grant(&self) {
        let (name, traffic) = (self.peer.name.clone(), self.peer.traffic.clone());
        self.hand.say(Effect::Lease(Lease::Grant { name, traffic }));
    }

    /// The party is no member any more, by its own will or the job's.
    pub fn release(&self) {
        let name = self.peer.name.clone();
        self.hand.say(Effect::Lease(Lease::Release { name }));
    }

    /// The connection, and the bytes that came over it.
    pub fn heard(&self) -> (LinkId, u64) {
        (self.id, self.peer.traffic.read())
    }
}
