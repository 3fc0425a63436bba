//! The messages of a round that a party has not answered yet. They are sent again when it comes back.

use std::sync::Arc;

use super::api::{Content, Say};
use super::link::Link;
use super::shelf::Shelf;

/// Messages to one party, by stage, from the one behind its latest answer on. A party that is not asked in a stage may
/// owe answers to several.
#[derive(Clone, Default)]
pub(super) struct Owed(Vec<Debt>);

#[derive(Clone)]
struct Debt {
    stage: u8,
    message: Content,
    /// What the message is read from stays for as long as somebody may need it.
    _shelf: Option<Arc<dyn Shelf>>,
}

impl Owed {
    /// One more message, which ends a stage.
    pub fn add(&mut self, stage: u8, message: Content, shelf: Option<Arc<dyn Shelf>>) {
        // guard: campaign-all-that-was-missed
        self.0.push(Debt {
            stage,
            message,
            _shelf: shelf,
        });
    }

    /// The party has answered, so it has heard them all.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The stages of the first and of the latest message.
    pub fn stages(&self) -> Option<(u8, u8)> {
        let (first, last) = (self.0.first()?, self.0.last()?);
        Some((first.stage, last.stage))
    }

    /// Says what a party does not know that has answered so many messages.
    pub fn say(&self, link: &Link, round: u64, answered: u32) {
        let unknown = self
            .0
            .iter()
            .filter(|debt| u32::from(debt.stage) >= answered);
        for Debt { stage, message, .. } in unknown {
            link.say(Say::Message {
                round,
                stage: *stage,
                content: message.clone(),
            });
        }
    }
}
