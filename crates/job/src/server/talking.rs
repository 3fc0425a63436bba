//! What the coordinator and the servers that compute with it say to each other in a round.

use blindsum_protocol::{Message, Server, ServerIndex};
use bytes::Bytes;

use super::collecting::Collecting;
use super::face::Effect;
use super::{Halt, Lead};

impl Lead {
    /// Hears a server that computes with this one, and says what follows from it.
    pub(super) async fn hear(
        &mut self,
        number: u64,
        mut stage: Collecting,
        from: ServerIndex,
        letter: Bytes,
    ) -> Result<Collecting, Halt> {
        // What a server tells of uploads, perhaps late, says nothing about who is slow to compute.
        // guard: notices-are-no-answers
        let is_letter = stage.server.is_letter(&letter);
        let heard = self.context.hand.work(move || {
            let heard = stage.server.hear(from, &letter);
            (stage, heard)
        });
        let (mut stage, heard) = heard.await?;
        if let Some(running) = self.phase.running_mut().filter(|_| is_letter) {
            running.has_spoken(from);
        }
        heard.map_err(|fault| self.ended_by(&fault))?;
        self.say_letters(number, &mut stage.server);
        Ok(stage)
    }

    /// Says what there is to say to servers that compute with this one.
    pub(super) fn say_letters(&self, round: u64, server: &mut Server) {
        self.send_letters(round, server.letters());
    }

    /// Tells them of uploads.
    pub(super) fn say_notices(&self, round: u64, server: &mut Server) {
        self.send_letters(round, server.notices());
    }

    fn send_letters(&self, round: u64, letters: Vec<(ServerIndex, Message)>) {
        for (to, letter) in letters {
            self.context.say(Effect::Letter { to, round, letter });
        }
    }
}
