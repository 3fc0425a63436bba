//! The table of faults: what somebody did wrong, with the bytes that show it.

use blindsum_job::store::{FAULTS_KEPT, ShownFault};
use blindsum_protocol::Evidence;
use rusqlite::{Connection, Transaction, params};

use crate::system::unix_millis;

pub(super) const TABLE: &str = "
CREATE TABLE faults (
    id INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    job TEXT NOT NULL,
    round INTEGER NOT NULL,
    culprit TEXT NOT NULL,
    accuser TEXT,
    what TEXT NOT NULL,
    evidence BLOB NOT NULL,
    length INTEGER NOT NULL
) STRICT;
";

/// Writes one down, and forgets what is older than the latest ones of its job.
pub(super) fn put(t: &Transaction<'_>, job: &str, fault: &ShownFault) -> rusqlite::Result<()> {
    let insert = "INSERT INTO faults (at_ms, job, round, culprit, accuser, what, evidence, length)
                  VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let (bytes, length) = (&fault.evidence.bytes()[..], fault.evidence.length());
    let ShownFault {
        round,
        culprit,
        accuser,
        what,
        ..
    } = fault;
    t.execute(
        insert,
        params![
            unix_millis(),
            job,
            round,
            culprit,
            accuser,
            what,
            bytes,
            length
        ],
    )?;
    let forget = "DELETE FROM faults WHERE job = ?1 AND id NOT IN
                  (SELECT id FROM faults WHERE job = ?1 ORDER BY id DESC LIMIT ?2)";
    t.execute(forget, params![job, FAULTS_KEPT as u64])?;
    Ok(())
}

/// Those of a job, oldest first.
pub(super) fn all(connection: &Connection, job: &str) -> rusqlite::Result<Vec<ShownFault>> {
    let query = "SELECT round, culprit, accuser, what, evidence, length FROM faults
                 WHERE job = ? ORDER BY id";
    let mut query = connection.prepare(query)?;
    let rows = query.query_map([job], |row| {
        let bytes: Vec<u8> = row.get(4)?;
        Ok(ShownFault {
            round: row.get(0)?,
            culprit: row.get(1)?,
            accuser: row.get(2)?,
            what: row.get(3)?,
            evidence: Evidence::kept(bytes.into(), row.get(5)?),
        })
    })?;
    rows.collect()
}
