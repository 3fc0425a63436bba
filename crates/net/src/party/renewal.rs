//! A party's own certificate, renewed while the party runs.

use tracing::error;

use super::task::{Ended, Task};
use crate::tls::PartySide;

impl Task {
    /// Shows the newest certificate from the next connection on.
    pub(super) fn show_newest(&mut self) {
        let newest = self.identity.side.current();
        if self.may_show(&newest) {
            self.identity.certificate = newest.certificate.clone();
            self.target.set_tls(newest.config.clone());
        }
    }

    /// Whether a new connection would show another certificate than this one.
    pub(super) fn has_newer(&self) -> bool {
        let newest = self.identity.side.current();
        newest.certificate != self.identity.certificate && self.may_show(&newest)
    }

    /// Files were read again between rounds. The certificate that this connection has shown may be over soon: a newer
    /// one is shown over another connection.
    pub(super) fn renewed(&self) -> Result<(), Ended> {
        match self.has_newer() {
            true => Err(Ended::Lost(
                "the certificate was renewed; showing the new one".into(),
            )),
            false => Ok(()),
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
