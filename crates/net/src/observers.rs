//! What notes those who connect to a server: an audit trail, if there is one, and counts.

use std::sync::Arc;

use crate::audit::Audit;
use crate::counts::Counts;

/// The observers of a server. Copies are the same ones.
#[derive(Clone, Default)]
pub(crate) struct Observers {
    /// The audit trail, if there is one.
    pub audit: Audit,
    /// How much and how many.
    pub counts: Arc<Counts>,
}
