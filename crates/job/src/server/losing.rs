//! A party is lost for good: its lease has run out, it has left the job, or its certificate counts no more. Nobody waits for
//! it any more.

use std::sync::Arc;

use blindsum_protocol::Seat;
use tracing::{info, warn};

use super::Lead;
use super::departed::departure;
use super::face::Peer;
use super::lost::{FAILED, Lost};
use crate::machine::Time;
use crate::pb::{self, LeavingCode, RefusalCode, Refused};

impl Lead {
    /// A party leaves the job. It is no member from now on. If its update is out, the round decides what becomes of it.
    pub(super) fn departs(&mut self, name: &Arc<str>, leaving: &pb::Leaving) {
        let Some(member) = self.members.get(name) else {
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
        self.members.departed.insert(name, reason.clone());
        self.leave(link, &reason, false);
        let now = self.context.now();
        let lost = match leaving.code() {
            LeavingCode::LeavingFailed => Lost::broken(now),
            _ => Lost::left(now),
        };
        // guard: who-has-left-may-still-count
        self.give_up(name, lost);
    }

    /// Why somebody of the round is not waited for any more.
    pub(super) fn why_lost(&self, seat: Seat, reason: &str) -> String {
        match (seat, self.phase.running()) {
            (Seat::Party(party), Some(running)) => {
                let name = running.name(party);
                let reported = self.calls.why_out(name);
                reported.unwrap_or_else(|| self.members.departed.reason(name, reason))
            }
            _ => reason.into(),
        }
    }

    /// A party has failed: its connection ends, and the round under way does without it. Should it live after all, it
    /// connects again.
    pub(super) fn lease_lost(&mut self, name: &Arc<str>) {
        let now = self.context.now();
        warn!(job = %self.context.name, party = %name, "failed: {FAILED}");
        self.context.count(|totals| totals.leases_expired += 1);
        if let Some(member) = self.members.get(name) {
            let link = member.link.id;
            let last = Refused::new(RefusalCode::RefusalTooSlow, FAILED);
            member.link.cut(last);
            self.leave(link, FAILED, true);
        }
        self.give_up(name, Lost::failed(now));
    }

    /// The round under way does not wait for a party any more.
    pub(super) fn give_up(&mut self, name: &str, lost: Lost) {
        if self.phase.joining().is_some() {
            let reason = self.members.departed.reason(name, lost.reason());
            self.calls.gave_up(name, lost, reason);
        }
        self.phase.failed(name, lost);
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

    /// What a party hears whose certificate counts no more.
    pub(super) fn unfit(&self, peer: &Peer) -> Option<Refused> {
        let is_in_round = self.phase.is_in_round(&peer.name);
        self.certificates.unfit(&self.context, peer, is_in_round)
    }

    /// Ends the connections of those whose certificate counts no more: they are in no round from now on, and get no
    /// further model. Whether there were any.
    pub(super) fn expel_unfit(&mut self) -> bool {
        self.certificates
            .look_at_times(&self.context, &self.members);
        let unfit = self.members.iter().filter_map(|(name, member)| {
            let refusal = self.unfit(&member.link.peer)?;
            Some((name.clone(), refusal))
        });
        let unfit: Vec<(Arc<str>, Refused)> = unfit.collect();
        for (name, refusal) in &unfit {
            warn!(job = %self.context.name, party = %name, reason = %refusal.reason, "the connection is closed");
            self.expel(name, refusal.clone());
            if refusal.code() == RefusalCode::RefusalCertificate {
                // It has no other certificate to come back with while the round runs.
                self.give_up(name, Lost::revoked(self.context.now()));
                self.members
                    .departed
                    .sent_away(name, "its certificate is revoked");
            }
        }
        !unfit.is_empty()
    }
}
