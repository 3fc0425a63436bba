//! The table of parties that gave the first model of a job.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

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

/// Whether the table is there: a store that was only read since an earlier version has none.
pub(super) fn exist(connection: &Connection) -> rusqlite::Result<bool> {
    let count = "SELECT count(*) FROM sqlite_schema WHERE name = 'first_models'";
    connection.query_row(count, [], |row| Ok(row.get::<_, i64>(0)? == 1))
}

/// The party; empty if there is none.
pub(super) fn get(connection: &Connection, job: &str) -> rusqlite::Result<String> {
    let query = "SELECT party FROM first_models WHERE job = ?";
    let found = connection.query_row(query, [job], |row| row.get(0));
    let party = found.optional()?;
    Ok(party.unwrap_or_default())
}
