//! Leases that are kept in the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::MembershipManager;
use crate::machine::Time;

/// Keeps leases in the process; they end with it.
#[derive(Debug)]
pub struct Embedded {
    lease: Duration,
    /// When each of them runs out.
    ends: BTreeMap<Arc<str>, Time>,
}

impl Embedded {
    /// Leases of this length.
    pub fn new(lease: Duration) -> Self {
        Self {
            lease,
            ends: BTreeMap::new(),
        }
    }
}

impl MembershipManager for Embedded {
    fn grant(&mut self, now: Time, name: &Arc<str>) {
        self.ends.insert(name.clone(), now + self.lease);
    }

    fn renew(&mut self, now: Time, name: &Arc<str>) {
        if let Some(end) = self.ends.get_mut(name) {
            *end = now + self.lease;
        }
    }

    fn release(&mut self, _now: Time, name: &Arc<str>) {
        self.ends.remove(name);
    }

    fn lost(&mut self, now: Time) -> Vec<Arc<str>> {
        let over = self.ends.extract_if(.., |_, end| *end <= now);
        over.map(|(name, _)| name).collect()
    }

    fn wake(&self) -> Option<Time> {
        self.ends.values().min().copied()
    }
}
