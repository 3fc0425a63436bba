//! The side of a server in one round that is not the coordinator.

use std::sync::Arc;

use blindsum_crypto::fingerprint::fingerprint;
use rand_core::CryptoRng;

use super::heard::Heard;
use crate::core::round::FollowerStage;
use crate::kit::wire::{self, Message};
use crate::{Fault, FaultKind, Round, ServerRole};

/// One round of a server that is not the coordinator. It says nothing until the coordinator speaks to it.
///
/// Nothing of it is kept: a server that is started again has no part in the rounds it was in. A fault ends it, as it does
/// a [`Client`](crate::Client).
pub struct Follower {
    round: Arc<Round>,
    role: ServerRole,
    /// None when its part is over.
    state: Option<Box<dyn FollowerStage>>,
    heard: Heard,
    /// The latest answer, with its frame; empty before the first.
    latest: Message,
}

impl Follower {
    /// Begins a round.
    ///
    /// # Errors
    /// A round that needs no server with this role.
    pub fn start(round: Arc<Round>, role: ServerRole) -> Result<Self, Fault> {
        let rule = || FaultKind::Parameters(format!("the round needs no {role}"));
        let follow = round.follower(role).ok_or_else(|| Fault::server(rule()))?;
        Ok(Self {
            state: Some(follow(&round)?),
            round,
            role,
            heard: Heard::default(),
            latest: Message::new(),
        })
    }

    /// The number behind that of the latest message that it heard; 0 before the first.
    pub fn heard(&self) -> u8 {
        self.heard.next()
    }

    /// The latest answer, to send again after a lost connection; empty where there is none.
    pub fn latest(&self) -> &Message {
        &self.latest
    }

    /// The coordinator's message in, the answer out, if there is one. The same message again gives the same answer
    /// where it was the latest, and nothing where it was not.
    ///
    /// # Errors
    /// A message that no honest coordinator sends ends this server's part in the round.
    pub fn answer(
        &mut self,
        message: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<Option<Message>, Fault> {
        let answer = self.try_answer(message, rng);
        answer.map_err(|fault| {
            self.state = None;
            fault.found_in(message)
        })
    }

    fn try_answer(
        &mut self,
        message: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<Option<Message>, Fault> {
        let (stage, body) = wire::unframe(&self.round, message).map_err(Fault::server)?;
        let seen = fingerprint(self.round.context(), message);
        let plan = self.round.plan();
        let known = self.heard.judge(plan, self.role.into(), stage, seen);
        if known.map_err(Fault::server)? {
            let latest = stage.saturating_add(1) == self.heard.next() && !self.latest.is_empty();
            return Ok(latest.then(|| self.latest.clone()));
        }
        let state = self.state.take().ok_or(Fault::caller(FaultKind::Ended))?;
        let step = state.answer(body, rng)?;
        self.heard.add(stage, seen);
        self.state = step.next;
        self.latest = match step.body {
            Some(body) => wire::frame_in_place(self.round.context(), self.heard.next(), body),
            None => Message::new(),
        };
        Ok((!self.latest.is_empty()).then(|| self.latest.clone()))
    }
}
