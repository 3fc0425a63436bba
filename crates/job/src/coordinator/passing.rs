//! Models on their way between the coordinator and its parties.

use std::sync::Arc;

use blindsum_protocol::InitialModel;
use tracing::info;

use super::api::Say;
use super::state::State;
use crate::pb::{self, party_frame::Frame};
use crate::{model_len, sealed_len};

impl State {
    /// A frame of a party that is about a model.
    pub(super) fn model_frame(&mut self, name: &Arc<str>, frame: Frame) {
        let taken = match frame {
            Frame::ModelRequest(request) => self.send_model(name, request.version),
            Frame::ModelChunk(chunk) if is_of_first(self, chunk.version) => {
                self.models.first.piece(&self.context, name, chunk)
            }
            Frame::ModelRefused(refused) if is_of_first(self, refused.version) => {
                self.models.first.declined(name)
            }
            Frame::ModelChunk(chunk) => self.model_sealed(name, chunk),
            Frame::ModelRefused(refused) => {
                let (sealed, joining) = (&mut self.models.sealed, self.phase.offered());
                let version = refused.version;
                sealed.refused(&self.context, &self.connections, joining, name, version)
            }
            _ => Ok(()),
        };
        if let Err(reason) = taken {
            self.refuse(name, &reason);
            let (sealed, joining) = (&mut self.models.sealed, self.phase.offered());
            sealed.ask(&self.context, &self.connections, joining);
        }
    }

    /// Sends the current model, once a connection and version.
    pub(super) fn send_model(&mut self, name: &Arc<str>, version: u64) -> Result<(), String> {
        let current = &self.models.current;
        let Some(member) = self.connections.get_mut(name) else {
            return Ok(());
        };
        if version != current.version() || current.is_awaited() {
            // A round was finished meanwhile; the next offer names the newer version. So does that of round 1 where the first
            // model is not here.
            return Ok(());
        }
        if member.model_sent == Some(version) {
            return Err(format!(
                "model version {version} was sent over this connection already"
            ));
        }
        member.model_sent = Some(version);
        if current.is_hidden() {
            let (sealed, joining) = (&mut self.models.sealed, self.phase.offered());
            sealed.want(&self.context, &self.connections, joining, name);
            return Ok(());
        }
        let values = self.models.bytes.clone();
        info!(job = %self.context.name, party = %name, version, bytes = values.len(), "model sent");
        member.link.say(Say::Model { version, values });
        Ok(())
    }

    /// A piece of the sealed model. Once it is whole, it goes to those that wait for it.
    pub(super) fn model_sealed(&mut self, name: &str, chunk: pb::ModelChunk) -> Result<(), String> {
        let dim = self.models.current.name().dim;
        let limit = sealed_len(model_len(self.context.job(), dim));
        let (sealed, joining) = (&mut self.models.sealed, self.phase.offered());
        for name in sealed.piece(&self.context, limit, name, chunk)? {
            sealed.want(&self.context, &self.connections, joining, &name);
        }
        Ok(())
    }
}

/// Whether a frame about this version of the model is one about the first model from a party.
fn is_of_first(state: &State, version: u64) -> bool {
    version == 0 && state.context.spec().initial == InitialModel::FirstParty
}
