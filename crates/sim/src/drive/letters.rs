//! Letters: counted, taken by the server or refused, freed.

use std::collections::BTreeSet;

use blindsum_protocol::{Message, Outgoing, PartyId, Receipt, Seat as Place, Server};

use super::{Content, Drive};
use crate::SimError;
use crate::turn::{Seat, planned};

impl Drive<'_> {
    /// Counts the bytes of a letter that is made.
    pub(super) fn charge(&mut self, index: usize) {
        let Some(letter) = self.letters.get(index) else {
            return;
        };
        let Content::Made(messages, parts) = &letter.content else {
            return;
        };
        let bytes: usize = messages.iter().map(|message| message.len()).sum();
        let bytes = letter.attempts * bytes as u64 + letter.giving.bytes(parts);
        let (from, stage) = (letter.from, letter.stage);
        if let Some(cost) = self.cost(from, stage) {
            cost.up += bytes;
        }
    }

    /// Frees a letter of which no copy is left, and what the client kept to repeat it where that is a
    /// vector that the server has.
    pub(super) fn release(&mut self, index: usize) {
        let Some(letter) = self
            .letters
            .get_mut(index)
            .filter(|letter| letter.copies == 0)
        else {
            return;
        };
        if matches!(letter.content, Content::Owed(_)) {
            return;
        }
        letter.content = Content::nothing();
        if letter.taken && Some(letter.stage) == self.setting.round.plan().input_stage() {
            let seat = self.seats.get_mut(letter.from.rank());
            seat.into_iter().for_each(Seat::acknowledged);
        }
    }

    pub(super) fn drop_copy(&mut self, index: usize) {
        if let Some(letter) = self.letters.get_mut(index) {
            letter.copies = letter.copies.saturating_sub(1);
        }
        self.release(index);
    }

    /// The server takes a message, or refuses it: false.
    pub(super) fn receive(
        &mut self,
        server: &mut Server,
        from: PartyId,
        message: &Message,
    ) -> Result<bool, SimError> {
        match self.serve(|_| server.receive(from, message)) {
            Ok(Receipt::Taken) => {
                self.missing = self.missing.saturating_sub(1);
                if server.relays() {
                    self.kept.keep(from, message).map_err(SimError::Spool)?;
                }
                Ok(true)
            }
            Ok(Receipt::Repeated) => Ok(true),
            Err(fault) => {
                self.hooks.refused(self.stage, &fault);
                self.refused.push(fault);
                Ok(false)
            }
        }
    }

    /// What the server says to somebody at the end of a stage is in its plan, and so is that it says nothing.
    pub(super) fn check_reply(
        &self,
        to: Place,
        stage: u8,
        bytes: Option<usize>,
    ) -> Result<(), SimError> {
        let plan = self.setting.round.plan();
        let allowed = plan.allows_reply(to, stage, bytes);
        let who = format!("the server to {to}");
        planned(who, allowed, plan.reply(stage), stage, bytes)
    }

    /// Of those who wait, the server may leave out whom the plan lets it leave out.
    pub(super) fn check_silence(
        &self,
        waiting: impl IntoIterator<Item = PartyId>,
        messages: &[(Place, Outgoing)],
    ) -> Result<(), SimError> {
        let told: BTreeSet<Place> = messages.iter().map(|(to, _)| *to).collect();
        let silent = waiting.into_iter().map(Place::from);
        for place in silent.filter(|place| !told.contains(place)) {
            self.check_reply(place, self.stage.saturating_sub(1), None)?;
        }
        Ok(())
    }
}
