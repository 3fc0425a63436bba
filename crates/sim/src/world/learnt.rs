//! The results that servers learn, for their operators.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use blindsum_job::results::{LearntResult, Results};
use blindsum_protocol::{Job, ServerIndex};

/// What each server of a job has kept; nothing where the coordinator is alone.
#[derive(Default)]
pub(super) struct Learnt {
    servers: BTreeMap<ServerIndex, Arc<Kept>>,
    /// Rounds that count and were looked at, each with how often the coordinator had come back with a store of an earlier
    /// time.
    checked: BTreeSet<(u64, u64)>,
}

/// What one server has kept, by round.
#[derive(Default)]
struct Kept(Mutex<BTreeMap<u64, LearntResult>>);

impl Results for Kept {
    fn place(&self) -> &Path {
        Path::new("memory")
    }

    fn keep(&self, round: u64, result: &LearntResult) -> io::Result<()> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(round, result.clone());
        Ok(())
    }
}

impl Learnt {
    pub fn of(job: &Job) -> Self {
        let places = match job.computing_servers().next() {
            Some(_) => &ServerIndex::ALL[..],
            None => &[],
        };
        Self {
            servers: places
                .iter()
                .map(|place| (*place, Arc::default()))
                .collect(),
            checked: BTreeSet::new(),
        }
    }

    /// Where a server keeps what it learns.
    pub fn results(&self, place: ServerIndex) -> Option<Arc<dyn Results>> {
        let kept = self.servers.get(&place)?;
        Some(kept.clone())
    }

    /// Whether servers learn something of a round that was not looked at yet. It is now.
    pub fn is_unchecked(&mut self, round: u64, epoch: u64) -> bool {
        !self.servers.is_empty() && self.checked.insert((round, epoch))
    }

    /// What each server has kept of a round; `None` of one that has kept nothing.
    pub fn round(&self, round: u64) -> impl Iterator<Item = (ServerIndex, Option<LearntResult>)> {
        self.servers.iter().map(move |(place, kept)| {
            let kept = kept.0.lock().unwrap_or_else(PoisonError::into_inner);
            (*place, kept.get(&round).cloned())
        })
    }
}
