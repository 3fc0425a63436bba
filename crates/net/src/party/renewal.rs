//! The renewal of a party's own certificate while the party runs.

use tracing::error;

use super::driver::Driver;
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
