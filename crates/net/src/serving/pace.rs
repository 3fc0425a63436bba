//! How often one party or server may connect and send: a party by the name in its certificate, over all its connections
//! and streams. Who has had its turns waits for the next one, and is not refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blindsum_job::coordinator::Who;
use tokio::time::{Instant, sleep_until};

/// Streams that a party may begin at once, and the time in which it may begin one more. Each costs lines of the log
/// and a look into the store; an honest party has one a job, and another one when a connection breaks.
const STREAMS: (u32, Duration) = (30, Duration::from_secs(1));

/// The same of questions how jobs stand, once or for as long as it watches: an answer is as long as the roster.
const QUESTIONS: (u32, Duration) = (100, Duration::from_millis(100));

/// The same of frames other than chunks: a party has a handful to say in a round, and rounds may be short.
const FRAMES: (u32, Duration) = (1000, Duration::from_millis(1));

/// The paces of all that have come: one a name that the CA has certified, and one a server.
#[derive(Default)]
pub(crate) struct Paces(Mutex<BTreeMap<Who, Arc<Pace>>>);

impl Paces {
    pub fn of(&self, who: Who) -> Arc<Pace> {
        held(&self.0).entry(who).or_default().clone()
    }
}

/// The pace of one party.
pub(crate) struct Pace {
    streams: Mutex<Rate>,
    questions: Mutex<Rate>,
    frames: Mutex<Rate>,
}

impl Default for Pace {
    fn default() -> Self {
        let now = Instant::now();
        Self {
            streams: Mutex::new(Rate::new(STREAMS, now)),
            questions: Mutex::new(Rate::new(QUESTIONS, now)),
            frames: Mutex::new(Rate::new(FRAMES, now)),
        }
    }
}

impl Pace {
    /// Waits until the party may begin one more stream. Cancelling the wait uses up nothing.
    pub async fn stream(&self) {
        turn(&self.streams).await;
    }

    /// Waits until the party may ask once more.
    pub async fn question(&self) {
        turn(&self.questions).await;
    }

    /// Waits until the party may send one more frame.
    pub async fn frame(&self) {
        turn(&self.frames).await;
    }
}

async fn turn(rate: &Mutex<Rate>) {
    loop {
        let taken = held(rate).take(Instant::now());
        match taken {
            Ok(()) => return,
            Err(next) => sleep_until(next).await,
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Turns: so many at once, and then one each time that `every` has passed.
struct Rate {
    most: u32,
    every: Duration,
    /// When there will be as many turns as there can be, if none is taken.
    full: Instant,
}

impl Rate {
    fn new((most, every): (u32, Duration), now: Instant) -> Self {
        Self {
            most,
            every,
            full: now,
        }
    }

    /// Takes a turn, or says when the next one may be taken.
    fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let full = self.full.max(now) + self.every;
        let wait = (full - now).saturating_sub(self.every * self.most);
        if wait.is_zero() {
            self.full = full;
            return Ok(());
        }
        Err(now + wait)
    }
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::ServerRole;

    use super::*;

    #[test]
    fn case_31_turns_are_taken_at_once_and_then_one_by_one() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut rate = Rate::new((3, second), start);
        let mut at = |seconds: f64| rate.take(start + Duration::from_secs_f64(seconds));
        assert_eq!([at(0.0), at(0.0), at(0.0)], [Ok(()); 3]);
        // Asking takes nothing.
        assert_eq!([at(0.0), at(0.0)], [Err(start + second); 2]);
        assert_eq!(at(1.0), Ok(()));
        assert_eq!(at(1.5), Err(start + 2 * second));
        // What was not used is kept, and no more than there was at first.
        assert_eq!([at(60.0), at(60.0), at(60.0)], [Ok(()); 3]);
        assert_eq!(at(60.0), Err(start + 61 * second));
    }

    #[test]
    fn case_31_a_name_has_one_pace_whatever_its_connections() {
        let paces = Paces::default();
        let party = |name: &str| paces.of(Who::Party(name.into()));
        assert!(Arc::ptr_eq(&party("a"), &party("a")));
        assert!(!Arc::ptr_eq(&party("a"), &party("b")));
        let server = paces.of(Who::Server(ServerRole::Second));
        assert!(!Arc::ptr_eq(&party("a"), &server));
    }
}
