//! The clock and the system's random numbers. They are read nowhere else.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blindsum_job::actor::{Now, Time};
use tokio::time::Instant;

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

    /// The same time as the runtime counts.
    pub fn at(&self, time: Time) -> Instant {
        let far = || Instant::now() + Duration::from_secs(1 << 30);
        self.0.checked_add(time.0).unwrap_or_else(far)
    }
}

/// A fresh seed of the system, for a generator of its own.
pub(crate) fn entropy() -> Result<[u8; 32], NetError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|e| NetError::system(format!("the system gives no random numbers: {e}")))?;
    Ok(seed)
}
