//! Certificates while a job runs: a party whose certificate is on the CA's revocation list or has expired must leave,
//! and the operator is warned in time that the list expires.

use std::time::Duration;

use blindsum_crypto::calendar::{UnixSeconds, utc};
use blindsum_crypto::certificate::CertificateError;
use tracing::{error, info, warn};

use super::api::Peer;
use super::connections::Connections;
use super::context::Context;
use super::times::OutOfTime;
use crate::machine::Time;
use crate::pb::{self, RefusalCode};

/// Time between two looks at the list. A changed file is read as often.
pub(super) const LIST_LOOK: Duration = Duration::from_secs(2);

/// So long before its end a list is warned of: a week.
const WARNED_AHEAD: UnixSeconds = 7 * 86_400;

/// Whether parties can be certified, and what the operator must do about it.
pub(super) struct CertificateWatch {
    /// What the operator must do soon; empty where that is nothing.
    warning: String,
    /// Whose certificates are not in their time, where no round begins because of that.
    out_of_time: Option<OutOfTime>,
    /// When the list is looked at next.
    next_look: Time,
}

impl CertificateWatch {
    /// Nothing was looked at yet.
    pub fn new(now: Time) -> Self {
        Self {
            warning: String::new(),
            out_of_time: None,
            next_look: now,
        }
    }

    /// What the operator must do soon; empty where that is nothing.
    pub fn warning(&self) -> &str {
        &self.warning
    }

    /// Whether it is time to look at the list, and when it is the next time.
    pub fn must_look(&mut self, now: Time) -> (bool, Time) {
        let is_time = now >= self.next_look;
        if is_time {
            self.next_look = now + LIST_LOOK;
        }
        (is_time, self.next_look)
    }

    /// Warns the operator, where there is something new to warn of.
    pub fn warn(&mut self, context: &Context) {
        let of_list = list_warning(context);
        // Of certificates out of their time the log says so already.
        let of_times = match list_is_over(context) {
            true => None,
            false => self.out_of_time.as_ref().map(|found| found.warning.clone()),
        };
        let is_logged = of_times.is_some() || of_list.is_empty();
        let warning = of_times.unwrap_or(of_list);
        if warning != self.warning {
            match list_is_over(context) {
                true => error!(job = %context.name, "{warning}"),
                false if !is_logged => warn!(job = %context.name, "{warning}"),
                false => {}
            }
            self.warning = warning;
            context.news();
        }
    }

    /// Whether nobody can be certified for a round, whoever comes: the revocation list is out of date, or too few
    /// certificates are in their time.
    pub fn cannot_certify(&self, context: &Context) -> bool {
        // guard: no-round-begins-out-of-time
        list_is_over(context) || self.out_of_time.is_some()
    }

    /// Why nobody can be certified now.
    pub fn why_not_certified(&self, context: &Context) -> String {
        match &self.out_of_time {
            Some(found) if !list_is_over(context) => found.warning.clone(),
            _ => list_warning(context),
        }
    }

    /// Compares the times of certificates with the clock, and tells the operator where that is news.
    pub fn look_at_times(&mut self, context: &Context, members: &Connections) {
        let (found, before) = (OutOfTime::find(context, members), &self.out_of_time);
        let is_news = match (&found, before) {
            (Some(found), Some(before)) => !found.is_like(before),
            (found, before) => found.is_some() != before.is_some(),
        };
        if !is_news {
            return;
        }
        match &found {
            Some(found) => error!(job = %context.name, "{}", found.warning),
            None => {
                info!(job = %context.name, "enough certificates are in their time: rounds may begin")
            }
        }
        self.out_of_time = found;
        context.news();
    }

    /// What a party hears whose certificate counts no more: it is on the list, or its time is over. Whose time ends
    /// amid a round goes on to the end of it. If the clock here may be wrong, nobody's time is over.
    pub fn unfit(&self, context: &Context, peer: &Peer, is_in_round: bool) -> Option<pb::Refused> {
        let now = context.unix_seconds();
        let doubts_clock = self
            .out_of_time
            .as_ref()
            .is_some_and(OutOfTime::doubts_clock);
        let verified = context.parts.anchor.verify_party(&peer.certificate, now);
        let (code, reason) = match verified {
            Err(CertificateError::Revoked) => (
                RefusalCode::RefusalCertificate,
                "the coordinator does not accept this party's certificate any more, it is revoked: ask the CA for a \
                 new one"
                    .into(),
            ),
            Err(CertificateError::Expired { not_after, now })
                // guard: certificates-that-end-are-refused, nobody-is-expelled-by-a-wrong-clock
                if !is_in_round && !doubts_clock =>
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
}

/// Whether there is a list and its time is over: nobody can be certified then.
fn list_is_over(context: &Context) -> bool {
    let until = context.parts.anchor.lists_valid_until();
    // guard: no-round-without-a-valid-list
    until.is_some_and(|until| until <= context.unix_seconds())
}

fn list_warning(context: &Context) -> String {
    warning(
        context.parts.anchor.lists_valid_until(),
        context.unix_seconds(),
    )
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
