//! The models that parties were told.

use std::collections::{BTreeMap, BTreeSet};

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
    /// The models after rounds that the coordinator has forgotten.
    forgotten: Vec<Model>,
    /// Whether the coordinator has forgotten anything.
    is_reset: bool,
}

impl Models {
    /// Where a round starts from for a party.
    pub fn start(&self, party: usize, round: u64) -> Option<&Model> {
        self.starts.get(&(party, round))
    }

    /// The coordinator has lost all rounds but these.
    pub fn forget_but(&mut self, known: &BTreeSet<u64>) {
        self.is_reset = true;
        let lost = self.after.extract_if(.., |round, _| !known.contains(round));
        self.forgotten.extend(lost.map(|(_, model)| model));
    }

    /// Whether the coordinator has forgotten rounds, and perhaps the first model.
    pub fn has_forgotten(&self) -> bool {
        self.is_reset
    }

    /// Whether this was the model after a round that the coordinator has forgotten.
    pub fn is_forgotten(&self, model: &Model) -> bool {
        self.forgotten.contains(model)
    }
}
