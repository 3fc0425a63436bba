//! What protocols have in common: keys and how they are advertised, what parties confirm, parameters of packed sharing, proofs of servers, frames,
//! and snapshots.

pub(crate) mod advertise;
pub(crate) mod confirm;
pub(crate) mod confirmed_sum;
pub(crate) mod consistency;
pub(crate) mod keys;
pub(crate) mod packed;
pub(crate) mod proof;
pub(crate) mod restore;
pub(crate) mod result;
pub(crate) mod snapshot;
pub(crate) mod vector;
pub(crate) mod wire;
