//! Parties are told why operators let no round begin, and that the job goes on. A party that connects hears it in its
//! `Welcome`.

use super::Lead;
use crate::pb;

impl Lead {
    /// Tells everybody who knows the frame, if operators want something else than `before`.
    pub(super) fn tell_held(&self, before: &str) {
        let reason = self.operator.held();
        if reason == before {
            return;
        }
        let frame = pb::CoordinatorFrame::from(pb::JobHeld { reason });
        for member in self.members.values().filter(|member| member.knows_held) {
            member.link.frame(frame.clone());
        }
    }
}
