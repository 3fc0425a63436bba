//! A party's own certificate, renewed while the party runs.

use tracing::error;

use super::task::Task;

impl Task {
    /// Shows the newest certificate from the next connection on. Not amid a round: its roster has the one before.
    pub(super) fn show_newest(&mut self) {
        let newest = self.identity.side.current();
        if newest.certificate != self.identity.certificate {
            if self.active.is_some() || self.memory.live.is_some() {
                return;
            }
            let same_key = newest.key.verifying_key() == self.identity.key.verifying_key();
            if newest.name != self.identity.name || !same_key {
                error!(party = %self.identity.name, now = %newest.name,
                    "the renewed certificate has another name or key: the one before it stays in use");
                return;
            }
            self.identity.certificate = newest.certificate.clone();
        }
        self.target.set_tls(newest.config.clone());
    }
}
