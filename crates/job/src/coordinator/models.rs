//! The current model of a job, and where it comes from where the coordinator does not make it.

use blindsum_protocol::Tag;
use bytes::Bytes;

use super::first::FirstModel;
use super::sealed::SealedModel;
use crate::{Model, hex, pb};

/// The current model of a job.
pub(super) struct Models {
    pub current: Model,
    pub bytes: Bytes,
    /// The model as a party sealed it, where the coordinator does not know it.
    pub sealed: SealedModel,
    /// The first model, where a party gives it.
    pub first: FirstModel,
}

impl Models {
    /// The model that the store has, and the party that gave the first one.
    pub fn stored(current: Model, from: String) -> Self {
        Self {
            bytes: current.to_bytes(),
            sealed: SealedModel::of(current.version()),
            first: FirstModel::stored(from),
            current,
        }
    }

    /// The model after a round, and its bytes.
    pub fn set(&mut self, model: Model, bytes: Bytes) {
        let is_new = self.current.name() != model.name();
        self.sealed.outdated(model.version(), is_new);
        (self.current, self.bytes) = (model, bytes);
    }

    /// How releases name the current model.
    pub fn key(&self) -> String {
        hex(self.current.hash())
    }

    /// The offer of a round, with the party that gave the model where it is the first one.
    pub fn offer(&self, round: u64, tag: Option<Tag>) -> pb::RoundOffer {
        let begins = self.current.version() == 0;
        pb::RoundOffer {
            round,
            model: Some(self.current.name()),
            model_from: match begins {
                true => self.first.from.clone(),
                false => String::new(),
            },
            tag: tag.map(|tag| tag.number),
            about: Tag::about_bytes(tag),
        }
    }
}
