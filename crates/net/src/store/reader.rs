//! A store that is only read, even while a coordinator uses it.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use blindsum_job::coordinator::Ordered;
use blindsum_job::store::other_spec;
use blindsum_protocol::{Best, Job, JobSpec};
use rusqlite::{Connection, OptionalExtension};
use serde::Serialize;

use super::errors::{store_error, store_words};
use super::sqlite::{check_marks, is_new};
use super::{OrderRecord, ShownFault, faults, firsts, opening, orders, read, rounds};
use crate::io_words;
use crate::report::{MetricReport, RoundReport};
use crate::{Model, StoreError, private};

/// A store that is only read. Each call sees the store at one moment. It never waits for the coordinator that uses the
/// store, nor does the coordinator wait for it. A file that a coordinator has made and not written to yet has no jobs.
pub struct StoreReader {
    connection: Connection,
    path: String,
}

/// A job, as it is in a store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredStatus {
    /// Its name.
    pub job: String,
    /// `running`, `done` or `failed`. A job can be `running` although no coordinator is.
    pub state: String,
    /// Why it failed, or why it was done before its rounds were; empty if neither is so.
    pub reason: String,
    /// The protocol.
    pub protocol: String,
    /// Number of finished rounds.
    pub rounds_done: u64,
    /// Number of rounds of the job; 0 means until the coordinator stops.
    pub rounds: u64,
    /// How many parties a round needs.
    pub min_parties: usize,
    /// The version of the current model.
    pub model_version: u64,
    /// The latest round, under way or over.
    pub round: Option<RoundReport>,
    /// Why operators let no round begin, for people; empty if they do.
    pub held: String,
    /// The party that gave the first model; empty where none did.
    pub model_from: String,
    /// The metrics of training in the latest round that has some.
    pub metrics: Option<StoredMetrics>,
    /// The best value so far of the metric that the job's `stop` names, with the model that it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<Best>,
    /// The name of that metric; empty in a job without `stop`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stop_metric: String,
}

/// The metrics of training in a round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredMetrics {
    /// The round.
    pub round: u64,
    /// The metrics by their names.
    pub metrics: BTreeMap<String, MetricReport>,
}

impl StoreReader {
    /// Opens a store that exists.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it does not exist or cannot be read, [`StoreError::Foreign`], [`StoreError::Corrupt`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        // A write-ahead log cannot be read without a place in the index beside it, hence also to be written.
        let open = || -> rusqlite::Result<Connection> {
            let connection = opening::open_existing(path)?;
            connection.busy_timeout(Duration::from_secs(2))?;
            Ok(connection)
        };
        let failed = |error| store_error(&name, &error);
        let connection = open().map_err(failed)?;
        if !is_new(&connection).map_err(failed)? {
            check_marks(&connection, &name)?;
        }
        Ok(Self {
            connection,
            path: name,
        })
    }

    /// Every job, by name.
    ///
    /// # Errors
    /// Reading failed.
    pub fn jobs(&self) -> Result<Vec<StoredStatus>, StoreError> {
        self.at_one_moment(|connection| {
            let stored = self.sql(|| {
                let query = "SELECT job, spec, state, reason, model_version,
                                (SELECT count(*) FROM rounds WHERE rounds.job = jobs.job
                                 AND state = 'done' AND report ->> 'key_setup' IS NOT 1)
                             FROM jobs ORDER BY job";
                let mut query = connection.prepare(query)?;
                let rows = query.query_map([], |row| {
                    let spec: String = row.get(1)?;
                    let status = StoredStatus {
                        job: row.get(0)?,
                        state: row.get(2)?,
                        reason: row.get(3)?,
                        protocol: String::new(),
                        rounds_done: row.get(5)?,
                        rounds: 0,
                        min_parties: 0,
                        model_version: row.get(4)?,
                        round: None,
                        held: String::new(),
                        model_from: String::new(),
                        metrics: None,
                        best: None,
                        stop_metric: String::new(),
                    };
                    Ok((status, spec))
                })?;
                rows.collect::<rusqlite::Result<Vec<_>>>()
            })?;
            stored
                .into_iter()
                .map(|(status, spec)| self.complete(status, &spec))
                .collect()
        })
    }

    /// The metrics of the latest round of a job that has some.
    fn latest_metrics(&self, job: &str) -> Result<Option<StoredMetrics>, StoreError> {
        let query = "SELECT report FROM rounds WHERE job = ? AND state = 'done' AND report ->> 'metrics' IS NOT NULL
                     ORDER BY round DESC LIMIT 1";
        let read = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        let found = self.sql(|| self.connection.query_row(query, [job], read).optional())?;
        let Some(found) = found else {
            return Ok(None);
        };
        let report = read::parse(&self.path, job, &found)?;
        Ok(Some(StoredMetrics {
            round: report.number,
            metrics: report.metrics,
        }))
    }

    fn complete(&self, status: StoredStatus, spec: &str) -> Result<StoredStatus, StoreError> {
        let spec = self.parsed(&status.job, spec)?;
        let standing = self.sql(|| match orders::exist(&self.connection)? {
            true => orders::get(&self.connection, &status.job),
            false => Ok(Vec::new()),
        })?;
        let standing =
            Ordered::read(&spec, &standing).map_err(|error| self.damaged(&status.job, &error))?;
        let model_from = self.sql(|| match firsts::exist(&self.connection)? {
            true => firsts::get(&self.connection, &status.job),
            false => Ok(String::new()),
        })?;
        let latest = read::rounds(&self.connection, &self.path, &status.job, 1)?;
        let latest = latest.into_iter().next();
        let stop = spec.stop.plateau();
        Ok(StoredStatus {
            best: latest.as_ref().and_then(|report| report.best.clone()),
            stop_metric: stop.map_or_else(String::new, |stop| stop.metric.clone()),
            protocol: spec.protocol.to_string(),
            rounds: standing.terms.rounds.into(),
            held: standing.held,
            model_from,
            min_parties: spec.least_roster(),
            round: latest,
            metrics: match spec.metrics.is_empty() {
                true => None,
                false => self.latest_metrics(&status.job)?,
            },
            ..status
        })
    }

    /// The latest `most` rounds of a job, newest first.
    ///
    /// # Errors
    /// Reading failed.
    pub fn rounds(&self, job: &str, most: u32) -> Result<Vec<RoundReport>, StoreError> {
        self.at_one_moment(|connection| read::rounds(connection, &self.path, job, most))
    }

    /// The faults of a job with their evidence, oldest first. The store has only the latest faults.
    ///
    /// # Errors
    /// Reading failed.
    pub fn faults(&self, job: &str) -> Result<Vec<ShownFault>, StoreError> {
        self.at_one_moment(|connection| self.sql(|| faults::all(connection, job)))
    }

    /// The latest `most` orders of operators to a job, newest first.
    ///
    /// # Errors
    /// Reading failed.
    pub fn orders(&self, job: &str, most: u32) -> Result<Vec<OrderRecord>, StoreError> {
        self.at_one_moment(|connection| {
            let read = self.sql(|| match orders::exist(connection)? {
                true => orders::latest(connection, job, most),
                false => Ok(Ok(Vec::new())),
            })?;
            read.map_err(|error| self.damaged(job, &format!("an order: {error}")))
        })
    }

    /// Checks that the store has no other specification of a job, without changing anything.
    ///
    /// # Errors
    /// [`StoreError::OtherSpec`]; or reading failed.
    pub fn check_job(&self, job: &Job) -> Result<(), StoreError> {
        let name = &job.spec().job;
        self.at_one_moment(|connection| {
            let query = "SELECT spec_hash, spec FROM jobs WHERE job = ?";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let known: Option<(Vec<u8>, String)> =
                self.sql(|| connection.query_row(query, [name], read).optional())?;
            match known.filter(|(hash, _)| hash != job.hash()) {
                Some((hash, spec)) => Err(other_spec(job, &hash, &spec)),
                None => Ok(()),
            }
        })
    }

    /// The specification of a job, if the store has it.
    ///
    /// # Errors
    /// Reading failed, or what is stored is no specification.
    pub fn spec(&self, job: &str) -> Result<Option<JobSpec>, StoreError> {
        let query = "SELECT spec FROM jobs WHERE job = ?";
        let read = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        let found = self.at_one_moment(|connection| {
            self.sql(|| connection.query_row(query, [job], read).optional())
        })?;
        found.map(|spec| self.parsed(job, &spec)).transpose()
    }

    fn parsed(&self, job: &str, spec: &str) -> Result<JobSpec, StoreError> {
        serde_json::from_str(spec).map_err(|error| self.damaged(job, &error.to_string()))
    }

    /// A version of a job's model, if the store still has it.
    ///
    /// # Errors
    /// Reading failed, or the stored values do not have the stored hash.
    pub fn model(&self, job: &str, version: u64) -> Result<Option<Model>, StoreError> {
        self.at_one_moment(|connection| read::model(connection, &self.path, job, version))
    }

    /// The versions of a job's model that the store has, oldest first.
    ///
    /// # Errors
    /// Reading failed.
    pub fn versions(&self, job: &str) -> Result<Vec<u64>, StoreError> {
        self.at_one_moment(|connection| read::versions(connection, &self.path, job))
    }

    /// Writes a copy of the store, as it is now, to a new file. If it fails there is no file. A coordinator can be
    /// started with the copy.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the file exists or cannot be written, or if reading failed.
    pub fn back_up(&self, to: &Path) -> Result<(), StoreError> {
        let failed = |reason: String| StoreError::Io {
            path: to.display().to_string(),
            reason,
        };
        if to.exists() {
            return Err(failed(
                "exists, and is not written over: name another file, or move it away first".into(),
            ));
        }
        let mut new = to.as_os_str().to_owned();
        new.push(".new");
        let new = opening::literal(Path::new(&new));
        let new = new.as_path();
        let name = new.to_str();
        let name = name.ok_or_else(|| failed("the path must be text in UTF-8".into()))?;
        let copy = || -> Result<(), String> {
            // What an earlier copy that was cut short has left.
            let _ = std::fs::remove_file(new);
            private::reserve(new).map_err(|e| io_words(&e))?;
            let run = self.connection.execute("VACUUM INTO ?", [name]);
            run.map_err(|e| store_words(&e))?;
            let marked = opening::open_existing(new).and_then(|copy| match is_new(&copy)? {
                true => Ok(()),
                false => rounds::end_unknown(&copy),
            });
            marked.map_err(|e| store_words(&e))?;
            let synced = File::open(new).and_then(|file| file.sync_all());
            synced.map_err(|e| io_words(&e))?;
            std::fs::rename(new, to).map_err(|e| io_words(&e))
        };
        copy().map_err(|reason| {
            let _ = std::fs::remove_file(new);
            failed(reason)
        })
    }

    fn damaged(&self, job: &str, reason: &str) -> StoreError {
        StoreError::Corrupt {
            path: self.path.clone(),
            reason: format!("job {job}: {reason}"),
        }
    }

    /// Several reads that see the same state; nothing where the store has no tables yet.
    fn at_one_moment<T: Default>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let transaction = self.sql(|| self.connection.unchecked_transaction())?;
        match self.sql(|| is_new(&transaction))? {
            true => Ok(T::default()),
            false => work(&transaction),
        }
    }

    fn sql<T>(&self, work: impl FnOnce() -> rusqlite::Result<T>) -> Result<T, StoreError> {
        work().map_err(|error| store_error(&self.path, &error))
    }
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::ProtocolName;

    use super::*;
    use crate::report::RoundState;
    use crate::store::{SqliteStore, Store};

    fn job() -> Job {
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            dim: 3,
            ..JobSpec::default()
        };
        spec.validate().unwrap()
    }

    /// A round with the model that it leads to.
    fn round(store: &SqliteStore, number: u64) {
        let offered = RoundReport::offered(number, number - 1, 0);
        store.begin_round("job", &offered).unwrap();
        let done = RoundReport {
            state: RoundState::Done,
            ..offered
        };
        let model = Model::new(number, vec![number as f32; 3]);
        store.end_round("job", &done, Some(&model), None).unwrap();
    }

    #[test]
    fn a_store_is_read_and_copied_while_it_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
        let store = SqliteStore::open(&path, 9).unwrap();
        store
            .open_job(&job(), &Model::new(0, vec![0.0_f32; 3]))
            .unwrap();
        let reader = StoreReader::open(&path).unwrap();
        for number in 1..=3 {
            round(&store, number);
            let jobs = reader.jobs().unwrap();
            assert_eq!(
                (jobs[0].rounds_done, jobs[0].model_version),
                (number, number)
            );
            let model = reader.model("job", number).unwrap().unwrap();
            assert_eq!(model.values().to_doubles(), [number as f64; 3]);
        }
        reader.back_up(&copy).unwrap();
        round(&store, 4);
        assert_eq!(reader.rounds("job", 9).unwrap().len(), 4);
        // The copy is of before, and a store of its own.
        let copied = SqliteStore::open(&copy, 9).unwrap();
        let begun = copied
            .open_job(&job(), &Model::new(0, vec![0.0_f32; 3]))
            .unwrap();
        assert_eq!((begun.rounds_done, begun.next_round), (3, 4));
        let refused = reader.back_up(&copy).unwrap_err();
        assert!(refused.to_string().contains("exists"), "{refused}");
    }

    /// A round that is under way in a copy may have ended with a result in the store itself.
    #[test]
    fn case_54_a_copy_does_not_know_how_the_round_under_way_ended() {
        let folder = tempfile::tempdir().unwrap();
        let (path, copy) = (folder.path().join("store"), folder.path().join("copy"));
        let store = SqliteStore::open(&path, 9).unwrap();
        let model = Model::new(0, vec![0.0_f32; 3]);
        store.open_job(&job(), &model).unwrap();
        round(&store, 1);
        let offered = RoundReport::offered(2, 1, 0);
        store.begin_round("job", &offered).unwrap();
        StoreReader::open(&path).unwrap().back_up(&copy).unwrap();
        let copied = SqliteStore::open(&copy, 9).unwrap();
        let begun = copied.open_job(&job(), &model).unwrap();
        assert_eq!((begun.next_round, begun.interrupted), (3, vec![2]));
        let ended = |store: &SqliteStore, number| store.round("job", number).unwrap().unwrap();
        let report = ended(&copied, 2);
        assert!(
            report.unknown && report.reason.contains("not known"),
            "{}",
            report.reason
        );
        assert!(!ended(&copied, 1).unknown);
        // The store itself knows: what it does not have was never announced.
        drop(store);
        let store = SqliteStore::open(&path, 9).unwrap();
        store.open_job(&job(), &model).unwrap();
        assert!(!ended(&store, 2).unknown);
    }

    #[test]
    fn a_second_coordinator_is_refused_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, alias) = (folder.path().join("store"), folder.path().join("alias"));
        let store = SqliteStore::open(&path, 9).unwrap();
        std::os::unix::fs::symlink(&path, &alias).unwrap();
        for path in [&path, &alias] {
            let refused = SqliteStore::open(path, 9).map(|_| ()).unwrap_err();
            assert!(matches!(refused, StoreError::InUse { .. }), "{refused}");
        }
        drop(store);
        assert!(SqliteStore::open(&alias, 9).is_ok());
    }

    #[test]
    fn a_store_that_is_being_made_has_no_jobs_yet() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let made = Connection::open(&path).unwrap();
        made.pragma_update(None, "journal_mode", "WAL").unwrap();
        let reader = StoreReader::open(&path).unwrap();
        assert!(reader.jobs().unwrap().is_empty());
        assert!(reader.rounds("job", 9).unwrap().is_empty());
        assert!(reader.faults("job").unwrap().is_empty());
        assert!(reader.model("job", 0).unwrap().is_none());
        let store = SqliteStore::open(&path, 9).unwrap();
        let begun = store.open_job(&job(), &Model::new(0, vec![0.0_f32; 3]));
        assert!(begun.is_ok());
        assert_eq!(reader.jobs().unwrap().len(), 1);
    }

    #[test]
    fn what_is_no_store_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none");
        assert!(StoreReader::open(&path).is_err());
        assert!(!path.exists(), "nothing is made by reading");
        std::fs::write(
            &path,
            "no database, but long enough to be looked at ".repeat(99),
        )
        .unwrap();
        let refused = StoreReader::open(&path).map(|_| ()).unwrap_err();
        assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
    }
}
