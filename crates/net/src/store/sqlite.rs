//! The store in one SQLite file, with a write-ahead log. Others may read it while a coordinator uses it (`reader.rs`),
//! but no second coordinator may use it (`lock.rs`).

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use blindsum_job::store::other_spec;
use blindsum_job::totals::Histogram;
use blindsum_protocol::Job;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::errors::store_error;
use super::lock::StoreLock;
use super::{
    Ending, OrderRecord, Release, ShownFault, Store, StoredJob, conducts, endings, faults, firsts,
    opening, orders, read, releases, rounds,
};
use crate::report::{JobState, RoundReport, RoundState};
use crate::system::unix_millis;
use crate::{Model, StoreError};

/// Marks a file as ours: "blsm".
const APPLICATION_ID: i32 = 0x626c_736d;
/// Version of the tables and of what is written in them. Up to 2, specifications had another form and other hashes; up to 3,
/// nothing was known of who sits out rounds, and claims were kept like faults.
const TABLES_VERSION: i32 = 4;
/// Bytes of a row of a model: far below SQLite's limit for one value.
const MODEL_PIECE: usize = 4 << 20;

/// Bytes of a page of a new file. A round writes megabytes; each page takes a call of the system and a check of its own.
const PAGE: u32 = 16 << 10;
/// Bytes written into the log from which on it is moved into the file when a round begins: nobody waits then, while at a
/// round's end all parties wait for their result.
const LOG: u64 = 4 << 20;
/// Rounds after which that is done, however short they are: somebody who copies the file alone has an old job then, and
/// not none.
const ROUNDS_LOGGED: u64 = 8;
/// Pages of a log that is moved at once, whatever happens.
const LARGEST_LOG: u32 = 4096;

/// Ranges of the seconds of transactions.
const SECONDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0];

const TABLES: &str = "
CREATE TABLE jobs (
    job TEXT PRIMARY KEY,
    spec TEXT NOT NULL,
    spec_hash BLOB NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    model_version INTEGER NOT NULL
) STRICT;
CREATE TABLE rounds (
    job TEXT NOT NULL REFERENCES jobs,
    round INTEGER NOT NULL,
    state TEXT NOT NULL,
    report TEXT NOT NULL,
    PRIMARY KEY (job, round)
) STRICT, WITHOUT ROWID;
CREATE TABLE models (
    job TEXT NOT NULL REFERENCES jobs,
    version INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (job, version)
) STRICT, WITHOUT ROWID;
CREATE TABLE model_pieces (
    job TEXT NOT NULL,
    version INTEGER NOT NULL,
    piece INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (job, version, piece)
) STRICT;
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    job TEXT NOT NULL,
    round INTEGER NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
";

/// A store in a file that no other coordinator can use at the same time.
pub struct SqliteStore {
    connection: Mutex<Connection>,
    path: String,
    models_kept: u32,
    /// Bytes that were written since the log was moved into the file; a round counts as [`LOG`] / [`ROUNDS_LOGGED`] at least.
    logged: AtomicU64,
    /// How long transactions took, with the wait for the one before.
    seconds: Mutex<Histogram>,
    /// Let go after the connection.
    _lock: Option<StoreLock>,
}

impl SqliteStore {
    /// Opens or makes the file, takes its lock and checks it. It keeps `models_kept` versions of a job's model, and
    /// the best one.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Corrupt`], [`StoreError::Foreign`], or
    /// [`StoreError::Io`].
    pub fn open(path: &Path, models_kept: u32) -> Result<Self, StoreError> {
        let lock = StoreLock::take(path)?;
        Self::checked(path, opening::open(path), models_kept, Some(lock))
    }

    fn checked(
        path: &Path,
        opened: rusqlite::Result<Connection>,
        models_kept: u32,
        lock: Option<StoreLock>,
    ) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let failed = |error| store_error(&name, &error);
        let mut connection = opened.map_err(failed)?;
        prepare(&connection).map_err(failed)?;
        check(&mut connection, &name)?;
        Ok(Self {
            connection: Mutex::new(connection),
            path: name,
            models_kept,
            logged: AtomicU64::new(0),
            seconds: Mutex::new(Histogram::new(SECONDS)),
            _lock: lock,
        })
    }

    /// A store that is forgotten when it is dropped.
    ///
    /// # Errors
    /// The library has no memory left.
    pub fn in_memory(models_kept: u32) -> Result<Self, StoreError> {
        let opened = Connection::open_in_memory();
        Self::checked(Path::new("in memory"), opened, models_kept, None)
    }

    /// Runs one transaction.
    fn transaction<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let mut connection = self.lock();
        let run = || -> rusqlite::Result<T> {
            let transaction = connection.transaction()?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        };
        let result = run();
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        seconds.observe(begun.elapsed().as_secs_f64());
        result.map_err(|error| store_error(&self.path, &error))
    }

    /// How long transactions took, in seconds, since the store was opened.
    pub fn transaction_seconds(&self) -> Histogram {
        let seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        seconds.clone()
    }

    /// Bytes of the file and of its log; 0 for a store in memory.
    pub fn bytes(&self) -> u64 {
        let of = |path: String| std::fs::metadata(path).map_or(0, |file| file.len());
        of(self.path.clone()) + of(format!("{}-wal", self.path))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn corrupt(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Corrupt {
            path: self.path.clone(),
            reason: reason.into(),
        }
    }
}

/// Settings of the connection. That it can be written to, too, is found out now.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(Duration::from_secs(2))?;
    connection.pragma_update(None, "page_size", PAGE)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", LARGEST_LOG)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.execute_batch("BEGIN EXCLUSIVE; COMMIT;")
}

/// Makes the tables in a new file; refuses a damaged or foreign one.
fn check(connection: &mut Connection, path: &str) -> Result<(), StoreError> {
    let failed = |error| store_error(path, &error);
    let damage: String = connection
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(failed)?;
    if damage != "ok" {
        let (path, reason) = (path.to_owned(), damage);
        return Err(StoreError::Corrupt { path, reason });
    }
    match is_new(connection).map_err(failed)? {
        true => make_tables(connection).map_err(failed)?,
        false => check_marks(connection, path)?,
    }
    // A store that an earlier program made has no such tables.
    connection.execute_batch(releases::TABLE).map_err(failed)?;
    connection.execute_batch(firsts::TABLE).map_err(failed)?;
    connection.execute_batch(orders::TABLES).map_err(failed)
}

/// Whether nothing was written to the file yet: a coordinator has just made it, or is about to write its tables.
pub(super) fn is_new(connection: &Connection) -> rusqlite::Result<bool> {
    let count = "SELECT count(*) FROM sqlite_schema";
    let tables: i64 = connection.query_row(count, [], |row| row.get(0))?;
    Ok(tables == 0 && marks(connection)? == (0, 0))
}

fn make_tables(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(endings::TABLES)?;
    transaction.execute_batch(faults::TABLE)?;
    transaction.execute_batch(conducts::TABLE)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", TABLES_VERSION)?;
    transaction.commit()
}

/// Whose file it is, and the version of its tables.
fn marks(connection: &Connection) -> rusqlite::Result<(i32, i32)> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
    Ok((pragma("application_id")?, pragma("user_version")?))
}

/// Refuses a file that is no store of this version.
pub(super) fn check_marks(connection: &Connection, path: &str) -> Result<(), StoreError> {
    let reason = match marks(connection).map_err(|error| store_error(path, &error))? {
        (APPLICATION_ID, TABLES_VERSION) => return Ok(()),
        (APPLICATION_ID, other) => {
            format!(
                "made by another version of this program (tables {other}, here {TABLES_VERSION}); \
                 use that one"
            )
        }
        // guard: damaged-stores
        _ => "not a coordinator's store; choose another file".into(),
    };
    let path = path.to_owned();
    Err(StoreError::Foreign { path, reason })
}

impl Store for SqliteStore {
    fn open_job(&self, job: &Job, initial: &Model) -> Result<StoredJob, StoreError> {
        let name = job.spec().job.as_str();
        let known = self.transaction(|t| {
            let query = "SELECT spec_hash, spec, state, model_version FROM jobs WHERE job = ?";
            let read = |row: &rusqlite::Row<'_>| {
                let spec: (Vec<u8>, String) = (row.get(0)?, row.get(1)?);
                let standing: (String, u64) = (row.get(2)?, row.get(3)?);
                Ok((spec, standing))
            };
            let known = t.query_row(query, [name], read).optional()?;
            if known.is_none() {
                let spec = serde_json::to_string(job.spec()).unwrap_or_default();
                let insert = "INSERT INTO jobs VALUES (?, ?, ?, 'running', '', ?)";
                t.execute(insert, params![name, spec, job.hash(), initial.version()])?;
                put_model(t, name, initial)?;
            }
            Ok(known)
        })?;
        let Some(((hash, spec), (state, version))) = known else {
            self.move_log();
            return Ok(StoredJob {
                model: initial.clone(),
                model_from: String::new(),
                state: JobState::Running,
                rounds_done: 0,
                next_round: 1,
                interrupted: Vec::new(),
                ending: None,
                conduct: Vec::new(),
                released: Vec::new(),
                operator: Vec::new(),
            });
        };
        if hash != job.hash() {
            return Err(other_spec(job, &hash, &spec));
        }
        let missing = || self.corrupt(format!("job {name}: model version {version} is missing"));
        let model = self.model(name, version)?.ok_or_else(missing)?;
        let (rounds_done, last, interrupted) = self.take_up_rounds(name)?;
        let ending = self.transaction(|t| endings::get(t, name))?;
        let ending = ending.map_err(|reason| self.corrupt(format!("job {name}: {reason}")))?;
        let conduct = self.transaction(|t| conducts::get(t, name))?;
        let model_from = self.transaction(|t| firsts::get(t, name))?;
        let operator = self.transaction(|t| orders::get(t, name))?;
        let released = self.transaction(|t| releases::get(t, name))?;
        let released = released.map_err(|e| self.corrupt(format!("job {name}: releases: {e}")))?;
        Ok(StoredJob {
            model,
            model_from,
            state: match state.as_str() {
                "done" => JobState::Done,
                "failed" => JobState::Failed,
                _ => JobState::Running,
            },
            rounds_done,
            // guard: interrupted-rounds
            next_round: last + 1,
            interrupted,
            ending,
            conduct,
            released,
            operator,
        })
    }

    fn first_model(&self, job: &str, model: &Model, party: &str) -> Result<(), StoreError> {
        self.transaction(|t| {
            forget_models(t, job, model.version() as i64, None)?;
            put_model(t, job, model)?;
            firsts::put(t, job, party)
        })
    }

    fn begin_round(&self, job: &str, report: &RoundReport) -> Result<(), StoreError> {
        self.transaction(|t| rounds::begin(t, job, report))?;
        if self.logged.load(Ordering::Relaxed) >= LOG {
            self.move_log();
        }
        Ok(())
    }

    fn round_began(&self, job: &str, report: &RoundReport) -> Result<(), StoreError> {
        self.transaction(|t| rounds::put(t, job, report))
    }

    fn end_round(
        &self,
        job: &str,
        report: &RoundReport,
        model: Option<&Model>,
        ending: Option<&Ending>,
    ) -> Result<(), StoreError> {
        self.transaction(|t| {
            rounds::put(t, job, report)?;
            // guard: results-are-stored
            if let Some(ending) = ending {
                endings::put(t, job, ending)?;
            }
            let Some(model) = model else { return Ok(()) };
            put_model(t, job, model)?;
            let set = "UPDATE jobs SET model_version = ? WHERE job = ?";
            t.execute(set, params![model.version(), job])?;
            let oldest = model.version() as i64 - i64::from(self.models_kept);
            let best = report.best.as_ref().map(|best| best.version);
            forget_models(t, job, oldest, best)
        })?;
        let model = model.map_or(0, |model| {
            model.values().len() * model.values().precision().bytes()
        });
        let bytes = model + ending.map_or(0, |ending| ending.message.len());
        let bytes = (bytes as u64).max(LOG / ROUNDS_LOGGED);
        self.logged.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn released(&self, job: &str, released: &[Release]) -> Result<(), StoreError> {
        self.transaction(|t| releases::put(t, job, released))
    }

    fn confirm(&self, job: &str, round: u64, names: &[Arc<str>]) -> Result<(), StoreError> {
        self.transaction(|t| endings::confirm(t, job, round, names))
    }

    fn set_job_state(&self, job: &str, state: JobState, reason: &str) -> Result<(), StoreError> {
        self.transaction(|t| {
            let set = "UPDATE jobs SET state = ?, reason = ? WHERE job = ?";
            t.execute(set, params![state.as_str(), reason, job])?;
            Ok(())
        })
    }

    fn rounds(&self, job: &str, most: u32) -> Result<Vec<RoundReport>, StoreError> {
        read::rounds(&self.lock(), &self.path, job, most)
    }

    fn round(&self, job: &str, number: u64) -> Result<Option<RoundReport>, StoreError> {
        read::round(&self.lock(), &self.path, job, number)
    }

    fn model(&self, job: &str, version: u64) -> Result<Option<Model>, StoreError> {
        // Nobody writes meanwhile: the connection is the only one that does.
        read::model(&self.lock(), &self.path, job, version)
    }

    fn event(&self, job: &str, round: u64, kind: &str, detail: &str) -> Result<(), StoreError> {
        self.transaction(|t| {
            let insert = "INSERT INTO events (at_ms, job, round, kind, detail)
                          VALUES (?, ?, ?, ?, ?)";
            t.execute(insert, params![unix_millis(), job, round, kind, detail])?;
            Ok(())
        })
    }

    fn fault(&self, job: &str, fault: &ShownFault) -> Result<(), StoreError> {
        // guard: faults-are-kept
        self.transaction(|t| faults::put(t, job, fault))
    }

    fn set_conduct(&self, job: &str, conduct: &[u8]) -> Result<(), StoreError> {
        self.transaction(|t| conducts::put(t, job, conduct))
    }

    fn order(&self, job: &str, ordered: &[u8], record: &OrderRecord) -> Result<(), StoreError> {
        self.transaction(|t| orders::put(t, job, ordered, record))
    }

    fn orders(&self, job: &str, most: u32) -> Result<Vec<OrderRecord>, StoreError> {
        let read = self.transaction(|t| orders::latest(t, job, most))?;
        read.map_err(|error| self.corrupt(format!("job {job}: an order: {error}")))
    }
}

impl SqliteStore {
    /// Moves the log into the file. What is in the log is durable already: where this fails it is tried again later.
    fn move_log(&self) {
        let moved = self
            .lock()
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        if moved.is_ok() {
            self.logged.store(0, Ordering::Relaxed);
        }
    }

    /// Rounds done, the last number, and those that were under way, which are aborted now.
    fn take_up_rounds(&self, job: &str) -> Result<(u64, u64, Vec<u64>), StoreError> {
        let open = self.transaction(|t| rounds::open(t, job))?;
        let mut interrupted = Vec::new();
        for text in open {
            let mut report = self.parse(job, &text)?;
            report.state = RoundState::Aborted;
            report.reason = match report.unknown {
                true => "the store is a copy that was made while this round was under way: how it ended is not known here",
                false => "the coordinator was restarted",
            }
            .into();
            interrupted.push(report.number);
            self.end_round(job, &report, None, None)?;
        }
        let (done, last) = self.transaction(|t| rounds::count(t, job))?;
        Ok((done, last, interrupted))
    }

    fn parse(&self, job: &str, report: &str) -> Result<RoundReport, StoreError> {
        let damaged = |e| self.corrupt(format!("job {job}: a round's report: {e}"));
        serde_json::from_str(report).map_err(damaged)
    }
}

/// Removes the versions of a model up to this one, but not the best one.
fn forget_models(
    t: &Transaction<'_>,
    job: &str,
    last: i64,
    best: Option<u64>,
) -> rusqlite::Result<()> {
    for table in ["models", "model_pieces"] {
        let delete =
            format!("DELETE FROM {table} WHERE job = ? AND version <= ? AND version IS NOT ?");
        t.execute(&delete, params![job, last, best])?;
    }
    Ok(())
}

fn put_model(t: &Transaction<'_>, job: &str, model: &Model) -> rusqlite::Result<()> {
    let insert = "INSERT INTO models VALUES (?, ?, ?)";
    t.execute(insert, params![job, model.version(), model.hash()])?;
    let mut insert = t.prepare("INSERT INTO model_pieces VALUES (?, ?, ?, ?)")?;
    for (i, piece) in model.to_stored().chunks(MODEL_PIECE).enumerate() {
        insert.execute(params![job, model.version(), i, piece])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
