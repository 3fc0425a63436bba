//! What a coordinator shows to those who watch it.

use super::Coordinator;
use super::hosting::Jobs;
use crate::watched::{Shown, Watched, WatchedJob};

impl Coordinator {
    /// The observable state: the jobs, counters, and the expiry of certificates.
    pub fn watched(&self) -> Watched {
        self.watched.clone()
    }
}

/// The jobs as they are watched: those that there are when it is called.
pub(super) fn shown(jobs: &Jobs) -> Shown {
    let jobs = jobs.clone();
    Box::new(move || {
        let jobs = jobs.all().into_iter();
        jobs.map(|job| WatchedJob {
            status: job.status,
            counted: job.counted,
        })
        .collect()
    })
}
