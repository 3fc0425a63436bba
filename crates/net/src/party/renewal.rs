//! The renewal of a party's own certificate while the party runs.

use blindsum_crypto::calendar::utc;
use blindsum_crypto::certificate::{check_time, validity};
use tracing::error;

use super::driver::Driver;
use crate::pb::{RefusalCode, Refused};
use crate::tls::PartySide;

impl Driver {
    /// Shows the newest certificate from the next connection on.
    pub(super) fn show_newest(&mut self) {
        let newest = self.identity.side.current();
        if self.may_show(&newest) {
            self.identity.certificate = newest.certificate.clone();
            self.target.set_tls(newest.config.clone());
            self.uploads.set_tls(newest.to_servers.clone());
        }
    }

    /// Whether a new connection would show another certificate than this one.
    pub(super) fn has_newer(&self) -> bool {
        let newest = self.identity.side.current();
        newest.certificate != self.identity.certificate && self.may_show(&newest)
    }

    /// Where the own certificate is in its time by the clock here: from when until when, in words.
    ///
    /// # Errors
    /// That it is not, in words.
    pub(super) fn own_time(&self) -> Result<String, String> {
        let now = self.identity.side.clock().unix_seconds();
        let times = validity(&self.identity.certificate).map_err(|error| error.to_string())?;
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
        let own = &self.identity;
        let same_key = newest.key.verifying_key() == own.key.verifying_key();
        let same = newest.name == own.name && same_key;
        if !same {
            error!(party = %own.name, now = %newest.name,
                "the renewed certificate has another name or key: the one before it stays in use");
        }
        same
    }
}
