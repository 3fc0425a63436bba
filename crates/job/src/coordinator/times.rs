//! Certificates that are not in their time by the coordinator's clock. While too few are for a round, one of the clocks may
//! be wrong: no round begins and none counts as failed, and the operator is told both dates.

use std::sync::Arc;

use blindsum_crypto::calendar::utc;
use blindsum_crypto::certificate::{CertificateError, UnixSeconds, check_time};

use super::connections::Connections;
use super::context::Context;
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

impl OutOfTime {
    /// Compares the times of certificates with the clock.
    pub fn find(context: &Context, members: &Connections) -> Option<Self> {
        let now = context.unix_seconds();
        if let Some(own) = &context.parts.own
            && let Err(error) = check_time(own(), now)
        {
            let whose = Whose::Own;
            let warning = warning("the coordinator's own certificate", &error, now);
            return Some(Self { whose, warning });
        }
        let (need, have) = (context.least_roster(), members.len());
        let out = members.iter().filter_map(|(name, member)| {
            let certificate = &member.link.peer.certificate;
            let verified = context.parts.anchor.verify_party(certificate, now);
            let error = verified.err()?;
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
        Some(Self {
            whose: Whose::Parties { names, all },
            warning,
        })
    }

    /// Whether these are the same certificates.
    pub fn is_like(&self, other: &Self) -> bool {
        self.whose == other.whose
    }

    /// Whether the clock here may be wrong: by it the own certificate is not in its time, or nobody's is.
    pub fn doubts_clock(&self) -> bool {
        matches!(self.whose, Whose::Own | Whose::Parties { all: true, .. })
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
