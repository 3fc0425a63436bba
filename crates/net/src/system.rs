//! The clock and the system's random numbers, which are read nowhere else, and threads for work that may wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blindsum_job::actor::{Now, Task, Ticket, Time};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::NetError;

/// Seconds since 1970-01-01 00:00 UTC.
pub(crate) fn unix_seconds() -> u64 {
    unix_millis() / 1000
}

/// Milliseconds since 1970-01-01 00:00 UTC.
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as u64)
}

/// A clock that never goes back, since it was made.
#[derive(Clone, Copy)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub fn new() -> Self {
        Self(Instant::now())
    }

    pub fn now(&self) -> Now {
        Now {
            time: Time(self.0.elapsed()),
            unix_millis: unix_millis(),
        }
    }

    /// Waits for a time; for ever where there is none.
    pub async fn until(&self, time: Option<Time>) {
        match time {
            Some(time) => sleep_until(self.at(time)).await,
            None => std::future::pending().await,
        }
    }

    /// The same time as the runtime counts.
    pub fn at(&self, time: Time) -> Instant {
        let far = || Instant::now() + Duration::from_secs(1 << 30);
        self.0.checked_add(time.0).unwrap_or_else(far)
    }
}

/// Begins a task, on a thread that may wait.
pub(crate) fn begin(task: Task) -> (Ticket, JoinHandle<()>) {
    let ticket = task.ticket;
    (ticket, tokio::task::spawn_blocking(move || task.run()))
}

/// A fresh seed of the system, for a generator of its own.
pub(crate) fn entropy() -> Result<[u8; 32], NetError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|e| NetError::system(format!("the system gives no random numbers: {e}")))?;
    Ok(seed)
}
