//! What rounds and connections are measured beside. Only the feature `bench` builds it: it is in no wheel and in no
//! coordinator.

mod crowd;
mod raw;

pub use crowd::Crowd;
pub use raw::{Transfer, transfers};
