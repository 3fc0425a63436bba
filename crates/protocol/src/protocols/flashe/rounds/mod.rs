//! A round: the encrypted vector with its check goes up, the survivors and the encrypted sum come down.
//!
//! * Stage 0 up: the packed words and the check of 16 bytes. Down: `survivors bitmap ‖ packed sum ‖ check`, to
//!   the survivors. Lengths are fixed by the round, so nothing is prefixed.

pub(super) mod client;
pub(super) mod server;
