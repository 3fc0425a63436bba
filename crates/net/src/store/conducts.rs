//! The table of who sits out rounds, one row for each job, in the coordinator's own form.

use rusqlite::{OptionalExtension, Transaction, params};

pub(super) const TABLE: &str = "
CREATE TABLE conducts (
    job TEXT PRIMARY KEY REFERENCES jobs,
    conduct BLOB NOT NULL
) STRICT, WITHOUT ROWID;
";

/// Writes that of a job, in the place of what was written before.
pub(super) fn put(t: &Transaction<'_>, job: &str, conduct: &[u8]) -> rusqlite::Result<()> {
    let put = "INSERT OR REPLACE INTO conducts (job, conduct) VALUES (?, ?)";
    t.execute(put, params![job, conduct])?;
    Ok(())
}

/// That of a job; empty if there is none.
pub(super) fn get(t: &Transaction<'_>, job: &str) -> rusqlite::Result<Vec<u8>> {
    let query = "SELECT conduct FROM conducts WHERE job = ?";
    let conduct = t.query_row(query, [job], |row| row.get(0)).optional()?;
    Ok(conduct.unwrap_or_default())
}
