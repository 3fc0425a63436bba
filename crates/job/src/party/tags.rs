//! The tag of a round: the step of a host that called it. A party that has trained for one step takes part in no round of
//! another one, whoever is late.

use blindsum_protocol::{Round, Tag};
use tracing::debug;

use super::exchange::{Absence, Told};
use super::member::Member;
use super::passed::Passed;
use super::pledge::Pledge;

use crate::JobError;
use crate::error::wrong;
use crate::pb::{self, RoundRefusalCode};

impl Member {
    /// The caller waits for a round with this tag; with none for any round. In a round of another tag it takes no part any
    /// more, unless its update is in it.
    pub(super) async fn want_tag(&mut self, tag: Option<Tag>) -> Result<(), JobError> {
        self.wanted_tag = tag;
        if let Some(tag) = tag {
            self.leave_others(tag).await?;
        }
        self.want_round().await?;
        self.tell_passed();
        Ok(())
    }

    async fn leave_others(&mut self, wanted: Tag) -> Result<(), JobError> {
        let active = self.active.as_ref();
        let other = active.filter(|active| {
            active.needs_update() && !active.has_update() && !wanted.takes(active.round.tag())
        });
        if let Some(number) = other.map(|active| active.number) {
            return self.abandoned(number, Absence::SitsOut).await;
        }
        if self.active.is_some() {
            return Ok(());
        }
        let is_other = |pledge: &mut Pledge| !wanted.takes(pledge.tag());
        if let Some(pledge) = self.ready.take_if(is_other) {
            let round = pledge.ready.round;
            self.waits_for_another(round, "its program waits for another tag now".into());
        }
        Ok(())
    }

    /// Whether the caller wants the round that is offered. If its tag is another one, the coordinator is told that it need
    /// not wait; the caller, where no round with its tag can come after this one.
    pub(super) async fn wants_tag(&mut self, offer: &pb::RoundOffer) -> Result<bool, JobError> {
        let Some(wanted) = self.wanted_tag else {
            return Ok(true);
        };
        let offered = Tag::read(offer.tag, &offer.about).map_err(wrong)?;
        if wanted.takes(offered) {
            return Ok(true);
        }
        self.ctx.connection.own.offer = None;
        let round = offer.round;
        let number = offered.map(|offered| offered.number);
        let other = match number == Some(wanted.number) {
            true => JobError::AboutOther {
                round,
                tag: wanted.number,
            },
            false => JobError::OtherTag {
                round,
                wanted: wanted.number,
                offered: number,
            },
        };
        match number.is_some_and(|offered| offered < wanted.number) {
            // Its own round is still to come.
            true => self.waits_for_another(round, other.for_others()),
            false => {
                let code = RoundRefusalCode::RoundRefusalUnable;
                self.refuse(round, code, other).await?;
                // Should the caller ask for that one now, it comes too late.
                self.passed = number.filter(|offered| *offered != wanted.number).map(|tag| Passed {
                    tag,
                    round,
                    reason: format!(
                        "it was offered while this party waited for tag {}; wait for the tag of a step before its round \
                         begins",
                        wanted.number
                    ),
                });
            }
        }
        Ok(false)
    }

    /// Whether the caller, who waits for a tag, takes part in a round that begins.
    pub(super) fn begins_another(&self, round: &Round) -> bool {
        let wanted = self.wanted_tag.filter(|_| self.wanted);
        wanted.is_some_and(|wanted| !wanted.takes(round.tag()))
    }

    /// Tells the coordinator that it need not wait for this party in a round.
    pub(super) fn waits_for_another(&mut self, round: u64, reason: String) {
        debug!(party = %self.ctx.identity.name, round, %reason, "waits for another round");
        self.ctx.send(pb::RoundRefused {
            round,
            code: RoundRefusalCode::RoundRefusalUnable.into(),
            reason,
            ..pb::RoundRefused::default()
        });
    }

    /// The coordinator begins, or goes on with, a round without this party. A caller that waits for its tag waits in vain,
    /// now or later.
    pub(super) fn passed_over(&mut self, round: u64, reason: &str) {
        let offered = self
            .ctx
            .connection
            .own
            .offer
            .as_ref()
            .filter(|offer| offer.round == round);
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
        let wanted = wanted.map(|tag| tag.number);
        if let Some(passed) = self.passed.take_if(|passed| Some(passed.tag) == wanted) {
            self.wanted = false;
            self.ctx.tell(Told::Refused(JobError::Dropped {
                round: passed.round,
                reason: passed.reason,
            }));
        }
    }
}
