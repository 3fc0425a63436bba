//! What happens at a coordinator, for a program that looks now and then, or never: the latest status, and the latest ends
//! of rounds. It never holds more, however long nobody looks.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use blindsum_net::NetError;
use blindsum_net::report::{JobStatus, RoundState};

/// The most ends of rounds that wait; the oldest are dropped.
const MAX_ENDS: usize = 256;

/// The next thing that a program is told.
pub enum News {
    Status(Arc<JobStatus>),
    /// The coordinator has stopped. Nothing follows.
    Over(Result<(), NetError>),
}

/// Holds what was not told yet.
#[derive(Default)]
pub struct Feed {
    held: Mutex<Held>,
    came: Condvar,
}

#[derive(Default)]
struct Held {
    /// Ends of rounds that were not told, oldest first.
    ends: VecDeque<Arc<JobStatus>>,
    /// The latest end, told or not.
    latest_end: Option<Arc<JobStatus>>,
    /// The latest status, until it is told.
    latest: Option<Arc<JobStatus>>,
    over: Option<Result<(), NetError>>,
    /// Whether `over` was told.
    is_over: bool,
}

impl Feed {
    /// A round has ended.
    pub fn ended_round(&self, end: Arc<JobStatus>) {
        self.change(|held| {
            if held.ends.len() >= MAX_ENDS {
                held.ends.pop_front();
            }
            held.latest.take_if(|latest| !is_after(latest, &end));
            held.latest_end = Some(end.clone());
            held.ends.push_back(end);
        });
    }

    /// The job has changed.
    pub fn changed(&self, status: JobStatus) {
        self.change(|held| {
            let latest_end = held.latest_end.as_deref();
            // An end may have come since that is newer.
            if latest_end.is_none_or(|end| is_after(&status, end)) {
                held.latest = Some(Arc::new(status));
            }
        });
    }

    /// The coordinator has stopped.
    pub fn over(&self, ended: Result<(), NetError>) {
        self.change(|held| held.over = Some(ended));
    }

    fn change(&self, change: impl FnOnce(&mut Held)) {
        change(&mut self.held.lock().unwrap_or_else(PoisonError::into_inner));
        self.came.notify_all();
    }

    /// The next thing to tell; `None` if nothing comes within `timeout`.
    pub fn next(&self, timeout: Duration) -> Option<News> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .came
            .wait_timeout_while(held, timeout, |held| !held.has_news());
        let (mut held, _) = waited.unwrap_or_else(PoisonError::into_inner);
        held.next()
    }
}

impl Held {
    fn has_news(&self) -> bool {
        !self.ends.is_empty() || self.latest.is_some() || self.over.is_some() || self.is_over
    }

    fn next(&mut self) -> Option<News> {
        if let Some(end) = self.ends.pop_front() {
            return Some(News::Status(end));
        }
        if let Some(latest) = self.latest.take() {
            return Some(News::Status(latest));
        }
        match self.over.take() {
            Some(ended) => {
                self.is_over = true;
                Some(News::Over(ended))
            }
            None => self.is_over.then_some(News::Over(Ok(()))),
        }
    }
}

/// Whether a status is of a later time than this end of a round.
fn is_after(status: &JobStatus, end: &JobStatus) -> bool {
    let place = |status: &JobStatus| {
        let round = status.round.as_ref()?;
        let is_over = matches!(round.state, RoundState::Done | RoundState::Aborted);
        Some((round.number, is_over))
    };
    status != end && place(status) >= place(end)
}
