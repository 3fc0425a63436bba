//! What is sent to the parties and servers of a round under way: its beginning, messages, what one has missed that comes
//! back, and that the round goes on without it.

use std::sync::Arc;

use blindsum_protocol::{Outgoing, PartyId, Seat};
use tracing::warn;

use super::api::{Content, Say};
use super::connections::Connections;
use super::context::Context;
use super::running::Running;
use super::shelf::Shelf;
use crate::totals::LossCause;

/// A round under way, and the connections of those who are in it.
pub(super) struct Delivery<'a> {
    pub context: &'a Context,
    pub members: &'a mut Connections,
    pub running: &'a mut Running,
}

impl Delivery<'_> {
    /// Everybody in the round is told of it: the servers, then the parties.
    pub fn start_all(&mut self) {
        let now = self.context.now();
        let servers: Vec<Seat> = self.running.servers.roles().map(Seat::from).collect();
        let parties = (0..self.running.names().len() as u32).map(|rank| PartyId(rank).into());
        for seat in servers.into_iter().chain(parties) {
            if !self.start(seat, 0) {
                self.running.lost_seat(seat, now);
            }
        }
    }

    /// Sends the beginning of the round, or what somebody that has come back missed of it; false where it is not connected.
    pub fn start(&mut self, seat: Seat, answered: u32) -> bool {
        let member = match seat {
            Seat::Party(party) => self.members.get_mut(self.running.name(party)),
            Seat::Server(role) => self.members.server_mut(role),
        };
        let Some(member) = member else {
            return false;
        };
        let taken = self.running.place(seat).map_or(0, |place| place.answers);
        let start = self.running.beginning_for(taken, &mut member.shown);
        member.link.shared(start);
        let number = self.running.number();
        if let Some(place) = self.running.place_mut(seat) {
            place.lost = None;
            place.owed.say(&member.link, number, answered);
        }
        true
    }

    /// A party that is still in the round has come back: it goes on, unless its records are of an earlier time.
    pub fn resume(&mut self, party: PartyId, answered: u32) {
        if self.running.is_older(party, answered) {
            let reason = "came back with an older state of the round";
            return self.drop_party(party, LossCause::Restarted, reason);
        }
        self.start(party.into(), answered);
    }

    /// Sends what ends a stage; `shelf` has the answers to that stage which are passed on. What was passed
    /// on before is not needed any more. Who is told nothing waits on: the machine says whom it goes on without.
    pub fn deliver_all(
        &mut self,
        stage: u8,
        messages: Vec<(Seat, Outgoing)>,
        shelf: Box<dyn Shelf>,
    ) {
        let shelf: Arc<dyn Shelf> = shelf.into();
        for (seat, outgoing) in messages {
            let (message, shelf) = match outgoing.is_whole() {
                true => (Content::Here(outgoing.head), None),
                false => {
                    let kept = Content::Kept {
                        outgoing: outgoing.into(),
                        shelf: Arc::downgrade(&shelf),
                    };
                    (kept, Some(shelf.clone()))
                }
            };
            self.deliver(seat, stage, message, shelf);
        }
    }

    /// Sends a message to somebody in the round, now or when it comes back.
    fn deliver(&mut self, seat: Seat, stage: u8, message: Content, shelf: Option<Arc<dyn Shelf>>) {
        let round = self.running.number();
        let member = match seat {
            Seat::Party(party) => self.members.get(self.running.name(party)),
            Seat::Server(role) => self.members.server(role),
        };
        if let Some(place) = self.running.place_mut(seat) {
            place.owed.add(stage, message.clone(), shelf);
        }
        if let Some(member) = member {
            member.link.say(Say::Message {
                round,
                stage,
                content: message,
            });
        }
    }

    /// Somebody loses its place in the round: a party as by [`drop_party`](Self::drop_party), another server for good.
    pub fn drop_seat(&mut self, seat: Seat, cause: LossCause, reason: &str) {
        let role = match seat {
            Seat::Party(party) => return self.drop_party(party, cause, reason),
            Seat::Server(role) => role,
        };
        if self.running.is_gone(role) {
            return;
        }
        let round = self.running.number();
        warn!(job = %self.context.name, round, %role, %reason, "server dropped out");
        self.running.drop_server(role, cause, reason);
        self.context.news();
    }

    /// A party loses its place in the round. It is told so at once, or at the end of the round where its
    /// vector may be in the sum.
    fn drop_party(&mut self, party: PartyId, cause: LossCause, reason: &str) {
        self.drop_out(party, (cause, reason), true);
    }

    /// A party has left the round and wants to hear no more of it.
    pub fn leave_round(&mut self, party: PartyId, cause: LossCause, reason: &str) {
        self.drop_out(party, (cause, reason), false);
    }

    fn drop_out(&mut self, party: PartyId, why: (LossCause, &str), hears: bool) {
        let ((cause, reason), round) = (why, self.running.number());
        let name = self.running.name(party).clone();
        if !self.running.is_gone(party) {
            self.context.news();
            warn!(job = %self.context.name, round, party = %name, %reason, "dropped out");
            let stage = self.running.stage_name();
            self.context.count(|totals| totals.party_lost(stage, cause));
        }
        if self.running.drop_out(party, why, hears) {
            let place = self.running.place(party.into());
            let may_count = place
                .and_then(|place| place.gone.as_ref())
                .is_some_and(|gone| gone.may_count);
            self.members.tell_gone(round, &name, reason, may_count);
        }
    }
}
