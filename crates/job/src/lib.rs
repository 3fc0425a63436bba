//! What a party and a coordinator do in a job, between rounds and in them, as machines.
//!
//! A machine gets [inputs](actor) one by one: a frame, a word of its caller, that time has passed. It says what must be
//! done about them: send, compute, write down, tell. It has no socket, no clock, no thread and no randomness of its own,
//! so a network, a simulator and another program's transport drive the same code.
//!
//! [`party`] is a member of a job, [`server`] what coordinates it, [`follower`] another server that it needs,
//! [`model`](Model) what parties and coordinator compute.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

pub mod actor;
pub mod chunks;
mod error;
pub mod follower;
pub mod frames;
mod model;
pub mod party;
pub mod pb;
pub mod records;
pub mod report;
pub mod server;
pub mod store;

#[cfg(test)]
mod testing;

pub use error::{JobError, StoreError};
pub use model::{Model, history_len, sealed_len};

use std::time::Duration;

/// The name of a round's result, which parties can compare: over the message that told the survivors their sum,
/// with its frame.
pub fn result_name(round: &blindsum_protocol::Round, told: &[u8]) -> [u8; 32] {
    blindsum_crypto::kdf::hash("blindsum result", &[&round.context().0, told])
}

/// SHA-256 of a certificate in DER: how rosters name it.
pub fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    blindsum_crypto::kdf::hash("blindsum certificate", &[certificate])
}

/// Seconds as a time, the longest one where they are beyond it.
pub fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX)
}

/// Bytes in hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Foreign text, cut to what a log line can bear.
pub fn short(text: &str) -> String {
    text.chars().take(200).collect()
}
