//! The machines of a round: what drives the stages of a protocol.
//!
//! They do what every protocol needs in the same way: frames, the order of stages, repeated and conflicting
//! messages, lost places, snapshots. A protocol only writes its [stages](crate::core::round).

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
