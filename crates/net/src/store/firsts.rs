//! The table of parties that gave the first model of a job.

use rusqlite::{OptionalExtension, Transaction, params};

pub(super) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS first_models (
    job TEXT PRIMARY KEY,
    party TEXT NOT NULL
) STRICT;
";

/// Records the party.
pub(super) fn put(t: &Transaction<'_>, job: &str, party: &str) -> rusqlite::Result<()> {
    let insert = "INSERT OR REPLACE INTO first_models VALUES (?, ?)";
    t.execute(insert, params![job, party])?;
    Ok(())
}

/// The party; empty if there is none.
pub(super) fn get(t: &Transaction<'_>, job: &str) -> rusqlite::Result<String> {
    let query = "SELECT party FROM first_models WHERE job = ?";
    let party = t.query_row(query, [job], |row| row.get(0)).optional()?;
    Ok(party.unwrap_or_default())
}
