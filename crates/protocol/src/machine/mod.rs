//! The machines of a round: what drives the stages of a protocol.
//!
//! They do what every protocol needs in the same way: frames, the order of stages, repeated and conflicting messages,
//! parties that are out of the round, snapshots. A protocol only provides its [stages](crate::core::round).

mod client;
mod follower;
mod heard;
mod letters;
mod outgoing;
mod server;

pub use client::{Answer, Client};
pub use follower::Follower;
pub use outgoing::Outgoing;
pub use server::{Closed, Outcome, Receipt, Server, Waiting};
