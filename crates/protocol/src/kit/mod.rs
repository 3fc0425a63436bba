//! What protocols have in common: keys and how they are advertised, the consistency check, proofs of servers, frames,
//! and snapshots.

pub(crate) mod confirmations;
pub(crate) mod confirmed_sum;
pub(crate) mod consistency;
pub(crate) mod keys;
pub(crate) mod proof;
pub(crate) mod result;
pub(crate) mod snapshot;
pub(crate) mod vector;
pub(crate) mod wire;
