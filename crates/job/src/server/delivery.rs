//! What is sent to the parties of a round under way: its beginning, messages, what a party has missed that comes back,
//! and that the round goes on without a party.

use std::sync::Arc;

use blindsum_protocol::{Outgoing, PartyId, Seat};

use super::Lead;
use super::face::{Content, Say};
use super::running::Running;
use super::shelf::Shelf;
use crate::pb;
use crate::report::Bytes;
use crate::totals::LossCause;

impl Lead {
    /// Sends the beginning of the round, or what a party that has come back missed of it.
    pub(super) fn send_start(&mut self, name: &str, answered: u32) {
        let (Some(running), Some(member)) = (&mut self.running, self.members.get_mut(name)) else {
            return;
        };
        let Some(party) = running.id(name) else {
            return;
        };
        let taken = running.place(party.into()).map_or(0, |p| p.answers);
        let start = running.beginning_for(taken, &mut member.shown);
        member.link.shared(start);
        let number = running.number();
        let Some(place) = running.place_mut(party.into()) else {
            return;
        };
        place.lost = None;
        place.owed.say(&member.link, number, answered);
    }

    /// Whether a party has said more in the round under way than it remembers: its records are of an earlier time, and
    /// what it would need to go on from there is not kept.
    fn is_older(&self, party: PartyId, answered: u32) -> bool {
        let running = self.running.as_ref();
        let place = running.and_then(|running| running.place(party.into()));
        place.is_some_and(|place| answered.saturating_add(1) < place.answers)
    }

    /// A party connects that says it is in a round: it goes on, or hears how the round ended.
    pub(super) async fn resume(&mut self, name: &Arc<str>, hello: &pb::Hello) {
        let place = self.running.as_ref().and_then(|running| {
            let party = running.id(name)?;
            let gone = running.place(party.into())?.gone.as_ref();
            let out = gone
                .filter(|gone| gone.told)
                .map(|gone| (gone.reason.clone(), gone.may_count));
            Some((running.number(), party, out))
        });
        match place {
            Some((round, party, None)) if round == hello.round => {
                return match self.is_older(party, hello.answered) {
                    false => self.send_start(name, hello.answered),
                    true => {
                        let reason = "came back with an older state of the round";
                        self.drop_party(round, party, LossCause::Restarted, reason);
                    }
                };
            }
            Some((round, _, Some((reason, may_count)))) if round == hello.round => {
                return self.members.tell_gone(round, name, &reason, may_count);
            }
            Some((round, party, None)) => {
                let reason =
                    "started again before its update was out, or without its state of the round";
                self.leave_round(round, party, LossCause::Restarted, reason);
            }
            _ => {}
        }
        self.forget_hearer(name, hello.round);
        let running = self.running.as_ref().map(Running::number);
        if place.is_none() && running == Some(hello.round) {
            let reason = "the round began without this party: it was not known to be ready";
            return self.members.tell_dropped(hello.round, name, reason);
        }
        let joining = self.joining.as_ref().map(|joining| joining.number);
        if hello.round != 0
            && Some(hello.round) != joining
            // guard: results-for-those-that-come-back
            && !self.send_end(name, hello.round, hello.answered)
        {
            self.send_past(name, hello.round).await;
        }
    }

    /// Sends what ends a stage; `shelf` has the answers to that stage which are passed on. What was passed
    /// on before is not needed any more. Who is told nothing waits on: the machine says whom it goes on without.
    pub(super) fn deliver_all(
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
        let Some(running) = &mut self.running else {
            return;
        };
        let round = running.number();
        let member = match seat {
            Seat::Party(party) => self.members.get(running.name(party)),
            Seat::Server(role) => self.members.server(role),
        };
        if let Some(place) = running.place_mut(seat) {
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
    pub(super) fn drop_seat(&mut self, round: u64, seat: Seat, cause: LossCause, reason: &str) {
        let role = match seat {
            Seat::Party(party) => return self.drop_party(round, party, cause, reason),
            Seat::Server(role) => role,
        };
        let Some(running) = self.running.as_mut().filter(|r| !r.is_gone(role)) else {
            return;
        };
        tracing::warn!(job = %self.context.name, round, %role, %reason, "server dropped out");
        running.drop_server(role, cause, reason);
        self.context.news();
    }

    /// A party loses its place in the round. It is told so at once, or at the end of the round where its
    /// vector may be in the sum.
    pub(super) fn drop_party(
        &mut self,
        round: u64,
        party: PartyId,
        cause: LossCause,
        reason: &str,
    ) {
        self.drop_out(round, party, (cause, reason), true);
    }

    /// A party has left the round and wants to hear no more of it.
    pub(super) fn leave_round(
        &mut self,
        round: u64,
        party: PartyId,
        cause: LossCause,
        reason: &str,
    ) {
        self.drop_out(round, party, (cause, reason), false);
    }

    fn drop_out(&mut self, round: u64, party: PartyId, why: (LossCause, &str), hears: bool) {
        let (cause, reason) = why;
        let Some(running) = &mut self.running else {
            return;
        };
        let name = running.name(party).clone();
        if !running.is_gone(party) {
            self.context.news();
            tracing::warn!(job = %self.context.name, round, party = %name, %reason, "dropped out");
            let stage = running.stage_name();
            self.context.count(|totals| totals.party_lost(stage, cause));
        }
        if running.drop_out(party, why, hears) {
            let place = running.place(party.into());
            let may_count = place
                .and_then(|place| place.gone.as_ref())
                .is_some_and(|gone| gone.may_count);
            self.members.tell_gone(round, &name, reason, may_count);
        }
    }

    /// Counts what went over a party's connection since it was last counted, for the round under way.
    pub(super) fn settle(&mut self, name: &str) {
        let Some(member) = self.members.get_mut(name) else {
            return;
        };
        let traffic = &member.link.peer.traffic;
        let (up, down) = (traffic.read(), traffic.written());
        let running = self.running.as_mut();
        if let Some(running) = running.filter(|r| r.id(name).is_some()) {
            let wire = running.report.wire.entry(name.into()).or_default();
            wire.up += up - member.counted.up;
            wire.down += down - member.counted.down;
        }
        member.counted = Bytes { up, down };
    }
}
