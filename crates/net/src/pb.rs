//! The messages of `proto/blindsum.proto`, and the service that carries them. `tools/schema` writes the latter.
#![allow(missing_docs, clippy::all)]

pub use blindsum_job::pb::*;

include!("generated/service.rs");

/// The service without the streams of parties.
pub(crate) mod questions {
    include!("generated/questions.rs");
}
