//! The marks of suspended states (`resume.rs`), and which of them a party used last.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// The marks of a party that may be suspended.
pub(super) struct Marks {
    /// The latest one that was used.
    pub latest: u64,
    /// Where whoever drives the party sees it, once its state is written.
    pub shown: Arc<AtomicU64>,
}

impl Marks {
    pub fn new(latest: u64, shown: Arc<AtomicU64>) -> Self {
        Self { latest, shown }
    }
}
