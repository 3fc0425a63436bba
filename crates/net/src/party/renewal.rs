//! The renewal of a party's own certificate while the party runs.

use std::sync::Arc;

use blindsum_crypto::calendar::utc;
use blindsum_crypto::certificate::{check_time, validity};
use tracing::error;

use crate::pb::{RefusalCode, Refused};
use crate::tls::{OwnIdentity, PartySide};

impl OwnIdentity {
    /// What the next connection shows, which is the newest certificate; none where the party would be another with it.
    pub(super) fn newest(&mut self) -> Option<Arc<PartySide>> {
        let newest = self.side.current();
        if !self.may_show(&newest) {
            return None;
        }
        self.certificate.clone_from(&newest.certificate);
        Some(newest)
    }

    /// Whether a new connection would show another certificate than this one.
    pub(super) fn has_newer(&self) -> bool {
        let newest = self.side.current();
        newest.certificate != self.certificate && self.may_show(&newest)
    }

    /// Where the own certificate is in its time by the clock here: from when until when, in words.
    ///
    /// # Errors
    /// That it is not, in words.
    pub(super) fn own_time(&self) -> Result<String, String> {
        let now = self.side.clock().unix_seconds();
        let times = validity(&self.certificate).map_err(|error| error.to_string())?;
        let said = check_time(times, now).map_err(|error| error.to_string());
        said.map(|()| {
            let (from, until) = times;
            format!(
                "by the clock here ({}) this party's certificate is valid, {} to {}",
                utc(now),
                utc(from),
                utc(until)
            )
        })
    }

    /// The coordinator says that this side's certificate is not in its time. Where that is so by the clock here, too, it
    /// refuses the certificate for good; otherwise one of the clocks is wrong, and the party comes again.
    pub(super) fn compare_clocks(&self, refused: &mut Refused) {
        if refused.code() != RefusalCode::RefusalOutOfTime {
            return;
        }
        match self.own_time() {
            Ok(times) => refused.reason = format!("{times}; {}", refused.reason),
            Err(_) => refused.set_code(RefusalCode::RefusalCertificate),
        }
    }

    /// The party stays who it is.
    fn may_show(&self, newest: &PartySide) -> bool {
        let same_key = newest.key.verifying_key() == self.key.verifying_key();
        let same = newest.name == self.name && same_key;
        if !same {
            error!(party = %self.name, now = %newest.name,
                "the renewed certificate has another name or key: the one before it stays in use");
        }
        same
    }
}
