//! The table of releases: of each job, the results that its servers have begun to open, as JSON.

use rusqlite::{OptionalExtension, Transaction, params};

use super::Release;

pub(super) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS releases (
    job TEXT PRIMARY KEY,
    released TEXT NOT NULL
) STRICT;
";

/// Replaces those of a job.
pub(super) fn put(t: &Transaction<'_>, job: &str, released: &[Release]) -> rusqlite::Result<()> {
    // Their types have no value that JSON cannot write.
    let json = serde_json::to_string(released).unwrap_or_default();
    t.execute(
        "INSERT OR REPLACE INTO releases VALUES (?, ?)",
        params![job, json],
    )?;
    Ok(())
}

/// Those of a job, oldest first; or what is wrong with what is written.
pub(super) fn get(
    t: &Transaction<'_>,
    job: &str,
) -> rusqlite::Result<Result<Vec<Release>, serde_json::Error>> {
    let query = "SELECT released FROM releases WHERE job = ?";
    let json: Option<String> = t.query_row(query, [job], |row| row.get(0)).optional()?;
    Ok(json.map_or(Ok(Vec::new()), |json| serde_json::from_str(&json)))
}
