//! What can be looked at while the job goes on: where it stands, what it has counted, and which answers it lets in.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::api::Gate;
use crate::machine::Time;
use crate::report::JobStatus;
use crate::totals::Totals;

/// Time between two tellings of who is here and how a stage goes on: each is as long as the roster.
const PROGRESS_EVERY: Duration = Duration::from_millis(50);

/// What is always there to be looked at: the latest of each, whoever has seen the one before.
pub(super) struct Board {
    gate: Mutex<Arc<Gate>>,
    status: Mutex<Arc<JobStatus>>,
    totals: Mutex<Totals>,
    progress: Mutex<Progress>,
}

/// What watchers are told now and then, not at each change.
#[derive(Default)]
struct Progress {
    /// Whether there is something new.
    is_new: bool,
    /// When they were told last.
    told: Option<Time>,
}

impl Board {
    pub fn new(gate: Gate, status: JobStatus, totals: Totals) -> Arc<Self> {
        Arc::new(Self {
            gate: Mutex::new(Arc::new(gate)),
            status: Mutex::new(Arc::new(status)),
            totals: Mutex::new(totals),
            progress: Mutex::default(),
        })
    }

    pub fn gate(&self) -> Arc<Gate> {
        latest(&self.gate)
    }

    pub fn status(&self) -> Arc<JobStatus> {
        latest(&self.status)
    }

    /// Changes what is counted.
    pub fn count(&self, change: impl FnOnce(&mut Totals)) {
        change(&mut self.totals.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// There is something new.
    pub fn news(&self) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.is_new = true;
    }

    /// Whether it is time to tell watchers something new; otherwise when it will be, if there is something.
    pub fn is_due(&self, now: Time) -> Result<(), Option<Time>> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if !progress.is_new {
            return Err(None);
        }
        let next = progress.told.map(|told| told + PROGRESS_EVERY);
        if let Some(next) = next.filter(|next| now < *next) {
            return Err(Some(next));
        }
        *progress = Progress {
            is_new: false,
            told: Some(now),
        };
        Ok(())
    }

    pub fn set_gate(&self, gate: Gate) {
        put(&self.gate, gate);
    }

    pub fn set_status(&self, status: JobStatus) {
        put(&self.status, status);
    }
}

/// What a job has counted, for those who watch it. Copies look at the same job.
#[derive(Clone)]
pub struct Counted(Arc<Board>);

impl Counted {
    pub(super) fn of(board: &Arc<Board>) -> Self {
        Self(board.clone())
    }

    /// The numbers at this moment.
    pub fn now(&self) -> Totals {
        let totals = self.0.totals.lock();
        totals.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn latest<T>(of: &Mutex<Arc<T>>) -> Arc<T> {
    of.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn put<T>(of: &Mutex<Arc<T>>, value: T) {
    *of.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
}
