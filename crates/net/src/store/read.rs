//! Reads from a store, for the coordinator that uses it and for others.

use blindsum_protocol::JobSpec;
use rusqlite::{Connection, OptionalExtension, params};

use super::errors::store_error;
use super::rounds;
use crate::report::RoundReport;
use crate::{Model, StoreError};

/// The latest rounds of a job, newest first.
pub(super) fn rounds(
    connection: &Connection,
    path: &str,
    job: &str,
    most: u32,
) -> Result<Vec<RoundReport>, StoreError> {
    let reports = rounds::latest(connection, job, most).map_err(|e| store_error(path, &e))?;
    let reports = reports.iter().map(|text| parse(path, job, text));
    reports.collect()
}

/// One round of a job.
pub(super) fn round(
    connection: &Connection,
    path: &str,
    job: &str,
    number: u64,
) -> Result<Option<RoundReport>, StoreError> {
    let report = rounds::one(connection, job, number).map_err(|e| store_error(path, &e))?;
    report.map(|text| parse(path, job, &text)).transpose()
}

/// A round's report.
pub(super) fn parse(path: &str, job: &str, text: &str) -> Result<RoundReport, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| corrupt(path, format!("job {job}: a round's report: {error}")))
}

/// A version of a job's model. Several reads: nobody may write meanwhile.
pub(super) fn model(
    connection: &Connection,
    path: &str,
    job: &str,
    version: u64,
) -> Result<Option<Model>, StoreError> {
    let found = stored(connection, job, version).map_err(|error| store_error(path, &error))?;
    let Some((spec, bytes, hash)) = found else {
        return Ok(None);
    };
    let wrong = |reason: String| corrupt(path, format!("job {job}: {reason}"));
    let spec: JobSpec = serde_json::from_str(&spec).map_err(|e| wrong(e.to_string()))?;
    let of = spec.validate().map_err(|e| wrong(e.to_string()))?;
    if of.hides_sum() && version > 0 {
        let named = Model::hidden_from_stored(version, &hash, &bytes);
        let damaged = || wrong(format!("model version {version} has no readable name"));
        return named.map(Some).ok_or_else(damaged);
    }
    let awaited = Model::awaited(&of);
    if version == 0 && hash == awaited.hash() {
        return Ok(Some(awaited));
    }
    let damaged = |_| wrong(format!("model version {version} does not match its hash"));
    let model = Model::from_bytes(&of, version, &bytes, &hash).map_err(damaged)?;
    Ok(Some(model))
}

/// The versions of a job's model that are there, oldest first.
pub(super) fn versions(
    connection: &Connection,
    path: &str,
    job: &str,
) -> Result<Vec<u64>, StoreError> {
    let read = || -> rusqlite::Result<Vec<u64>> {
        let query = "SELECT version FROM models WHERE job = ? ORDER BY version";
        let mut query = connection.prepare(query)?;
        let versions = query.query_map([job], |row| row.get(0))?;
        versions.collect()
    };
    read().map_err(|error| store_error(path, &error))
}

/// The job's specification (JSON), the model's bytes and its hash.
type StoredModel = (String, Vec<u8>, Vec<u8>);

fn stored(
    connection: &Connection,
    job: &str,
    version: u64,
) -> rusqlite::Result<Option<StoredModel>> {
    let query = "SELECT spec, hash FROM models JOIN jobs USING (job) WHERE job = ? AND version = ?";
    let key = params![job, version];
    let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<(String, Vec<u8>)> {
        Ok((row.get(0)?, row.get(1)?))
    };
    let Some((spec, hash)) = connection.query_row(query, key, read).optional()? else {
        return Ok(None);
    };
    let query = "SELECT data FROM model_pieces WHERE job = ? AND version = ? ORDER BY piece";
    let mut pieces = connection.prepare(query)?;
    let mut pieces = pieces.query(key)?;
    let mut bytes = Vec::new();
    while let Some(row) = pieces.next()? {
        bytes.extend_from_slice(row.get_ref(0)?.as_blob()?);
    }
    Ok(Some((spec, bytes, hash)))
}

fn corrupt(path: &str, reason: String) -> StoreError {
    StoreError::Corrupt {
        path: path.to_owned(),
        reason,
    }
}
