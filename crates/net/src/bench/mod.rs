//! What rounds and connections are compared with in measurements. Only built with the feature `bench`: it is in no
//! wheel and in no coordinator.

mod crowd;
mod raw;

pub use crowd::Crowd;
pub use raw::{Transfer, transfers};
