//! Toy protocols of the tests: what no protocol of today needs, and those to come do. They hide nothing.
//!
//! No user can choose one. Only in builds with the feature `testing`, a job of `plain` is a toy if it has the toy's name.

mod dispute;
pub(crate) mod keys;
mod ring;
mod seals;
mod sequential;
mod three;

pub use keys::share_paillier_keys;

use crate::core::protocol::ProtocolInfo;
use crate::{JobSpec, ProtocolName};

/// The toy that a job is, if it is one.
pub(crate) fn of(spec: &JobSpec) -> Option<&'static ProtocolInfo> {
    match (spec.protocol.name(), spec.job.as_str()) {
        (ProtocolName::Plain, "toy-dispute") => Some(&dispute::INFO),
        (ProtocolName::Plain, "toy-ring") => Some(&ring::INFO),
        (ProtocolName::Plain, "toy-three") => Some(&three::INFO),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
