//! The ways that a sum takes: who speaks in which step, to whom it is passed on, and how long it is.
//!
//! * **Ring.** Step r is that of party r: it adds its vector to what the one before it sent, and sends the sum to the next.
//!   The last one sends it to the key service.
//! * **All-reduce.** The vector has as many parts as there are parties, P. In step s every party p sends the sum of part
//!   p − s to the next, which adds its own to it. In step P − 1 each has one part of all, which goes to the key service.
//! * **Broadcast.** In step 0 every party sends its ciphertexts to all others, in step 1 the hash of their sum to the key
//!   service; party 0 sends the sum with it.

use std::collections::BTreeSet;
use std::ops::Range;

use blindsum_crypto::seal::STORAGE_OVERHEAD;

use super::cipher::{Layout, part};
use super::circle::SEALED;
use crate::core::plan::{Stage, small};
use crate::core::round::{Piece, Relayed};
use crate::{Job, PartyId, ServerRole, Who};

/// Bytes of a hash of a sum.
pub(super) const HASH: usize = 32;
/// Bytes of the ranks of two parties that sent the same.
pub(super) const PAIR: usize = 8;
/// Bytes of the sealed key of a vector that goes to all.
pub(super) const WRAPPED: usize = 32 + SEALED;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Ring,
    Broadcast,
    AllReduce,
}

/// The stages before the first step.
pub(super) const BEFORE: usize = 2;

impl Way {
    /// Its steps among so many parties.
    pub fn steps(self, parties: usize) -> usize {
        match self {
            Self::Ring | Self::AllReduce => parties,
            Self::Broadcast => 2,
        }
    }

    /// The name of a step.
    fn name(self, step: usize) -> &'static str {
        match self {
            Self::Ring | Self::AllReduce => "hop",
            Self::Broadcast if step == 0 => "broadcast",
            Self::Broadcast => "compare",
        }
    }

    /// Who speaks in a step.
    pub fn speakers(self, step: usize, parties: usize) -> BTreeSet<PartyId> {
        match self {
            Self::Ring => [PartyId(step as u32)].into(),
            Self::Broadcast | Self::AllReduce => (0..parties as u32).map(PartyId).collect(),
        }
    }

    /// The words whose sum a party sends in a step.
    pub fn words(self, lanes: usize, step: usize, from: PartyId, parties: usize) -> Range<usize> {
        match self {
            Self::Ring | Self::Broadcast => 0..lanes,
            Self::AllReduce => part(
                lanes,
                parties,
                (from.rank() + parties - step) % parties.max(1),
            ),
        }
    }

    /// Bytes of what a party sends in a step.
    pub fn sent_len(self, layout: &Layout, lanes: usize, step: usize, from: PartyId) -> usize {
        let parties = layout.parties();
        let sum = layout.len(self.words(lanes, step, from, parties).len());
        match (self, step) {
            (Self::Ring | Self::AllReduce, _) => sum + SEALED,
            (Self::Broadcast, 0) => sum + STORAGE_OVERHEAD + WRAPPED * (parties - 1),
            (Self::Broadcast, _) if from == PartyId(0) => HASH + PAIR + sum + SEALED,
            (Self::Broadcast, _) => HASH + PAIR + SEALED,
        }
    }

    /// What is passed on at the end of a step.
    pub fn passed_on(self, layout: &Layout, lanes: usize, step: usize) -> Vec<Relayed> {
        let parties = layout.parties();
        let len = |from| self.sent_len(layout, lanes, step, from);
        let whole = |from| Piece {
            from,
            range: 0..len(from),
        };
        let speakers = self.speakers(step, parties);
        if step + 1 == self.steps(parties) {
            let pieces = speakers.into_iter().map(whole).collect();
            return vec![relayed(ServerRole::Decryptor.into(), pieces)];
        }
        let hop = |from: PartyId| {
            let next = (from.rank() + 1) % parties.max(1);
            relayed(PartyId(next as u32).into(), vec![whole(from)])
        };
        match self {
            Self::Ring | Self::AllReduce => speakers.into_iter().map(hop).collect(),
            Self::Broadcast => {
                let vector = layout.len(lanes) + STORAGE_OVERHEAD;
                let to = |to: PartyId| {
                    let others = speakers.iter().copied().filter(|from| *from != to);
                    let both = others.flat_map(|from| {
                        let at = vector + WRAPPED * wrap_of(from, to);
                        [0..vector, at..at + WRAPPED].map(|range| Piece { from, range })
                    });
                    relayed(to.into(), both.collect())
                };
                speakers.iter().copied().map(to).collect()
            }
        }
    }

    /// The stages of the steps, for the plan.
    pub fn stages(self, job: &Job, layout: &Layout) -> Vec<Stage> {
        let (parties, lanes) = (layout.parties(), job.lanes());
        let steps = self.steps(parties);
        let stage = |step: usize| {
            let longest = |from| self.sent_len(layout, lanes, step, from) as u64;
            let up = self.speakers(step, parties).into_iter().map(longest).max();
            let up = small(job.spec()) + up.unwrap_or_default();
            let is_last = step + 1 == steps;
            let down = match (self, is_last) {
                (Self::Ring, _) | (Self::AllReduce, false) => up,
                (Self::AllReduce, true) | (Self::Broadcast, false) => up * parties as u64,
                (Self::Broadcast, true) => up + small(job.spec()),
            };
            let stage = Stage::new(self.name(step), up, down).relayed();
            let stage = match (self, is_last) {
                (_, true) => stage.heard_by(Who::Server(ServerRole::Decryptor)),
                (Self::Ring, false) => stage.heard_by(Who::Party(PartyId(step as u32 + 1))),
                (_, false) => stage,
            };
            let stage = match self {
                Self::Ring => stage.answered_by(Who::Party(PartyId(step as u32))),
                _ => stage.enough(parties),
            };
            match self == Self::Ring || step == 0 {
                true => stage.input(),
                false => stage,
            }
        };
        (0..steps).map(stage).collect()
    }
}

/// The place of the key that a party wraps for another one, among those that it wraps.
pub(super) fn wrap_of(from: PartyId, to: PartyId) -> usize {
    to.rank() - usize::from(to > from)
}

fn relayed(to: crate::Seat, pieces: Vec<Piece>) -> Relayed {
    let head = Vec::new();
    Relayed { to, head, pieces }
}
