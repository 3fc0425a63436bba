//! A sparse round: which coordinates each party has go up first, then their encrypted words (FLASHE Alg. 1).
//!
//! The parties number coordinates by *places*, in an order that they draw from their key for each round and the
//! server does not know. So the server learns how many coordinates each party has and which are the same, but
//! not which ones they are.
//!
//! | stage | up | down |
//! |---|---|---|
//! | 0 mask | the places of the party's coordinates | scheme, whose places are known, and all of them ([`Masks`]) |
//! | 1 upload | the words at these places, encrypted and packed, and the check | survivors bitmap, packed sum at the places that any survivor has, check |
//!
//! The scheme is the job's, or the one with which all parties together compute fewer masks: everybody counts.
//!
//! [`Masks`]: messages::Masks

pub(super) mod client;
mod messages;
pub(super) mod server;

#[cfg(test)]
use blindsum_he::flashe::sparse::SparseMask;

use crate::{Direction, Job};

/// Bytes of the largest message of a stage. Set-up and framing take 4 KiB and 1 KiB for each party, as elsewhere.
pub(super) fn largest_message(job: &Job, stage: u8, direction: Direction) -> u64 {
    let parties = u64::from(job.spec().parties);
    let bitmap = job.lanes().div_ceil(8) as u64;
    let vector = match (stage, direction) {
        (0, Direction::Up) => bitmap,
        (0, Direction::Down) => parties * bitmap,
        (_, Direction::Up) => job.width().packed_len(job.most_coordinates()) as u64,
        (_, Direction::Down) => job.packed_len() as u64,
    };
    4096 + vector + 1024 * parties
}

/// The server's list of places after a change to it.
#[cfg(test)]
pub(super) fn with_places(
    round: &crate::Round,
    body: &[u8],
    change: impl FnOnce(&mut Vec<SparseMask>),
) -> Vec<u8> {
    let mut masks = messages::Masks::read(round, body).unwrap();
    change(&mut masks.masks);
    masks.to_bytes()
}

/// The places that the server lists.
#[cfg(test)]
pub(super) fn list_of_places(round: &crate::Round, body: &[u8]) -> Vec<SparseMask> {
    messages::Masks::read(round, body).unwrap().masks
}
