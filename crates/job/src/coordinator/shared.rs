//! A frame that goes to many: it lies in memory once, however many queues it stands in.

use std::sync::OnceLock;

use bytes::Bytes;
use prost::Message as _;

use crate::pb::CoordinatorFrame;

/// A frame that goes to many.
pub struct Shared {
    frame: CoordinatorFrame,
    encoded: OnceLock<Bytes>,
}

impl Shared {
    /// A frame that is not encoded yet.
    pub(super) fn new(frame: CoordinatorFrame) -> Self {
        Self {
            frame,
            encoded: OnceLock::new(),
        }
    }

    /// The frame.
    pub fn frame(&self) -> &CoordinatorFrame {
        &self.frame
    }

    /// Its bytes, which are made once.
    pub fn encoded(&self) -> &Bytes {
        self.encoded
            .get_or_init(|| self.frame.encode_to_vec().into())
    }
}
