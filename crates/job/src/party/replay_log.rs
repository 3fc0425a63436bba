//! How the machine of a round came to its state: enough to bring another one there, in another process.
//!
//! Until its vector has been sent a machine gives no snapshot. But it is deterministic: with the same randomness the
//! same messages lead to the same answers. So the inputs since its last snapshot, or since its beginning, are kept.

use blindsum_crypto::Zeroizing;
use blindsum_protocol::Message;

use crate::pb;

/// What the machine of a round was given.
pub(super) struct ReplayLog {
    /// What began the round.
    pub start: pb::RoundStart,
    /// Whether the steps follow the snapshot in the records, or the machine's beginning.
    pub from_snapshot: bool,
    pub steps: Vec<ReplayStep>,
}

/// What one step of the machine was given.
pub(super) struct ReplayStep {
    /// What its randomness began with.
    pub seed: Zeroizing<[u8; 32]>,
    /// The coordinator's message; none started the machine.
    pub message: Option<Message>,
}

impl ReplayLog {
    /// Of a round that begins now, or goes on from its snapshot.
    pub fn of(start: &pb::RoundStart, from_snapshot: bool) -> Self {
        Self {
            start: start.clone(),
            from_snapshot,
            steps: Vec::new(),
        }
    }

    /// The machine has made a step; with a snapshot of it nothing before matters any more.
    pub fn add(&mut self, step: ReplayStep, has_snapshot: bool) {
        match has_snapshot {
            true => {
                self.from_snapshot = true;
                self.steps.clear();
            }
            false => self.steps.push(step),
        }
    }
}
