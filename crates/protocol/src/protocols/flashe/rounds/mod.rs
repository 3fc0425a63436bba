//! A round: the encrypted vector with its check goes up, the survivors and the encrypted sum come down.
//!
//! * Stage 0 up: the packed words and the check of 16 bytes. Down: `survivors bitmap ‖ packed sum ‖ check`, to
//!   the survivors. Lengths are fixed by the round, so nothing is prefixed.

pub(super) mod client;
pub(super) mod server;

use crate::core::plan::{Stage, small};
use crate::{Job, Opens, Plan};

/// What may happen in a round.
pub(super) fn plan(job: &Job) -> Plan {
    let vector = small(job.spec()) + job.packed_len() as u64;
    let stages = [Stage::new("upload", vector, vector).input()];
    Plan::new(job.spec(), Opens::Parties, stages)
}
