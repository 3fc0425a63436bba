//! Somebody goes: its connection has ended, it has left the job, or it has to go. What follows from it for the round under
//! way, and for whom waits for it.

use std::sync::Arc;

use blindsum_protocol::{Seat, ServerRole};
use tracing::{info, warn};

use super::api::LinkId;
use super::departed::departure;
use super::lost::{FAILED, Lost, LostBy};
use super::state::State;
use crate::foreign;
use crate::machine::Time;
use crate::pb::{self, LeavingCode, RefusalCode, Refused};
use crate::report::JobState;
use crate::totals::LossCause;

impl State {
    /// A connection has ended. `returns` says whether the party does not know that, and will come back.
    pub(super) fn leave(&mut self, link: LinkId, reason: &str, returns: bool) {
        let Some(name) = self.connections.name_at(link).cloned() else {
            return;
        };
        let (name, now) = (&name, self.context.now());
        // Whoever has left the job by itself is in the log already.
        if !self.connections.departed.has(name) {
            info!(job = %self.context.name, party = %name, %reason, "party left");
        }
        self.connections.settle(name, self.phase.running_mut());
        self.connections.leave(link, now, returns);
        self.phase.lost(name, now);
        self.forget_source(name);
        if self.phase.offered().is_some() {
            self.calls.left(name, now);
        }
        self.context.news();
    }

    /// Ends the connection of a party. It has gone at once: nothing that it says after this is heard, and nothing is
    /// queued for it, however slowly it reads.
    pub(super) fn expel(&mut self, name: &str, refusal: pb::Refused) {
        let Some(member) = self.connections.get(name) else {
            return;
        };
        let (link, reason) = (member.link.id, refusal.reason.clone());
        // guard: rule-breakers-go-at-once
        member.link.cut(refusal);
        self.leave(link, &reason, false);
    }

    /// Ends the connection of a party that sent what it must not send.
    pub(super) fn refuse(&mut self, name: &str, reason: &str) {
        self.expel(name, pb::Refused::new(RefusalCode::RefusalBadFrame, reason));
    }

    /// A party has gone, or has another connection: what it was asked for, or asked for, ended with the old one.
    pub(super) fn forget_source(&mut self, name: &Arc<str>) {
        let (sealed, joining) = (&mut self.models.sealed, self.phase.offered());
        if sealed.forget(name) {
            sealed.ask(&self.context, &self.connections, joining);
        }
        self.models.first.forget_giver(&self.context, name);
    }

    /// A party of the call is left out of its round, and told so.
    pub(super) fn leave_out(&mut self, round: u64, name: &str, reason: &str) {
        self.calls.lost(name, reason.into());
        self.connections.tell_dropped(round, name, reason);
    }

    /// The round under way does not wait for a party any more.
    pub(super) fn give_up(&mut self, name: &str, lost: Lost) {
        if self.phase.offered().is_some() {
            let reason = self.connections.departed.reason(name, lost.reason());
            self.calls.gave_up(name, lost, reason);
        }
        self.phase.failed(name, lost);
    }

    /// A party leaves the job. It is no member from now on. If its update is out, the round decides what becomes of it.
    pub(super) fn departs(&mut self, name: &Arc<str>, leaving: &pb::Leaving) {
        let Some(member) = self.connections.get(name) else {
            return;
        };
        let link = member.link.id;
        let reason = departure(leaving);
        // Nothing more is heard over it.
        let last = pb::Refused::new(RefusalCode::RefusalBadFrame, reason.clone());
        member.link.cut(last);
        match leaving.code() {
            LeavingCode::LeavingClosed | LeavingCode::LeavingStopped => {
                info!(job = %self.context.name, party = %name, %reason, "leaves the job");
            }
            _ => warn!(job = %self.context.name, party = %name, %reason, "leaves the job"),
        }
        self.connections.departed.insert(name, reason.clone());
        self.leave(link, &reason, false);
        let now = self.context.now();
        let lost = match leaving.code() {
            LeavingCode::LeavingFailed => Lost::new(now, LostBy::Broken),
            _ => Lost::new(now, LostBy::Left),
        };
        // guard: who-has-left-may-still-count
        self.give_up(name, lost);
    }

    /// A party has failed: its connection ends, and the round under way does without it. Should it live after all, it
    /// connects again.
    pub(super) fn lease_lost(&mut self, name: &Arc<str>) {
        let now = self.context.now();
        warn!(job = %self.context.name, party = %name, "failed: {FAILED}");
        self.context.count(|totals| totals.leases_expired += 1);
        if let Some(member) = self.connections.get(name) {
            let link = member.link.id;
            let last = Refused::new(RefusalCode::RefusalTooSlow, FAILED);
            member.link.cut(last);
            self.leave(link, FAILED, true);
        }
        self.give_up(name, Lost::new(now, LostBy::Failed));
    }

    /// Ends the connections of those whose certificate counts no more: they are in no round from now on, and get no
    /// further model. Whether there were any.
    pub(super) fn expel_unfit(&mut self) -> bool {
        self.certificates
            .look_at_times(&self.context, &self.connections);
        let unfit = self.connections.iter().filter_map(|(name, member)| {
            let is_in_round = self.phase.is_in_round(name);
            let peer = &member.link.peer;
            let refusal = self.certificates.unfit(&self.context, peer, is_in_round)?;
            Some((name.clone(), refusal))
        });
        let unfit: Vec<(Arc<str>, Refused)> = unfit.collect();
        for (name, refusal) in &unfit {
            warn!(job = %self.context.name, party = %name, reason = %refusal.reason, "the connection is closed");
            self.expel(name, refusal.clone());
            if refusal.code() == RefusalCode::RefusalCertificate {
                // It has no other certificate to come back with while the round runs.
                self.give_up(name, Lost::new(self.context.now(), LostBy::Revoked));
                self.connections
                    .departed
                    .insert(name, "its certificate is revoked".into());
            }
        }
        !unfit.is_empty()
    }

    /// Does what the revocation list asks for, where it is time to look; gives the time of the next look.
    pub(super) fn heed_list(&mut self) -> Time {
        let (is_time, next) = self.certificates.must_look(self.context.now());
        if is_time {
            // guard: the-revoked-have-to-go
            self.expel_unfit();
            self.certificates.warn(&self.context);
        }
        next
    }

    /// The host has learnt that a party takes no further part in the round.
    pub(super) fn reported_failed(&mut self, name: &Arc<str>, reason: &str) {
        let Some(call) = self.calls.naming(name) else {
            return;
        };
        let reason = match foreign(reason) {
            reason if reason.is_empty() => "the host reports that it has failed".into(),
            reason => format!("the host reports that it has failed: {reason}"),
        };
        call.out.insert(name.clone(), reason.clone());
        if let Some(joining) = self.phase.offered_mut() {
            joining.forget(name);
            let round = joining.number;
            self.connections.tell_dropped(round, name, &reason);
        }
        let now = self.context.now();
        self.give_up(name, Lost::new(now, LostBy::Reported));
    }

    /// Somebody loses its place in the round under way.
    pub(super) fn drop_seat(&mut self, seat: Seat, cause: LossCause, reason: &str) {
        if let Some(mut delivery) = self.delivery() {
            delivery.drop_seat(seat, cause, reason);
        }
    }

    /// The connection of a server has ended.
    pub(super) fn leave_server(&mut self, role: ServerRole, reason: &str) {
        match self.phase.state() {
            JobState::Done => info!(job = %self.context.name, %role, %reason, "server left"),
            _ => warn!(job = %self.context.name, %role, %reason, "server left"),
        }
        let now = self.context.now();
        self.connections.leave_server(role, now);
        if let Some(running) = self.phase.running_mut() {
            running.lost_seat(role.into(), now);
        }
        self.context.news();
    }
}
