//! What protocols have in common: keys and their advertisement, the consistency check, relayed frames, what is
//! kept over restarts.

pub(crate) mod consistency;
pub(crate) mod keys;
pub(crate) mod result;
pub(crate) mod snapshot;
pub(crate) mod vector;
pub(crate) mod wire;
