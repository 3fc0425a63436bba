//! Certificates while a job runs: a party whose certificate is on the CA's revocation list or has expired must leave,
//! and the operator is warned in time that the list expires.

use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::calendar::{UnixSeconds, utc};
use blindsum_crypto::certificate::CertificateError;
use tracing::{error, warn};

use super::Lead;
use super::face::Peer;
use super::failed::Lost;
use crate::machine::Time;
use crate::pb::{self, RefusalCode};

/// Time between two looks at the list. A changed file is read as often.
pub(super) const LIST_LOOK: Duration = Duration::from_secs(2);

/// So long before its end a list is warned of: a week.
const WARNED_AHEAD: UnixSeconds = 7 * 86_400;

impl Lead {
    /// Does what the list asks for, where it is time to look; gives the time of the next look.
    pub(super) fn heed_list(&mut self) -> Time {
        if self.context.now() < self.list_look {
            return self.list_look;
        }
        self.list_look = self.context.now() + LIST_LOOK;
        // guard: the-revoked-have-to-go
        self.expel_unfit();
        let of_list = self.list_warning();
        // Of certificates out of their time the log says so already.
        let of_times = match self.list_is_over() {
            true => None,
            false => self.out_of_time.as_ref().map(|found| found.warning.clone()),
        };
        let is_logged = of_times.is_some() || of_list.is_empty();
        let warning = of_times.unwrap_or(of_list);
        if warning != self.warning {
            match self.list_is_over() {
                true => error!(job = %self.context.name, "{warning}"),
                false if !is_logged => warn!(job = %self.context.name, "{warning}"),
                false => {}
            }
            self.warning = warning;
            self.context.news();
        }
        self.list_look
    }

    fn list_warning(&self) -> String {
        let now = self.context.unix_seconds();
        warning(self.context.parts.anchor.lists_valid_until(), now)
    }

    /// Why nobody can be certified now.
    pub(super) fn why_not_certified(&self) -> String {
        match &self.out_of_time {
            Some(found) if !self.list_is_over() => found.warning.clone(),
            _ => self.list_warning(),
        }
    }

    /// Whether there is a list and its time is over: nobody can be certified then.
    pub(super) fn list_is_over(&self) -> bool {
        let until = self.context.parts.anchor.lists_valid_until();
        // guard: no-round-without-a-valid-list
        until.is_some_and(|until| until <= self.context.unix_seconds())
    }

    /// What a party hears whose certificate counts no more: it is on the list, or its time is over. Whose time ends
    /// amid a round goes on to the end of it. If the clock here may be wrong, nobody's time is over.
    pub(super) fn unfit(&self, peer: &Peer) -> Option<pb::Refused> {
        let verified = self
            .context
            .parts
            .anchor
            .verify_party(&peer.certificate, self.context.unix_seconds());
        let (code, reason) = match verified {
            Err(CertificateError::Revoked) => (
                RefusalCode::RefusalCertificate,
                "the coordinator does not accept this party's certificate any more, it is revoked: ask the CA for a \
                 new one"
                    .into(),
            ),
            Err(CertificateError::Expired { not_after, now })
                // guard: certificates-that-end-are-refused, nobody-is-expelled-by-a-wrong-clock
                if !self.is_in_round(&peer.name) && !self.doubts_clock() =>
            {
                // Its reader cuts long texts off: what to do comes early.
                let reason = format!(
                    "this party's certificate expired {} by the coordinator's clock ({}): check the clocks, or renew it \
                     (blindsum pki sign CA NAME.csr --replace), put the new certificate in the place of the old one, and \
                     start the party again",
                    utc(not_after),
                    utc(now)
                );
                (RefusalCode::RefusalOutOfTime, reason)
            }
            _ => return None,
        };
        Some(pb::Refused::new(code, reason))
    }

    fn is_in_round(&self, name: &str) -> bool {
        let running = self.running.as_ref();
        running.is_some_and(|running| running.id(name).is_some_and(|id| !running.is_gone(id)))
    }

    /// Ends the connections of those whose certificate counts no more: they are in no round from now on, and get no
    /// further model. Whether there were any.
    pub(super) fn expel_unfit(&mut self) -> bool {
        self.look_at_times();
        let unfit = self.members.iter().filter_map(|(name, member)| {
            let refusal = self.unfit(&member.link.peer)?;
            Some((name.clone(), refusal))
        });
        let unfit: Vec<(Arc<str>, pb::Refused)> = unfit.collect();
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

/// What is to be done about a list that ends at `until`; empty where that is nothing.
fn warning(until: Option<UnixSeconds>, now: UnixSeconds) -> String {
    match until {
        Some(until) if until <= now => format!(
            "the revocation list is out of date since {}: no party can be let in, and no round begins, until there is \
             a new one; at the CA: blindsum pki revoke CA",
            utc(until)
        ),
        Some(until) if until - now <= WARNED_AHEAD => format!(
            "the revocation list ends {}, and then no round begins: give the coordinator a new one before; at the CA: \
             blindsum pki revoke CA",
            utc(until)
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::warning;

    #[test]
    fn a_list_is_warned_of_a_week_before_its_end_and_after_it() {
        let (until, day) = (1_800_000_000, 86_400);
        assert_eq!(warning(None, until), "");
        assert_eq!(warning(Some(until), until - 8 * day), "");
        let soon = warning(Some(until), until - 6 * day);
        assert!(soon.contains("ends 2027-01-15 08:00:00 UTC"), "{soon}");
        // It does not change from day to day: it is said once.
        assert_eq!(warning(Some(until), until - day), soon);
        let over = warning(Some(until), until);
        assert!(
            over.contains("out of date since 2027-01-15 08:00:00 UTC"),
            "{over}"
        );
    }
}
