//! What one side of a round has heard of the coordinator. Messages are told apart by the number that they carry, never
//! by how many came: somebody is not told of the end of every stage.

use crate::{FaultKind, Plan, Seat};

/// The stages whose end somebody was told, ascending, each with the fingerprint of the message. A server that makes two
/// messages collide only hears the same answer again.
#[derive(Default)]
pub(super) struct Heard(Vec<(u8, [u8; 16])>);

impl Heard {
    /// What was heard, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &(u8, [u8; 16])> {
        self.0.iter()
    }

    /// The number behind that of the latest message; 0 before the first.
    pub fn next(&self) -> u8 {
        self.0
            .last()
            .map_or(0, |(stage, _)| stage.saturating_add(1))
    }

    /// Whether this message came before.
    ///
    /// # Errors
    /// [`FaultKind::Conflicting`] where another one did in its place, [`FaultKind::OtherStage`] where the plan has no
    /// such message for this seat now.
    pub fn judge(
        &self,
        plan: &Plan,
        seat: Seat,
        stage: u8,
        seen: [u8; 16],
    ) -> Result<bool, FaultKind> {
        if let Some((_, before)) = self.0.iter().find(|(known, _)| *known == stage) {
            return match *before == seen {
                true => Ok(true),
                // guard: second-request-of-a-stage
                false => Err(FaultKind::Conflicting { stage }),
            };
        }
        let expected = self.next();
        // guard: stages-in-turn-at-the-client
        match plan.may_hear(seat, expected, stage) {
            true => Ok(false),
            false => Err(FaultKind::OtherStage {
                got: stage,
                expected,
            }),
        }
    }

    /// A message was heard.
    pub fn add(&mut self, stage: u8, seen: [u8; 16]) {
        self.0.push((stage, seen));
    }
}

impl FromIterator<(u8, [u8; 16])> for Heard {
    fn from_iter<T: IntoIterator<Item = (u8, [u8; 16])>>(heard: T) -> Self {
        Self(heard.into_iter().collect())
    }
}
