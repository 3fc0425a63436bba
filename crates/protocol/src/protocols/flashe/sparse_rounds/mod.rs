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

use crate::core::plan::{Stage, small};
use crate::{Job, Opens, Plan};

/// What may happen in a round.
pub(super) fn plan(job: &Job) -> Plan {
    let (spec, small) = (job.spec(), small(job.spec()));
    let places = job.lanes().div_ceil(8) as u64;
    let sent = job.width().packed_len(job.most_words()) as u64;
    let all = small + u64::from(spec.parties) * places;
    let stages = [
        Stage::new("mask", small + places, all).input(),
        Stage::new("upload", small + sent, small + job.packed_len() as u64),
    ];
    Plan::new(spec, Opens::Parties, stages)
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
