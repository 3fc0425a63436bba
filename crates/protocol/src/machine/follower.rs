//! One round at a server that is not the coordinator.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::fingerprint::fingerprint;
use rand_core::CryptoRng;

use super::Receipt;
use super::heard::Heard;
use super::letters::{self, Said};
use crate::core::round::stages::{FollowerStep, Letters};
use crate::core::round::{FollowerSetup, FollowerStage, RoundSum};
use crate::kit::wire::{self, Message};
use crate::{Fault, FaultKind, PartyId, Round, ServerIndex, ServerRole};

/// One round at a server that is not the coordinator. It sends nothing until the coordinator sends it a message.
///
/// There are no snapshots of it: a server that is restarted has no part in the rounds that it was in. A fault ends it,
/// like a [`Client`](crate::Client).
pub struct Follower {
    round: Arc<Round>,
    role: ServerRole,
    /// None when its part is over.
    state: Option<Box<dyn FollowerStage>>,
    heard: Heard,
    /// The latest answer, with its frame; empty before the first.
    latest: Message,
    /// Fingerprint of what each party uploaded.
    uploaded: BTreeMap<PartyId, [u8; 16]>,
    /// What it says to servers that compute with it.
    letters: Letters,
    /// The result, once it has learnt it.
    learnt: Option<RoundSum>,
}

impl Follower {
    /// Begins a round.
    ///
    /// # Errors
    /// A round that needs no server with this role.
    pub fn start(setup: FollowerSetup) -> Result<Self, Fault> {
        let (round, role) = (setup.round.clone(), setup.role);
        let rule = || FaultKind::Parameters(format!("the round needs no {role}"));
        let follow = round.follower(role).ok_or_else(|| Fault::server(rule()))?;
        Ok(Self {
            state: Some(follow(&setup)?),
            round,
            role,
            heard: Heard::default(),
            latest: Message::new(),
            uploaded: BTreeMap::new(),
            letters: Letters::new(),
            learnt: None,
        })
    }

    /// One more than the stage of the latest message of the coordinator that was received; 0 before the first.
    pub fn heard(&self) -> u8 {
        self.heard.next()
    }

    /// The latest answer, to be sent again after a lost connection; empty if there is none.
    pub fn latest(&self) -> &Message {
        &self.latest
    }

    /// Takes a message of the coordinator and gives the answer, if there is one. The latest message, come again, gets
    /// the same answer; an older one gets none.
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
        self.latest = Message::new();
        Ok(self.go_on(step))
    }

    /// Does what a step says; gives the answer to the coordinator, if there is one.
    fn go_on(&mut self, step: FollowerStep) -> Option<Message> {
        self.state = step.next;
        self.letters.extend(step.letters);
        self.learnt = step.learnt.or(self.learnt.take());
        let body = step.body?;
        self.latest = wire::frame_in_place(self.round.context(), self.heard.next(), body);
        Some(self.latest.clone())
    }

    /// Takes what a party sends to this server directly, its part of the answer that carries its vector. The same bytes
    /// again are no fault. A fault has no evidence: the part is for this server alone.
    ///
    /// # Errors
    /// A message that the party must not send. It costs nobody else anything.
    pub fn take_upload(&mut self, from: PartyId, message: &[u8]) -> Result<Receipt, Fault> {
        let taken = self.try_take(from, message);
        taken.map_err(|kind| Fault::party(from, kind))
    }

    fn try_take(&mut self, from: PartyId, message: &[u8]) -> Result<Receipt, FaultKind> {
        let (stage, body) = wire::unframe(&self.round, message)?;
        let seen = fingerprint(self.round.context(), message);
        // guard: a-party-uploads-once
        if let Some(before) = self.uploaded.get(&from) {
            return match *before == seen {
                true => Ok(Receipt::Repeated),
                false => Err(FaultKind::Conflicting { stage }),
            };
        }
        if self.round.plan().input_stage_of(from) != Some(stage) {
            return Err(FaultKind::NotAMember);
        }
        let state = self.state.as_mut().ok_or(FaultKind::Ended)?;
        state.take_upload(from, body)?;
        self.uploaded.insert(from, seen);
        Ok(Receipt::Taken)
    }

    /// Hears a server that computes with this one. Gives the answer to the coordinator, once it has come to that.
    ///
    /// # Errors
    /// A letter that no honest server sends ends this server's part in the round, and so does whatever the computation
    /// finds wrong.
    pub fn receive_letter(
        &mut self,
        from: ServerIndex,
        letter: &[u8],
    ) -> Result<Option<Message>, Fault> {
        let heard = self.try_hear(from, letter);
        heard.inspect_err(|_| self.state = None)
    }

    fn try_hear(&mut self, from: ServerIndex, letter: &[u8]) -> Result<Option<Message>, Fault> {
        let body = match letters::open(&self.round, from, letter)? {
            Said::Letter(body) => body,
            // Once its part is over, uploads are none of its business.
            Said::Notice(body) => {
                let state = self.state.as_mut();
                return state.map_or(Ok(None), |state| state.note(from, body).map(|()| None));
            }
        };
        let state = self.state.take().ok_or(Fault::caller(FaultKind::Ended))?;
        let step = state.receive_letter(from, body)?;
        Ok(self.go_on(step))
    }

    /// What it tells servers that compute with it of uploads that it took, since this was asked last. One that is lost
    /// costs them memory and nothing else.
    pub fn notices(&mut self) -> Vec<(ServerIndex, Message)> {
        let notices = self.state.as_mut().map(|state| state.notices());
        letters::framed_notices(&self.round, notices.unwrap_or_default())
    }

    /// The result of the round, once this server has learnt it. Whether the round counts is the coordinator's to say.
    pub fn learnt(&mut self) -> Option<RoundSum> {
        self.learnt.take()
    }

    /// What it says to servers that compute with it, since this was asked last.
    pub fn letters(&mut self) -> Vec<(ServerIndex, Message)> {
        letters::framed(&self.round, std::mem::take(&mut self.letters))
    }
}
