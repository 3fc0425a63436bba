//! The second and the third server: each collects its parts of the uploads, opens the sum with the others once the
//! coordinator says that the uploads are over, and gives its word on it.

use std::sync::Arc;

use rand_core::CryptoRng;

use super::holding::Holding;
use super::open::{Opened, key_of_round, open};
use super::talk::Talk;
use crate::core::round::stages::{FollowerStep, Letters};
use crate::core::round::{FollowerStage, RoundSum};
use crate::{Fault, FaultKind, PartyId, Round, ServerIndex, ServerRole};

/// The server with this role at the beginning of a round.
pub(super) fn start(round: &Arc<Round>, role: ServerRole) -> Result<Box<dyn FollowerStage>, Fault> {
    let me = role.place().ok_or(Fault::caller(FaultKind::NotAMember))?;
    Ok(Box::new(Follow {
        me,
        holding: Some(Holding::new(round.clone(), me)?),
        talk: Talk::new(me),
        round: round.clone(),
    }))
}

struct Follow {
    me: ServerIndex,
    round: Arc<Round>,
    /// None once the uploads are over.
    holding: Option<Holding>,
    talk: Talk<Opened>,
}

impl Follow {
    fn step(mut self: Box<Self>) -> FollowerStep {
        let letters = self.talk.letters();
        if !self.talk.is_over() {
            return FollowerStep {
                body: None,
                letters,
                learnt: None,
                next: Some(self),
            };
        }
        let opened = self.talk.result();
        let (body, learnt) = opened.map_or((None, None), |opened| {
            let sum = opened.sum;
            let learnt = sum.map(|sum| RoundSum::dense(sum, opened.survivors));
            (Some(opened.word), learnt)
        });
        FollowerStep {
            body,
            letters,
            learnt,
            next: None,
        }
    }
}

impl FollowerStage for Follow {
    fn answer(
        mut self: Box<Self>,
        _body: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<FollowerStep, Fault> {
        let holding = self.holding.take();
        let holding = holding.ok_or(Fault::caller(FaultKind::Ended))?;
        let (me, round) = (self.me, self.round.clone());
        let key = key_of_round(&round, rng)?;
        self.talk
            .begin(|line| open(me, round, holding, key, line))?;
        Ok(self.step())
    }

    fn take_upload(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let late = || FaultKind::malformed("upload", "it comes after the uploads were over");
        self.holding.as_mut().ok_or_else(late)?.take(from, body)
    }

    fn notices(&mut self) -> Letters {
        let holding = self.holding.as_mut();
        holding.map_or_else(Letters::new, Holding::notices)
    }

    fn note(&mut self, from: ServerIndex, body: &[u8]) -> Result<(), Fault> {
        // Once the uploads are over it is of no use.
        let holding = self.holding.as_mut();
        holding.map_or(Ok(()), |holding| holding.note(from, body))
    }

    fn receive_letter(
        mut self: Box<Self>,
        from: ServerIndex,
        body: &[u8],
    ) -> Result<FollowerStep, Fault> {
        self.talk.receive_letter(from, body)?;
        Ok(self.step())
    }
}
