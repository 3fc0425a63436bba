//! The parts of an answer that a party gives to servers other than the coordinator. The answer itself goes out once all
//! of them have theirs: what the coordinator has is nowhere missing then.

use std::collections::BTreeSet;

use blindsum_protocol::{Client, ServerRole};

use super::active::Active;
use super::exchange::Effect;
use super::member::Member;
use crate::JobError;
use crate::pb::RoundRefusalCode;

impl Member {
    /// Whether every other server has its part of the latest answer. Those that have not been given it are given it now.
    pub(super) fn has_uploaded(&mut self) -> bool {
        let Some(active) = &mut self.active else {
            return true;
        };
        let parts = active.client.as_ref().map_or(&[][..], Client::parts);
        if let Some(uploading) = &active.uploading {
            return uploading.is_empty();
        }
        let round = active.number;
        for (role, message) in parts {
            self.hand.say(Effect::Upload {
                round,
                role: *role,
                message: message.clone(),
            });
        }
        let uploading: BTreeSet<ServerRole> = parts.iter().map(|(role, _)| *role).collect();
        let has_none = uploading.is_empty();
        active.uploading = Some(uploading);
        has_none
    }

    /// A server has taken its part.
    pub(super) fn uploaded(&mut self, round: u64, role: ServerRole) {
        let Some(active) = self.active_in(round) else {
            return;
        };
        let was_missing = active
            .uploading
            .as_mut()
            .is_some_and(|missing| missing.remove(&role) && missing.is_empty());
        let answer = active.client.as_ref().map(Client::latest).cloned();
        if let (true, Some(answer), Some(stage)) = (was_missing, answer, active.answered()) {
            self.say_answer(round, stage, answer);
        }
    }

    /// A server will not take its part: the party cannot be in the sum.
    pub(super) async fn upload_refused(
        &mut self,
        round: u64,
        role: ServerRole,
        reason: String,
    ) -> Result<(), JobError> {
        let waits = self.active_in(round).is_some_and(|active| {
            let missing = active.uploading.as_ref();
            missing.is_some_and(|missing| missing.contains(&role))
        });
        if !waits {
            return Ok(());
        }
        // guard: a-part-that-is-refused-before-the-answer-leaves-keeps-the-party-out
        self.keeps_answer();
        let reason = format!("the {role} refuses this party's upload: {reason}");
        let error = JobError::Dropped { round, reason };
        self.refuse(round, RoundRefusalCode::RoundRefusalUnable, error)
            .await
    }

    fn active_in(&mut self, round: u64) -> Option<&mut Active> {
        let active = self.active.as_mut();
        active.filter(|active| active.number == round)
    }
}
