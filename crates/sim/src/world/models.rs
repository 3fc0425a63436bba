//! The models that parties were told.

use std::collections::BTreeMap;

use blindsum_job::Model;

/// The models that parties were told.
#[derive(Default)]
pub(super) struct Models {
    /// By version and hash.
    pub named: BTreeMap<(u64, [u8; 32]), Model>,
    /// Where rounds start from, as each party was told it.
    pub starts: BTreeMap<(usize, u64), Model>,
    /// The models after rounds.
    pub after: BTreeMap<u64, Model>,
}

impl Models {
    /// Where a round starts from for a party.
    pub fn start(&self, party: usize, round: u64) -> Option<&Model> {
        self.starts.get(&(party, round))
    }
}
