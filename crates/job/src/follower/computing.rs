//! What parties give a server directly, and what servers that compute together say to each other.

use blindsum_protocol::{Fault, ServerIndex};
use bytes::Bytes;
use tracing::debug;

use super::{Effect, Server, Upload, Uploaded};
use crate::pb::RoundRefusalCode;
use crate::{JobError, server_name};

impl Server {
    /// A party gives this server its part of an answer. The coordinator may begin the round here a little later than at
    /// the party.
    pub(super) async fn take_upload(
        &mut self,
        name: String,
        upload: Upload,
    ) -> Result<(), JobError> {
        let number = self.active.as_ref().map(|active| active.round.number());
        if number == Some(upload.round) {
            return self.upload(&name, upload).await;
        }
        // guard: late-uploads-are-refused
        if upload.round <= self.last_round {
            let reason = format!("round {} is over here", upload.round);
            self.hand
                .say(Effect::Uploaded(upload.id, Uploaded::Refused(reason)));
            return Ok(());
        }
        if let Some(older) = self.early.insert(name, upload) {
            let reason = "the party uploads again".into();
            self.hand
                .say(Effect::Uploaded(older.id, Uploaded::Refused(reason)));
        }
        Ok(())
    }

    /// A round begins: what came for it before is taken, and nobody waits any more with what came for one before it.
    pub(super) async fn take_early(&mut self) -> Result<(), JobError> {
        let last = self.last_round;
        let come = self.early.extract_if(.., |_, upload| upload.round <= last);
        for (name, upload) in come.collect::<Vec<_>>() {
            self.take_upload(name, upload).await?;
        }
        Ok(())
    }

    /// An upload for the round under way.
    async fn upload(&mut self, name: &str, upload: Upload) -> Result<(), JobError> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        let refused = |reason: &str| Effect::Uploaded(upload.id, Uploaded::Refused(reason.into()));
        let Some(party) = active.round.roster().rank_of(name) else {
            self.hand.say(refused("this party is not in the round"));
            return Ok(());
        };
        let Some(mut follower) = active.follower.take() else {
            self.hand
                .say(refused("this server has no part in the round any more"));
            return Ok(());
        };
        let (id, message, round) = (upload.id, upload.message.clone(), active.round.clone());
        let bytes = message.len();
        let taken = self.hand.work(move || {
            let taken = follower.take_upload(blindsum_protocol::PartyId(party), &message);
            (follower, taken)
        });
        let (mut follower, taken) = taken.await?;
        let notices = follower.notices();
        if let Some(active) = &mut self.active {
            active.follower = Some(follower);
        }
        self.send_letters(round.number(), notices);
        let said = match taken {
            Ok(receipt) => {
                debug!(role = %self.parts.role, party = name, bytes, ?receipt, "upload taken");
                Uploaded::Taken
            }
            Err(fault) => Uploaded::Refused(round.in_words(&fault)),
        };
        self.hand.say(Effect::Uploaded(id, said));
        Ok(())
    }

    /// What another server says. Letters of rounds that are over here mean nothing.
    pub(super) async fn hear(
        &mut self,
        from: ServerIndex,
        round: u64,
        letter: Bytes,
    ) -> Result<(), JobError> {
        let active = self.active.as_mut();
        let Some(active) = active.filter(|active| active.round.number() == round) else {
            return Ok(());
        };
        let Some(mut follower) = active.follower.take() else {
            return Ok(());
        };
        let heard = self.hand.work(move || {
            let answer = follower.receive_letter(from, &letter);
            (follower, answer)
        });
        let (follower, answer): (_, Result<_, Fault>) = heard.await?;
        self.stepped(round, follower, answer).await
    }

    /// Letters may be lost: where this server talks with the others, the round cannot go on.
    pub(super) fn line_lost(&mut self, to: ServerIndex, reason: &str) {
        // guard: campaign-lost-lines-end-a-servers-round
        let active = self.active.as_ref().filter(|active| active.is_talking);
        if let Some(round) = active.map(|active| active.round.number()) {
            let reason = format!("the line to {} was lost: {reason}", server_name(to));
            self.refuse(round, RoundRefusalCode::RoundRefusalUnable, reason);
        }
    }
}
