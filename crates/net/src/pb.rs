//! The messages of `proto/blindsum.proto`, and the service that carries them.
#![allow(missing_docs, clippy::all)]

pub use blindsum_job::pb::*;

include!(concat!(env!("OUT_DIR"), "/blindsum.v1.rs"));

/// The service without the streams of parties.
pub(crate) mod questions {
    include!(concat!(env!("OUT_DIR"), "/questions/blindsum.v1.rs"));
}
