//! The tables about each job's latest round with a result: what its parties are told, and who has confirmed it.

use std::sync::Arc;

use blindsum_crypto::kdf;
use prost::Message as _;
use rusqlite::{OptionalExtension, Row, Transaction, params};

use super::Ending;

/// Bytes of a row of a message.
const PIECE: usize = 4 << 20;

/// They came with version 2 of the tables.
pub(super) const TABLES: &str = "
CREATE TABLE endings (
    job TEXT PRIMARY KEY REFERENCES jobs,
    round INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    start BLOB NOT NULL,
    done BLOB NOT NULL
) STRICT;
CREATE TABLE ending_pieces (
    job TEXT NOT NULL,
    piece INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (job, piece)
) STRICT;
CREATE TABLE ending_survivors (
    job TEXT NOT NULL,
    name TEXT NOT NULL,
    confirmed INTEGER NOT NULL,
    PRIMARY KEY (job, name)
) STRICT, WITHOUT ROWID;
";

/// Writes an ending in the place of the one before.
pub(super) fn put(t: &Transaction<'_>, job: &str, ending: &Ending) -> rusqlite::Result<()> {
    for table in ["endings", "ending_pieces", "ending_survivors"] {
        t.execute(&format!("DELETE FROM {table} WHERE job = ?"), [job])?;
    }
    let (start, done) = (ending.start.encode_to_vec(), ending.done.encode_to_vec());
    let insert = "INSERT INTO endings VALUES (?, ?, ?, ?, ?)";
    t.execute(
        insert,
        params![job, ending.done.round, ending.stage, start, done],
    )?;
    let mut insert = t.prepare("INSERT INTO ending_pieces VALUES (?, ?, ?)")?;
    for (i, piece) in ending.message.chunks(PIECE).enumerate() {
        insert.execute(params![job, i, piece])?;
    }
    let mut insert = t.prepare("INSERT INTO ending_survivors VALUES (?, ?, ?)")?;
    for (name, confirmed) in &ending.survivors {
        insert.execute(params![job, &**name, confirmed])?;
    }
    Ok(())
}

/// Writes down who has confirmed the result of a round, where it is still the latest one.
pub(super) fn confirm(
    t: &Transaction<'_>,
    job: &str,
    round: u64,
    names: &[Arc<str>],
) -> rusqlite::Result<()> {
    let set = "UPDATE ending_survivors SET confirmed = 1 WHERE job = ?1 AND name = ?2
               AND EXISTS (SELECT 1 FROM endings WHERE job = ?1 AND round = ?3)";
    let mut set = t.prepare(set)?;
    for name in names {
        // guard: confirmations-are-written-down
        set.execute(params![job, &**name, round])?;
    }
    Ok(())
}

/// The ending of a job, where there is one; the inner error says what is wrong with what was read.
pub(super) fn get(
    t: &Transaction<'_>,
    job: &str,
) -> rusqlite::Result<Result<Option<Ending>, String>> {
    let query = "SELECT stage, start, done FROM endings WHERE job = ?";
    let read = |row: &Row<'_>| -> rusqlite::Result<(u8, Vec<u8>, Vec<u8>)> {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    };
    let Some((stage, start, done)) = t.query_row(query, [job], read).optional()? else {
        return Ok(Ok(None));
    };
    let mut message = Vec::new();
    let mut pieces = t.prepare("SELECT data FROM ending_pieces WHERE job = ? ORDER BY piece")?;
    let mut pieces = pieces.query([job])?;
    while let Some(row) = pieces.next()? {
        message.extend_from_slice(row.get_ref(0)?.as_blob()?);
    }
    let query = "SELECT name, confirmed FROM ending_survivors WHERE job = ?";
    let mut survivors = t.prepare(query)?;
    let survivors = survivors.query_map([job], |row| {
        Ok((row.get::<_, String>(0)?.into(), row.get(1)?))
    })?;
    let survivors = survivors.collect::<rusqlite::Result<_>>()?;
    let decoded = || {
        let start = crate::pb::RoundStart::decode(&*start).map_err(|e| e.to_string())?;
        let done = crate::pb::RoundDone::decode(&*done).map_err(|e| e.to_string())?;
        // The context is in the frame of the message.
        let context = message.get(2..34).unwrap_or_default();
        match kdf::hash("blindsum result", &[context, &message])[..] == done.result[..] {
            false => Err("it does not have its name".to_owned()),
            true => Ok((start, done)),
        }
    };
    let (start, done) = match decoded() {
        Ok(decoded) => decoded,
        Err(reason) => return Ok(Err(format!("the result of the latest round: {reason}"))),
    };
    Ok(Ok(Some(Ending {
        start,
        stage,
        message: message.into(),
        done,
        survivors,
    })))
}

#[cfg(test)]
pub(super) mod tests {
    use blindsum_protocol::{Job, JobSpec, ProtocolName};
    use bytes::Bytes;

    use super::*;
    use crate::report::RoundReport;
    use crate::store::{SqliteStore, Store, StoreReader};
    use crate::{Model, StoreError, pb};

    fn job() -> Job {
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            dim: 1,
            ..JobSpec::default()
        };
        spec.validate().unwrap()
    }

    /// An ending whose message takes two rows.
    pub fn ending(round: u64) -> Ending {
        let message = Bytes::from(vec![round as u8; PIECE + 3]);
        let result = kdf::hash("blindsum result", &[&message[2..34], &message]);
        Ending {
            start: pb::RoundStart {
                round,
                certificates: vec![vec![7; 100].into()],
                ..pb::RoundStart::default()
            },
            stage: 3,
            message,
            done: pb::RoundDone {
                round,
                model: None,
                result: result.to_vec(),
            },
            survivors: [("a".into(), false), ("b".into(), false)].into(),
        }
    }

    fn end(store: &SqliteStore, round: u64) {
        let report = RoundReport::offered(round, 0, 0);
        store.begin_round("job", &report).unwrap();
        store
            .end_round("job", &report, None, Some(&ending(round)))
            .unwrap();
    }

    #[test]
    fn the_latest_ending_is_kept_with_who_has_confirmed_it() {
        let store = SqliteStore::in_memory(2).unwrap();
        let open = || {
            store
                .open_job(&job(), &Model::new(0, vec![0.0_f32]))
                .unwrap()
        };
        assert_eq!(open().ending, None);
        end(&store, 1);
        assert_eq!(open().ending, Some(ending(1)));
        store.confirm("job", 1, &["b".into()]).unwrap();
        end(&store, 2);
        // What was confirmed of another round says nothing of this one.
        store.confirm("job", 1, &["a".into()]).unwrap();
        assert_eq!(open().ending, Some(ending(2)));
        store.confirm("job", 2, &["a".into(), "z".into()]).unwrap();
        let mut confirmed = ending(2);
        confirmed.survivors.insert("a".into(), true);
        assert_eq!(open().ending, Some(confirmed));
    }

    #[test]
    fn what_a_round_wrote_moves_into_the_file_when_the_next_one_begins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let store = SqliteStore::open(&path, 2).unwrap();
        store
            .open_job(&job(), &Model::new(0, vec![0.0_f32]))
            .unwrap();
        let size = || std::fs::metadata(&path).unwrap().len();
        end(&store, 1);
        assert!(size() < PIECE as u64);
        let report = RoundReport::offered(2, 0, 0);
        store.begin_round("job", &report).unwrap();
        assert!(size() > PIECE as u64);
        let reader = StoreReader::open(&path).unwrap();
        assert_eq!(reader.rounds("job", 5).unwrap().len(), 2);
    }

    #[test]
    fn a_damaged_message_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        let (job, model) = (job(), Model::new(0, vec![0.0_f32]));
        let store = SqliteStore::open(&path, 2).unwrap();
        store.open_job(&job, &model).unwrap();
        end(&store, 1);
        drop(store);
        let file = rusqlite::Connection::open(&path).unwrap();
        let spoil = "UPDATE ending_pieces SET data = x'00' WHERE piece = 1";
        file.execute(spoil, []).unwrap();
        drop(file);
        let store = SqliteStore::open(&path, 2).unwrap();
        let error = store.open_job(&job, &model).unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    }

    #[test]
    fn stores_of_other_versions_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.db");
        drop(SqliteStore::open(&path, 2).unwrap());
        let file = rusqlite::Connection::open(&path).unwrap();
        for version in [2, 9] {
            let mark = format!("PRAGMA user_version = {version}");
            file.execute_batch(&mark).unwrap();
            let says = format!("made by another version of this program (tables {version}");
            let error = SqliteStore::open(&path, 2).err().unwrap().to_string();
            assert!(error.contains(&says), "{error}");
            let error = StoreReader::open(&path).err().unwrap().to_string();
            assert!(error.contains(&says), "{error}");
        }
    }
}
