//! What a coordinator, or another server, shows of itself to those who watch it: how its jobs stand, what it has counted,
//! and when its certificates end. Looking costs no round anything.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use blindsum_job::coordinator::Counted;
use blindsum_job::totals::{Histogram, RefusedBecause, Totals};
use tokio::sync::watch;

use crate::StoreError;
use crate::counts::Counts;
use crate::relay::Spools;
use crate::report::{JobStatus, RoundReport};
use crate::store::{SqliteStore, Store};
use crate::system::WallClock;
use crate::tls::{Accepting, Renewed};

/// A server that is watched. Copies watch the same one.
#[derive(Clone)]
pub struct Watched {
    jobs: Arc<Shown>,
    own: Option<Seen>,
    counts: Arc<Counts>,
    certificates: Arc<dyn Ends + Send + Sync>,
    /// The clock of the machine, and both clocks when the server was started.
    clock: WallClock,
    started: (Instant, u64),
    stopping: watch::Receiver<bool>,
}

/// A job that is watched.
#[derive(Clone)]
pub struct WatchedJob {
    /// Its latest status, and every change of it.
    pub status: watch::Receiver<JobStatus>,
    pub(crate) counted: Counted,
}

impl WatchedJob {
    /// The counters of the job since the server was started.
    pub fn totals(&self) -> Totals {
        self.counted.now()
    }
}

/// Gives the jobs that there are: more may come while the server runs.
pub(crate) type Shown = Box<dyn Fn() -> Vec<WatchedJob> + Send + Sync>;

/// What only a coordinator has.
pub(crate) struct Kept {
    pub store: Arc<SqliteStore>,
    pub spools: Arc<Spools>,
}

/// The same as it is seen: whoever watches keeps no store open that its coordinator has closed.
#[derive(Clone)]
struct Seen {
    store: Weak<SqliteStore>,
    spools: Weak<Spools>,
}

impl From<Kept> for Seen {
    fn from(kept: Kept) -> Self {
        Self {
            store: Arc::downgrade(&kept.store),
            spools: Arc::downgrade(&kept.spools),
        }
    }
}

/// When certificates end, in seconds since 1970-01-01 00:00 UTC.
trait Ends {
    /// The server's own, and the CA's.
    fn certificates(&self) -> (u64, u64);
    /// The CA's revocation list, if there is one.
    fn list(&self) -> Option<u64>;
}

impl<S: Accepting> Ends for Renewed<S> {
    fn certificates(&self) -> (u64, u64) {
        self.current().ends()
    }

    fn list(&self) -> Option<u64> {
        self.anchor().lists_valid_until()
    }
}

impl Watched {
    pub(crate) fn new<S: Accepting>(
        jobs: Shown,
        own: Option<Kept>,
        counts: Arc<Counts>,
        side: &Arc<Renewed<S>>,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let clock = side.clock().clone();
        Self {
            jobs: Arc::new(jobs),
            own: own.map(Seen::from),
            counts,
            certificates: side.clone(),
            started: (Instant::now(), clock.unix_millis()),
            clock,
            stopping,
        }
    }

    /// The jobs that there are now, by name. A server that is not the coordinator knows nothing of how its job stands.
    pub fn jobs(&self) -> Vec<WatchedJob> {
        (self.jobs)()
    }

    /// Whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Milliseconds since 1970-01-01 00:00 UTC.
    pub fn unix_millis(&self) -> u64 {
        self.clock.unix_millis()
    }

    /// Seconds since 1970-01-01 00:00 UTC.
    pub fn unix_seconds(&self) -> u64 {
        self.clock.unix_seconds()
    }

    /// The last second of the server's own certificate, and of the CA's, since 1970-01-01 00:00 UTC.
    pub fn certificates_end(&self) -> (u64, u64) {
        self.certificates.certificates()
    }

    /// The first second in which the revocation list is out of date; `None` if there is no list.
    pub fn list_ends(&self) -> Option<u64> {
        self.certificates.list()
    }

    /// Seconds by which the clock of this machine was set forward since the server was started; negative if it was set back.
    pub fn clock_skew(&self) -> f64 {
        let (since, wall) = self.started;
        let by_wall = self.clock.unix_millis() as f64 - wall as f64;
        by_wall / 1000.0 - since.elapsed().as_secs_f64()
    }

    /// Bytes that came, and bytes that went, over connections of all jobs, TLS included.
    pub fn connection_bytes(&self) -> (u64, u64) {
        self.counts.bytes()
    }

    /// Refused and disconnected peers, by the reason.
    pub fn refused(&self) -> BTreeMap<RefusedBecause, u64> {
        self.counts.refused()
    }

    /// Bytes of answers to pass on, in memory and in temporary files; `None` if this server passes nothing on.
    pub fn relayed(&self) -> Option<(u64, u64)> {
        let spools = self.own.as_ref()?.spools.upgrade()?;
        Some((spools.used(), spools.spilled()))
    }

    /// Reports of the last rounds of a job, oldest first; none if this server has no store. Waits for a disk.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn rounds(&self, job: &str, most: u32) -> Result<Vec<RoundReport>, StoreError> {
        match self.own.as_ref().and_then(|own| own.store.upgrade()) {
            Some(store) => {
                let mut rounds = store.rounds(job, most)?;
                rounds.reverse();
                Ok(rounds)
            }
            None => Ok(Vec::new()),
        }
    }

    /// Bytes of the store's files and seconds of its transactions; `None` if this server has no store.
    pub fn store(&self) -> Option<(u64, Histogram)> {
        let store = self.own.as_ref()?.store.upgrade()?;
        Some((store.bytes(), store.transaction_seconds()))
    }
}
