//! The parts of an answer that a party gives to servers other than the coordinator. The answer itself goes out once all
//! of them have theirs: what the coordinator has is nowhere missing then.

use std::collections::BTreeSet;

use blindsum_protocol::{Client, ServerRole};

use super::active::Active;
use super::context::Context;
use super::exchange::Effect;
use super::left::Left;

impl Active {
    /// Whether every other server has its part of the latest answer. Those that have not been given it are given it now.
    pub(super) fn has_uploaded(&mut self, ctx: &Context) -> bool {
        if let Some(uploading) = &self.uploading {
            return uploading.is_empty();
        }
        let round = self.number;
        let parts = self.client.as_ref().map_or(&[][..], Client::parts);
        for (role, message) in parts {
            ctx.hand.say(Effect::Upload {
                round,
                role: *role,
                message: message.clone(),
            });
        }
        let uploading: BTreeSet<ServerRole> = parts.iter().map(|(role, _)| *role).collect();
        let has_none = uploading.is_empty();
        self.uploading = Some(uploading);
        has_none
    }

    /// A server has taken its part; true where it is the last one. The answer goes out then.
    pub(super) fn uploaded(&mut self, role: ServerRole) -> bool {
        let missing = self.uploading.as_mut();
        missing.is_some_and(|missing| missing.remove(&role) && missing.is_empty())
    }

    /// A server will not take its part: the party cannot be in the sum.
    pub(super) fn upload_refused(&mut self, role: ServerRole, reason: &str) -> Result<(), Left> {
        let missing = self.uploading.as_ref();
        if !missing.is_some_and(|missing| missing.contains(&role)) {
            return Ok(());
        }
        // guard: a-part-that-is-refused-before-the-answer-leaves-keeps-the-party-out
        self.keeps_answer();
        let reason = format!("the {role} refuses this party's upload: {reason}");
        Err(Left::unable(self.number, reason))
    }
}
