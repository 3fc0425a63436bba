//! What a coordinator shows to those who watch it.

use super::{Coordinator, Jobs};
use crate::watched::{Watched, WatchedJob};

impl Coordinator {
    /// What there is to be watched: the jobs, what is counted, and when certificates end.
    pub fn watched(&self) -> Watched {
        self.watched.clone()
    }
}

/// The jobs as they are watched.
pub(super) fn watched(jobs: &Jobs) -> Vec<WatchedJob> {
    let jobs = jobs.values();
    jobs.map(|job| WatchedJob {
        status: job.status.clone(),
        counted: job.counted.clone(),
    })
    .collect()
}
