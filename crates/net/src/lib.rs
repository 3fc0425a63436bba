//! Coordinator and parties over gRPC and mutual TLS.
//!
//! This crate drives the machines of `blindsum-job` over a network: it has the sockets, clocks, threads, files and the
//! system's randomness. It decides nothing about a job, and knows nothing of the contents of a protocol message.
//! [`coordinator`] is the server, [`follower`] another server that computes with it, [`party`] a member of a job,
//! [`store`] what a coordinator must not forget. `docs/wire.md` describes what goes over the wire.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

mod address;
pub mod admin;
mod ahead;
mod audit;
#[cfg(feature = "bench")]
pub mod bench;
mod computing;
mod connect;
mod conversation;
mod counts;
mod drive;
mod error;
mod estimate;
mod limits;
mod line;
mod membership;
mod observers;
mod outbox;
mod paths;
mod plain;
mod private;
mod relay;
mod results;
mod room;
mod servers;
mod serving;
mod stream;
mod system;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

pub mod coordinator;
pub mod follower;
pub mod logs;
pub mod party;
pub mod pb;
pub mod status;

pub mod store;
pub mod watched;

use blindsum_job::{chunks, fingerprint, hex, seconds};

pub use blindsum_job::chunks::CHUNK;
pub use blindsum_job::{
    JobError, Model, NoUpdateTaken, PolicyError, StoreError, orders, report, totals,
};
pub use error::NetError;
pub use estimate::{Task, memory};
pub use limits::Limits;
pub use membership::Membership;
pub use plain::{io_words, toml_words};
pub use room::{Bound, Room};
pub use system::WallClock;
pub use tls::{CredentialFiles, Credentials, Passphrase, Reload};
