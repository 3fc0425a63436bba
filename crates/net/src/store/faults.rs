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
    length INTEGER NOT NULL,
    times INTEGER NOT NULL
) STRICT;
";

/// Writes one down, as [`Store::fault`](super::Store::fault) says.
pub(super) fn put(t: &Transaction<'_>, job: &str, fault: &ShownFault) -> rusqlite::Result<()> {
    let kept = fault.kept(take_same(t, job, fault)?);
    let insert =
        "INSERT INTO faults (at_ms, job, round, culprit, accuser, what, evidence, length, times)
                  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
    let (bytes, length) = (&kept.evidence.bytes()[..], kept.evidence.length());
    let (round, culprit, accuser) = (kept.round, &kept.culprit, &kept.accuser);
    let (what, times) = (&kept.what, kept.times);
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
            length,
            times
        ],
    )?;
    let is_claim = fault.accuser.is_some();
    let count = "SELECT count(*) FROM faults WHERE job = ? AND (accuser IS NOT NULL) = ?";
    let count: usize = t.query_row(count, params![job, is_claim], |row| row.get(0))?;
    if count > FAULTS_KEPT {
        t.execute(FORGET, params![job, is_claim])?;
    }
    Ok(())
}

/// Removes the oldest of a kind by whom the most are kept.
const FORGET: &str = "
WITH of_kind AS (
    -- guard: claims-push-out-no-evidence
    SELECT id, coalesce(accuser, culprit) AS author FROM faults WHERE job = ?1 AND (accuser IS NOT NULL) = ?2
), counts AS (
    SELECT author, count(*) AS kept FROM of_kind GROUP BY author
)
DELETE FROM faults WHERE id = (
    SELECT min(id) FROM of_kind JOIN counts USING (author) WHERE kept = (SELECT max(kept) FROM counts)
)";

/// Removes the earlier claim of the same accuser of the same party; gives how often that was recorded.
fn take_same(t: &Transaction<'_>, job: &str, fault: &ShownFault) -> rusqlite::Result<u64> {
    let Some(accuser) = &fault.accuser else {
        return Ok(0);
    };
    let take = "DELETE FROM faults WHERE job = ? AND culprit = ? AND accuser = ? RETURNING times";
    let mut take = t.prepare(take)?;
    let times = take.query_map(params![job, fault.culprit, accuser], |row| {
        row.get::<_, u64>(0)
    })?;
    times.sum()
}

/// Those of a job, oldest first.
pub(super) fn all(connection: &Connection, job: &str) -> rusqlite::Result<Vec<ShownFault>> {
    let query = "SELECT round, culprit, accuser, what, evidence, length, times FROM faults
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
            times: row.get(6)?,
        })
    })?;
    rows.collect()
}
