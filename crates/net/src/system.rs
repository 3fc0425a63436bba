//! The clock and the system's random numbers, which are read nowhere else, and threads for work that may wait.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blindsum_job::machine::{Now, Task, Ticket, Time};
use rustls::time_provider::TimeProvider;
use rustls_pki_types::UnixTime;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::NetError;

/// A clock that tells the time of day, by which certificates are in their time or not. It may be wrong.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl WallClock {
    /// The clock of this machine.
    pub fn system() -> Self {
        Self(Arc::new(unix_millis))
    }

    /// A clock that gives milliseconds since 1970-01-01 00:00 UTC: for tests and simulations.
    pub fn new(unix_millis: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(unix_millis))
    }

    pub(crate) fn unix_millis(&self) -> u64 {
        (self.0)()
    }

    /// Seconds since 1970-01-01 00:00 UTC.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.unix_millis() / 1000
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WallClock")
    }
}

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_millis(
            self.unix_millis(),
        )))
    }
}

/// Milliseconds since 1970-01-01 00:00 UTC.
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as u64)
}

/// A clock that never goes back, since it was made, with the time of day beside it.
#[derive(Clone)]
pub(crate) struct Clock(Instant, WallClock);

impl Clock {
    pub fn new(wall: WallClock) -> Self {
        Self(Instant::now(), wall)
    }

    pub fn now(&self) -> Now {
        Now {
            time: Time(self.0.elapsed()),
            unix_millis: self.1.unix_millis(),
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
