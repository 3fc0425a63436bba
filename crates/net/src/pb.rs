//! The messages of `proto/blindsum.proto`, and the service that carries them.
#![allow(missing_docs, clippy::all)]

pub use blindsum_job::pb::*;

use crate::outbox::Frame;

include!(concat!(env!("OUT_DIR"), "/blindsum.v1.rs"));

impl Frame for PartyFrame {
    fn chunk(chunk: Chunk) -> Self {
        chunk.into()
    }

    fn model_chunk(chunk: ModelChunk) -> Self {
        chunk.into()
    }
}

impl Frame for CoordinatorFrame {
    fn chunk(chunk: Chunk) -> Self {
        chunk.into()
    }

    fn model_chunk(chunk: ModelChunk) -> Self {
        chunk.into()
    }
}
