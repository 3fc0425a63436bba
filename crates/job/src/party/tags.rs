//! The tag of a round: the step of a host that called it. A party that has trained for one step takes part in no round of
//! another one, whoever is late.

use tracing::info;

use super::exchange::Told;
use super::member::Member;
use crate::JobError;
use crate::pb::{self, RoundRefusalCode};

/// A round with a tag that began, or goes on, without this party.
pub(super) struct Passed {
    tag: u64,
    round: u64,
    reason: String,
}

impl Member {
    /// The caller waits for a round with this tag; with none for any round.
    pub(super) async fn want_tag(&mut self, tag: Option<u64>) -> Result<(), JobError> {
        self.wanted_tag = tag;
        self.want_round().await?;
        self.tell_passed();
        Ok(())
    }

    /// Whether the caller wants the round that is offered. If its tag is another one, the coordinator is told that it need
    /// not wait; the caller, where no round with its tag can come after this one.
    pub(super) async fn wants_tag(&mut self, offer: &pb::RoundOffer) -> Result<bool, JobError> {
        let Some(wanted) = self.wanted_tag.filter(|wanted| offer.tag != Some(*wanted)) else {
            return Ok(true);
        };
        self.offer = None;
        let (round, offered) = (offer.round, offer.tag);
        let other = JobError::OtherTag {
            round,
            wanted,
            offered,
        };
        let code = RoundRefusalCode::RoundRefusalUnable;
        match offered.is_some_and(|offered| offered < wanted) {
            // Its own round is still to come.
            true => {
                let reason = other.for_others();
                info!(party = %self.identity.name, round, %reason, "waits for a later round");
                self.send(pb::RoundRefused {
                    round,
                    code: code.into(),
                    reason,
                    ..pb::RoundRefused::default()
                });
            }
            false => self.refuse(round, code, other).await?,
        }
        Ok(false)
    }

    /// The coordinator begins, or goes on with, a round without this party. A caller that waits for its tag waits in vain,
    /// now or later.
    pub(super) fn passed_over(&mut self, round: u64, reason: &str) {
        let offered = self.offer.as_ref().filter(|offer| offer.round == round);
        let ready = self.ready.as_ref().map(|pledge| &pledge.ready);
        let ready = ready.filter(|ready| ready.round == round);
        let tag = offered
            .and_then(|offer| offer.tag)
            .or_else(|| ready.and_then(|ready| ready.tag));
        self.passed = tag.map(|tag| Passed {
            tag,
            round,
            reason: reason.into(),
        });
        self.tell_passed();
    }

    fn tell_passed(&mut self) {
        let wanted = self.wanted_tag.filter(|_| self.wanted);
        if let Some(passed) = self.passed.take_if(|passed| Some(passed.tag) == wanted) {
            self.wanted = false;
            self.tell(Told::Refused(JobError::Dropped {
                round: passed.round,
                reason: passed.reason,
            }));
        }
    }
}
