//! The tables of what operators have ordered: one row a job for all that holds, and one for each order that came.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::OrderRecord;
use blindsum_job::store::ORDERS_KEPT;

pub(super) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS operators (
    job TEXT PRIMARY KEY REFERENCES jobs,
    ordered BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS orders (
    id INTEGER PRIMARY KEY,
    job TEXT NOT NULL REFERENCES jobs,
    record TEXT NOT NULL
) STRICT;
";

/// Writes an order of a job, and all that operators have ordered in the place of what was written before.
pub(super) fn put(
    t: &Transaction<'_>,
    job: &str,
    ordered: &[u8],
    record: &OrderRecord,
) -> rusqlite::Result<()> {
    let put = "INSERT OR REPLACE INTO operators (job, ordered) VALUES (?, ?)";
    t.execute(put, params![job, ordered])?;
    // Its types have no value that JSON cannot write.
    let json = serde_json::to_string(record).unwrap_or_default();
    t.execute(
        "INSERT INTO orders (job, record) VALUES (?, ?)",
        params![job, json],
    )?;
    let old = "DELETE FROM orders WHERE job = ?1 AND id NOT IN
               (SELECT id FROM orders WHERE job = ?1 ORDER BY id DESC LIMIT ?2)";
    t.execute(old, params![job, ORDERS_KEPT])?;
    Ok(())
}

/// What operators have ordered of a job; empty if they have ordered nothing.
pub(super) fn get(t: &Connection, job: &str) -> rusqlite::Result<Vec<u8>> {
    let query = "SELECT ordered FROM operators WHERE job = ?";
    let ordered = t.query_row(query, [job], |row| row.get(0)).optional()?;
    Ok(ordered.unwrap_or_default())
}

/// The latest orders of a job, newest first; or what is wrong with what is written.
pub(super) fn latest(
    connection: &Connection,
    job: &str,
    most: u32,
) -> rusqlite::Result<Result<Vec<OrderRecord>, serde_json::Error>> {
    let query = "SELECT record FROM orders WHERE job = ? ORDER BY id DESC LIMIT ?";
    let mut query = connection.prepare(query)?;
    let rows = query.query_map(params![job, most], |row| row.get(0))?;
    let rows: Vec<String> = rows.collect::<rusqlite::Result<_>>()?;
    Ok(rows.iter().map(|row| serde_json::from_str(row)).collect())
}

/// Whether the store has these tables: an earlier program made it if it has not.
pub(super) fn exist(connection: &Connection) -> rusqlite::Result<bool> {
    let count = "SELECT count(*) FROM sqlite_schema WHERE name IN ('operators', 'orders')";
    connection.query_row(count, [], |row| Ok(row.get::<_, i64>(0)? == 2))
}
