//! What a party knows of operators that let no round begin.
//!
//! The coordinator says so once it is so, and in the `Welcome` of every connection. The caller and the log are told of
//! what is new, and a second passes between two reasons: a coordinator that says something else all the time fills
//! neither.

use std::time::Duration;

use crate::machine::Time;

/// The least time between two reasons that are told. That rounds begin again is told at once.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Why no round begins, as the coordinator says.
#[derive(Default)]
pub(super) struct Held {
    /// What the coordinator said last; empty where rounds begin.
    pub latest: String,
    /// What the caller was told last.
    pub told: String,
    /// When the caller may be told another reason.
    pub next: Option<Time>,
}

impl Held {
    /// When the caller is told, if it must be told something.
    pub fn due(&self, now: Time) -> Option<Time> {
        let next = self.next.filter(|_| !self.latest.is_empty());
        (self.latest != self.told).then(|| next.unwrap_or(now))
    }
}
