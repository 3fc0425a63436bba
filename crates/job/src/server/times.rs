//! Certificates that are not in their time by the coordinator's clock. While too few are for a round, one of the clocks may
//! be wrong: no round begins and none counts as failed, and the operator is told both dates.

use std::sync::Arc;

use blindsum_crypto::calendar::utc;
use blindsum_crypto::certificate::{CertificateError, UnixSeconds, check_time};
use tracing::{error, info};

use super::Lead;
use crate::first_few;

/// Whose certificates are not in their time, so that no round begins.
pub(super) struct OutOfTime {
    whose: Whose,
    /// What the operator is told.
    pub warning: String,
}

#[derive(PartialEq)]
enum Whose {
    /// The coordinator's own.
    Own,
    /// Those of these parties, and whether of all that are connected.
    Parties { names: Vec<Arc<str>>, all: bool },
}

impl Lead {
    /// Whether nobody can be certified for a round, whoever comes: the revocation list is out of date, or too few
    /// certificates are in their time.
    pub(super) fn cannot_certify(&self) -> bool {
        // guard: no-round-begins-out-of-time
        self.list_is_over() || self.out_of_time.is_some()
    }

    /// Whether the clock here may be wrong: by it the own certificate is not in its time, or nobody's is. Nobody is sent
    /// away then because a certificate has expired.
    pub(super) fn doubts_clock(&self) -> bool {
        let whose = self.out_of_time.as_ref().map(|found| &found.whose);
        matches!(whose, Some(Whose::Own | Whose::Parties { all: true, .. }))
    }

    /// Compares the times of certificates with the clock, and tells the operator where that is news.
    pub(super) fn look_at_times(&mut self) {
        let found = self.find_out_of_time(self.context.unix_seconds());
        let before = self.out_of_time.as_ref().map(|before| &before.whose);
        if found.as_ref().map(|found| &found.whose) == before {
            return;
        }
        match &found {
            Some(found) => error!(job = %self.context.name, "{}", found.warning),
            None => {
                info!(job = %self.context.name, "enough certificates are in their time: rounds may begin")
            }
        }
        self.out_of_time = found;
        self.context.news();
    }

    fn find_out_of_time(&self, now: UnixSeconds) -> Option<OutOfTime> {
        if let Some(own) = &self.context.parts.own
            && let Err(error) = check_time(own(), now)
        {
            let whose = Whose::Own;
            let warning = warning("the coordinator's own certificate", &error, now);
            return Some(OutOfTime { whose, warning });
        }
        let (need, have) = (self.context.least_roster(), self.members.len());
        let out = self.members.iter().filter_map(|(name, member)| {
            let certificate = &member.link.peer.certificate;
            let error = self
                .context
                .parts
                .anchor
                .verify_party(certificate, now)
                .err()?;
            error.is_of_time().then(|| (name.clone(), error))
        });
        let (names, errors): (Vec<_>, Vec<_>) = out.unzip();
        // One alone may just have ended.
        let all = names.len() == have && have > 1;
        let too_few = have >= need && have - names.len() < need;
        let (name, first) = names.first().zip(errors.first())?;
        if !all && !too_few {
            return None;
        }
        let what = format!(
            "those of {} of {have} connected parties ({}), where a round needs {need}; that of {name}",
            names.len(),
            first_few(&names),
        );
        let warning = warning(&what, first, now);
        Some(OutOfTime {
            whose: Whose::Parties { names, all },
            warning,
        })
    }
}

/// What the operator is told: whose certificates, both dates, and what to do.
fn warning(what: &str, error: &CertificateError, now: UnixSeconds) -> String {
    let (date, time) = match error {
        CertificateError::Expired { not_after, .. } => ("expired", *not_after),
        CertificateError::NotYetValid { not_before, .. } => ("is not valid before", *not_before),
        _ => ("checked", now),
    };
    format!(
        "by the clock of this machine ({}) certificates are not in their time: {what} {date} {}. No round begins and none counts \
         as failed until they are: check the clocks; if they are right, the CA must issue new certificates",
        utc(now),
        utc(time)
    )
}
