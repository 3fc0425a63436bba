//! The table of rounds: a number, where the round stands, and its report as JSON.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use crate::report::RoundReport;

/// Writes a new round down; no number comes twice.
pub(super) fn begin(t: &Transaction<'_>, job: &str, report: &RoundReport) -> rusqlite::Result<()> {
    let insert = "INSERT INTO rounds VALUES (?, ?, ?, ?)";
    let state = report.state.as_str();
    t.execute(insert, params![job, report.number, state, json(report)])?;
    Ok(())
}

/// Replaces what was written of a round.
pub(super) fn put(t: &Transaction<'_>, job: &str, report: &RoundReport) -> rusqlite::Result<()> {
    let set = "UPDATE rounds SET state = ?, report = ? WHERE job = ? AND round = ?";
    let state = report.state.as_str();
    t.execute(set, params![state, json(report), job, report.number])?;
    Ok(())
}

/// The reports of the latest rounds, newest first.
pub(super) fn latest(t: &Connection, job: &str, most: u32) -> rusqlite::Result<Vec<String>> {
    let query = "SELECT report FROM rounds WHERE job = ? ORDER BY round DESC LIMIT ?";
    let mut query = t.prepare(query)?;
    query
        .query_map(params![job, most], |row| row.get(0))?
        .collect()
}

/// The report of one round.
pub(super) fn one(t: &Connection, job: &str, number: u64) -> rusqlite::Result<Option<String>> {
    let query = "SELECT report FROM rounds WHERE job = ? AND round = ?";
    t.query_row(query, params![job, number], |row| row.get(0))
        .optional()
}

/// The reports of rounds that have not ended.
pub(super) fn open(t: &Transaction<'_>, job: &str) -> rusqlite::Result<Vec<String>> {
    let query = "SELECT report FROM rounds
                 WHERE job = ? AND state IN ('joining', 'running') ORDER BY round";
    let mut query = t.prepare(query)?;
    query.query_map([job], |row| row.get(0))?.collect()
}

/// Marks rounds that have not ended, in a copy of a store: how they end only the store itself will know.
pub(super) fn end_unknown(copy: &Connection) -> rusqlite::Result<()> {
    // A copy that nobody uses yet needs no log beside it.
    copy.pragma_update(None, "journal_mode", "DELETE")?;
    let set = "UPDATE rounds SET report = json_set(report, '$.unknown', json('true'))
               WHERE state IN ('joining', 'running')";
    copy.execute(set, []).map(drop)
}

/// How many rounds gave a sum, and the last number.
pub(super) fn count(t: &Transaction<'_>, job: &str) -> rusqlite::Result<(u64, u64)> {
    let query = "SELECT count(*) FILTER (WHERE state = 'done' AND report ->> 'key_setup' IS NOT 1),
                        ifnull(max(round), 0)
                 FROM rounds WHERE job = ?";
    t.query_row(query, [job], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// A report as text; its types have no value that JSON cannot write.
fn json(report: &RoundReport) -> String {
    serde_json::to_string(report).unwrap_or_default()
}
