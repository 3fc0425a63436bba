//! Coordinator and parties over gRPC and mutual TLS.
//!
//! This crate drives the machines of `blindsum-protocol` over a network: it owns sockets, clocks,
//! files and the system's randomness, and knows nothing of what is inside a protocol message.
//! [`coordinator`] is the server, [`party`] a member of a job, [`store`] what a coordinator must not
//! forget. `docs/wire.md` describes what goes over the wire.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

mod chunks;
mod connect;
mod error;
mod limits;
mod line;
mod model;
mod outbox;
mod relay;
mod stream;
mod system;
mod tls;

pub mod coordinator;
pub mod party;
pub mod pb;
pub mod report;
pub mod status;

pub mod store;

pub use chunks::CHUNK;
pub use error::{NetError, StoreError};
pub use limits::Limits;
pub use model::Model;
pub use tls::{CredentialFiles, Credentials, Reload};

/// The name of a round's result, which parties can compare: over the message that told the survivors their sum,
/// with its frame.
pub(crate) fn result_name(round: &blindsum_protocol::Round, told: &[u8]) -> [u8; 32] {
    blindsum_crypto::kdf::hash("blindsum result", &[&round.context().0, told])
}

/// SHA-256 of a certificate in DER: how rosters name it.
pub(crate) fn fingerprint(certificate: &[u8]) -> [u8; 32] {
    blindsum_crypto::kdf::hash("blindsum certificate", &[certificate])
}
