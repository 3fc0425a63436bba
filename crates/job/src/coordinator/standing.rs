//! What parties are told of where a job stands, and whether a round may begin.

use blindsum_crypto::calendar::utc;

use super::Halt;
use super::state::State;
use crate::pb::{self, RefusalCode, Refused};
use crate::report::JobState;

impl State {
    /// What everybody hears who is let in.
    pub(super) fn welcome_frame(&self) -> Result<pb::Welcome, pb::Refused> {
        let spec = serde_json::to_string(self.context.spec())
            .map_err(|e| pb::Refused::new(RefusalCode::RefusalJobFailed, e.to_string()))?;
        Ok(pb::Welcome {
            version: *pb::WIRE_VERSIONS.end(),
            program: pb::PROGRAM.into(),
            job_spec: spec,
            job_hash: self.context.job().hash().to_vec(),
            model: Some(self.models.current.name()),
            held: self.operator.held(),
        })
    }

    pub(super) fn job_done(&self) -> pb::JobDone {
        pb::JobDone {
            model: Some(self.models.current.name()),
            reason: self.phase.reason().into(),
        }
    }

    /// Why there are no more rounds here: parties of a job that goes on elsewhere, or later, come again.
    pub(super) fn job_failed(&self) -> pb::Refused {
        let reason = self.phase.reason();
        match self.phase.state() == JobState::Stopped {
            true => {
                let reason = format!("the coordinator cannot go on, the job may: {reason}");
                pb::Refused::new(RefusalCode::RefusalStopping, reason)
            }
            false => {
                let reason = format!("the job has failed: {reason}");
                pb::Refused::new(RefusalCode::RefusalJobFailed, reason)
            }
        }
    }

    /// A party that was let into a failed job to hear the latest result has heard it.
    pub(super) fn leave_failed(&self, name: &str) {
        let member = self.connections.get(name);
        if let Some(member) = member.filter(|_| self.phase.state().has_broken_off()) {
            member.link.close(self.job_failed());
        }
    }

    /// What a party hears that operators have banned.
    pub(super) fn banned(&self, name: &str) -> Option<Refused> {
        let now = self.context.unix_millis();
        let reason = match self.operator.ban(name, now)? {
            Some(until) => format!(
                "an operator of the coordinator has banned this party until {}",
                utc(until.div_ceil(1000))
            ),
            None => "an operator of the coordinator has banned this party".into(),
        };
        Some(Refused::new(RefusalCode::RefusalBanned, reason))
    }

    /// An error where operators want no round to begin.
    pub(super) fn may_begin(&self) -> Result<(), Halt> {
        match self.operator.is_paused() || self.rounds.are_over(&self.operator, self.context.job())
        {
            true => Err(Halt::Held(match self.operator.is_paused() {
                true => format!("the job was {}", self.operator.held()),
                false => match self.rounds.ended_early(self.context.job()) {
                    Some(reason) => reason,
                    None => "an operator has ended the job".into(),
                },
            })),
            false => Ok(()),
        }
    }

    /// Whether a job that drains may stop now: no round is under way, and whoever is here and in the latest sum has
    /// confirmed it; or its time is over.
    pub(super) fn is_drained(&self) -> bool {
        let Some(until) = self.operator.drained_by() else {
            return false;
        };
        let is_here = |name: &String| self.connections.has(name.as_str());
        let waits = self.phase.running().is_some() || self.ended.unconfirmed().iter().any(is_here);
        !waits || until <= self.context.now()
    }
}
