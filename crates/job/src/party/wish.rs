//! Which round the caller waits for: any, or one with a tag. The tag is the step of a host that called the round. A party
//! that has trained for one step takes part in no round of another one, whoever is late.

use blindsum_protocol::Tag;

use crate::JobError;
use crate::error::wrong;
use crate::pb;

/// Which round the caller waits for.
#[derive(Default)]
pub(super) struct Wish {
    /// Whether the caller waits for a round.
    pub waits: bool,
    /// The tag of the round that it waits for; none if it waits for any.
    pub tag: Option<Tag>,
    /// The latest round with a tag that goes on without this party, until the caller has heard of it.
    pub passed: Option<Passed>,
}

/// A round with a tag that began, or goes on, without this party.
pub(super) struct Passed {
    pub tag: u64,
    pub round: u64,
    pub reason: String,
}

/// An offer for which the caller does not wait.
pub(super) enum Unwanted {
    /// The caller's own round is still to come.
    Earlier(JobError),
    /// No round with the caller's tag can come after this one. Should the caller ask for the one that was offered, it
    /// comes too late.
    Later(JobError, Option<Passed>),
}

impl Wish {
    /// Whether the caller, who waits for a tag, takes part in no round with this one.
    pub fn is_other(&self, tag: Option<Tag>) -> bool {
        let wanted = self.tag.filter(|_| self.waits);
        wanted.is_some_and(|wanted| !wanted.takes(tag))
    }

    /// Why the caller does not want the round that is offered; none if it wants it.
    ///
    /// # Errors
    /// A tag that is none.
    pub fn unwanted(&self, offer: &pb::RoundOffer) -> Result<Option<Unwanted>, JobError> {
        let Some(wanted) = self.tag else {
            return Ok(None);
        };
        let offered = Tag::read(offer.tag, &offer.about).map_err(wrong)?;
        if wanted.takes(offered) {
            return Ok(None);
        }
        let (round, tag) = (offer.round, wanted.number);
        let offered = offered.map(|offered| offered.number);
        let error = match offered == Some(tag) {
            true => JobError::AboutOther { round, tag },
            false => JobError::OtherTag {
                round,
                wanted: tag,
                offered,
            },
        };
        if offered.is_some_and(|offered| offered < tag) {
            return Ok(Some(Unwanted::Earlier(error)));
        }
        let reason = format!(
            "it was offered while this party waited for tag {tag}; wait for the tag of a step before its round begins"
        );
        let passed = offered.filter(|offered| *offered != tag);
        let passed = passed.map(|tag| Passed { tag, round, reason });
        Ok(Some(Unwanted::Later(error, passed)))
    }

    /// What the caller hears of a round with its tag that goes on without this party.
    pub fn hear_passed(&mut self) -> Option<JobError> {
        let wanted = self.tag.filter(|_| self.waits)?;
        let passed = self.passed.take_if(|passed| passed.tag == wanted.number)?;
        self.waits = false;
        Some(JobError::Dropped {
            round: passed.round,
            reason: passed.reason,
        })
    }
}
