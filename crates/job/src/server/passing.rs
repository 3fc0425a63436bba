//! Models on their way between the coordinator and its parties.

use std::sync::Arc;

use blindsum_protocol::{InitialModel, RoundKind};
use tracing::{info, warn};

use super::Lead;
use super::face::Say;
use super::offered::ReadyParty;
use crate::pb::{self, party_frame::Frame};
use crate::report::JobState;
use crate::{model_len, sealed_len};

impl Lead {
    /// A frame of a party that is about a model.
    pub(super) fn model_frame(&mut self, name: &Arc<str>, frame: Frame) {
        let taken = match frame {
            Frame::ModelRequest(request) => self.send_model(name, request.version),
            Frame::ModelChunk(chunk) if self.is_of_first(chunk.version) => {
                self.models.first.piece(&self.context, name, chunk)
            }
            Frame::ModelRefused(refused) if self.is_of_first(refused.version) => {
                self.models.first.declined(name)
            }
            Frame::ModelChunk(chunk) => self.model_sealed(name, chunk),
            Frame::ModelRefused(refused) => {
                let (sealed, joining) = (&mut self.models.sealed, self.phase.joining());
                let version = refused.version;
                sealed.refused(&self.context, &self.members, joining, name, version)
            }
            _ => Ok(()),
        };
        if let Err(reason) = taken {
            self.refuse(name, &reason);
            let (sealed, joining) = (&mut self.models.sealed, self.phase.joining());
            sealed.ask(&self.context, &self.members, joining);
        }
    }

    /// Whether a frame about this version of the model is one about the first model from a party.
    fn is_of_first(&self, version: u64) -> bool {
        version == 0 && self.context.spec().initial == InitialModel::FirstParty
    }

    /// What the job waits for before round 1; empty where it does not wait for the first model.
    pub(super) fn first_warning(&self) -> String {
        let enough = self.members.len() >= self.context.least_roster();
        match self.models.current.is_awaited() && self.phase.state() == JobState::Running && enough
        {
            true => self.models.first.warning(),
            false => String::new(),
        }
    }

    /// Sends the current model, once a connection and version.
    fn send_model(&mut self, name: &Arc<str>, version: u64) -> Result<(), String> {
        let current = &self.models.current;
        let Some(member) = self.members.get_mut(name) else {
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
            let (sealed, joining) = (&mut self.models.sealed, self.phase.joining());
            sealed.want(&self.context, &self.members, joining, name);
            return Ok(());
        }
        let values = self.models.bytes.clone();
        info!(job = %self.context.name, party = %name, version, bytes = values.len(), "model sent");
        member.link.say(Say::Model { version, values });
        Ok(())
    }

    /// A piece of the sealed model. Once it is whole, it goes to those that wait for it.
    fn model_sealed(&mut self, name: &str, chunk: pb::ModelChunk) -> Result<(), String> {
        let dim = self.models.current.name().dim;
        let limit = sealed_len(model_len(self.context.job(), dim));
        let (sealed, joining) = (&mut self.models.sealed, self.phase.joining());
        for name in sealed.piece(&self.context, limit, name, chunk)? {
            sealed.want(&self.context, &self.members, joining, &name);
        }
        Ok(())
    }

    /// A party has gone, or has another connection: what it was asked for, or asked for, ended with the old one.
    pub(super) fn forget_source(&mut self, name: &Arc<str>) {
        let (sealed, joining) = (&mut self.models.sealed, self.phase.joining());
        if sealed.forget(name) {
            sealed.ask(&self.context, &self.members, joining);
        }
        self.models.first.forget_giver(&self.context, name);
    }

    /// What the next round is for, and which of the ready parties take part.
    pub(super) fn choose_kind(
        &mut self,
        round: u64,
        ready: Vec<ReadyParty>,
    ) -> (RoundKind, Vec<ReadyParty>) {
        if !self.context.job().hides_sum() {
            return (RoundKind::Sum, ready);
        }
        let (sealed, least) = (&mut self.models.sealed, self.context.least_roster());
        let (kind, ready, out) = sealed.choose_kind(self.rounds.after_key_setup, least, ready);
        for (name, reason) in out {
            self.leave_out(round, &name, reason);
        }
        if kind == RoundKind::Sum {
            for (name, refusal) in self.models.sealed.hopeless(&ready) {
                let reason = &refusal.reason;
                warn!(job = %self.context.name, party = %name, %reason, "refused");
                self.expel(&name, refusal);
            }
        }
        (kind, ready)
    }
}
