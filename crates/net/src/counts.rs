//! What a server counts of all who connect to it, of all jobs together.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use blindsum_job::totals::RefusedBecause;

/// Bytes of connections, and who was not let in.
#[derive(Debug)]
pub(crate) struct Counts {
    refused: Mutex<BTreeMap<RefusedBecause, u64>>,
    received: AtomicU64,
    sent: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        let none = RefusedBecause::ALL.iter().map(|reason| (*reason, 0));
        Self {
            refused: Mutex::new(none.collect()),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        }
    }
}

impl Counts {
    /// Somebody was not let in, or was sent away.
    pub fn refuse(&self, reason: RefusedBecause) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(reason).or_default() += 1;
    }

    /// Bytes came over a connection.
    pub fn receive(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes went over a connection.
    pub fn send(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How many were refused, by the reason.
    pub fn refused(&self) -> BTreeMap<RefusedBecause, u64> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.clone()
    }

    /// Bytes that came, and bytes that went, over all connections.
    pub fn bytes(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.received), read(&self.sent))
    }
}
