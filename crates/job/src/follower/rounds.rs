//! What a server that is not the coordinator does in rounds.

use std::sync::Arc;

use blindsum_crypto::certificate::UnixSeconds;
use blindsum_protocol::{Fault, FaultKind, Follower, FollowerSetup, Message, Round, RoundSum};
use tracing::{debug, info};

use super::{Active, Server};
use crate::certified::{certified_round, refusal_code};
use crate::connection::Say;
use crate::error::wrong;
use crate::pb::{self, RoundRefusalCode};
use crate::results::{LearntResult, keep};
use crate::{JobError, MAX_AHEAD};

/// The record with the number of the latest round.
const LAST_ROUND: &str = "last-round";

impl Server {
    /// What was remembered.
    pub(super) async fn recall(&mut self) -> Result<(), JobError> {
        let records = self.parts.records.clone();
        let read = self.hand.work(move || records.read(LAST_ROUND)).await?;
        let bytes = read
            .map_err(|error| self.failed(error))?
            .unwrap_or_else(|| vec![0; 8]);
        let number = <[u8; 8]>::try_from(bytes).map_err(|_| {
            self.failed(
                "damaged: no number of a round. Remove it while no round is under way: this server then takes part in \
                 later rounds",
            )
        })?;
        self.last_round = u64::from_be_bytes(number);
        self.recall_releases().await
    }

    fn failed(&self, reason: impl std::fmt::Display) -> JobError {
        self.unusable(LAST_ROUND, reason)
    }

    /// A round begins, or goes on after the connection was lost.
    pub(super) async fn started(&mut self, mut start: pb::RoundStart) -> Result<(), JobError> {
        let number = start.round;
        self.check_number(number)?;
        let (round, certified) = match self.certified(&mut start) {
            Ok((round, then)) => (Arc::new(round), then),
            Err(error) => {
                self.refuse(number, refusal_code(&error), error.to_string());
                return Ok(());
            }
        };
        let active = self
            .active
            .as_ref()
            .filter(|active| active.round.number() == number);
        // guard: servers-take-one-beginning
        match active.map(|active| active.round.context() == round.context()) {
            Some(true) => {
                self.say_again(start.answers_taken);
                Ok(())
            }
            Some(false) => {
                let reason = "two different beginnings of one round".into();
                self.refuse(number, RoundRefusalCode::RoundRefusalFault, reason);
                Ok(())
            }
            // guard: servers-are-in-no-round-again, campaign-servers-are-in-a-round-once
            None if number <= self.last_round => {
                let reason = "this server was in it before it was started again".into();
                self.refuse(number, RoundRefusalCode::RoundRefusalUnable, reason);
                Ok(())
            }
            None => self.begin(round, certified).await,
        }
    }

    /// A number that no honest job comes to is not believed: no later round could follow the last one.
    fn check_number(&mut self, number: u64) -> Result<(), JobError> {
        // guard: servers-believe-no-number
        let most = self.last_round.saturating_add(MAX_AHEAD);
        if (1..=most).contains(&number) {
            return Ok(());
        }
        let last = self.last_round;
        let reason = format!(
            "round {number}, where the latest one known here is {last}: must be from 1 to {most}"
        );
        let code = RoundRefusalCode::RoundRefusalFault;
        self.refuse(number, code, reason.clone());
        Err(wrong(reason))
    }

    /// The round that begins, once its members are certified, and when that was; or why it must be refused.
    fn certified(&mut self, start: &mut pb::RoundStart) -> Result<(Round, UnixSeconds), JobError> {
        if start.kind() != pb::RoundKind::Sum {
            return Err(wrong("no server but the coordinator is in a key set-up"));
        }
        let (job, anchor) = (&self.parts.job, &self.parts.anchor);
        let brought = self.connection.certificates.take(start, job.spec().parties);
        let brought = brought.map_err(wrong)?;
        // A certificate that ends while a round is under way counts to the end of it.
        let active = self.active.as_ref();
        let active = active.filter(|active| active.round.number() == start.round);
        // guard: a-certificate-that-ends-amid-a-round-counts-at-another-server
        let began = active.map(|active| active.certified);
        let now = began.unwrap_or_else(|| self.hand.unix_seconds());
        let round = certified_round(start, job, anchor, &self.connection.certificates, None, now);
        if round.is_err() {
            self.connection
                .certificates
                .forget_strangers(brought, anchor);
        }
        Ok((self.remembering(round?, start), now))
    }

    /// Takes part in a round, which it does once.
    async fn begin(&mut self, round: Arc<Round>, certified: UnixSeconds) -> Result<(), JobError> {
        let (number, records) = (round.number(), self.parts.records.clone());
        let write = move || records.replace(LAST_ROUND, &[&number.to_be_bytes()]);
        let written = self.hand.work(write).await?;
        written.map_err(|error| self.failed(error))?;
        self.last_round = number;
        let role = self.parts.role;
        let setup = FollowerSetup {
            round: round.clone(),
            role,
            memory: self.memory.clone(),
            identity: self.parts.identity.as_ref().map(|current| current()),
            now: self.hand.unix_seconds(),
        };
        match self.hand.work(move || Follower::start(setup)).await? {
            Ok(follower) => {
                info!(%role, round = number, parties = round.parties(), "round begins");
                self.active = Some(Active {
                    round,
                    certified,
                    follower: Some(follower),
                    heard: 0,
                    is_talking: false,
                });
            }
            Err(fault) => {
                let code = RoundRefusalCode::RoundRefusalFault;
                self.refuse(number, code, fault.to_string());
            }
        }
        Ok(())
    }

    /// Says the latest answer again, unless the coordinator has it.
    fn say_again(&self, taken: u32) {
        let Some(active) = &self.active else {
            return;
        };
        let latest = active.follower.as_ref().map(Follower::latest);
        if let Some(latest) = latest.filter(|latest| !latest.is_empty())
            && taken <= active.heard.into()
        {
            self.answer(active, latest.clone());
        }
    }

    fn answer(&self, active: &Active, message: Message) {
        let (round, stage) = (active.round.number(), active.heard);
        debug!(role = %self.parts.role, round, stage, bytes = message.len(), "answered");
        self.say(Say::Message {
            round,
            stage,
            message,
        });
    }

    /// A piece of a message of the coordinator.
    pub(super) async fn chunk(&mut self, chunk: pb::Chunk) -> Result<(), JobError> {
        let active = self.active.as_mut();
        let Some(active) = active.filter(|active| active.round.number() == chunk.round) else {
            return Ok(());
        };
        match self.connection.receive(active.round.plan(), chunk)? {
            None => Ok(()),
            Some(message) => self.step(message).await,
        }
    }

    /// One step of the machine.
    async fn step(&mut self, message: Message) -> Result<(), JobError> {
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        let (number, follower) = (active.round.number(), active.follower.take());
        let Some(mut follower) = follower else {
            return Ok(());
        };
        let mut rng = self.hand.random();
        let stepped = self.hand.work(move || {
            let answer = follower.answer(&message, &mut rng);
            (follower, answer)
        });
        let (follower, answer) = stepped.await?;
        self.stepped(number, follower, answer).await
    }

    /// A step is done: what it says goes out, once the result is kept that it may have learnt.
    pub(super) async fn stepped(
        &mut self,
        number: u64,
        mut follower: Follower,
        answer: Result<Option<Message>, Fault>,
    ) -> Result<(), JobError> {
        let letters = follower.letters();
        // guard: campaign-servers-keep-results
        if let Some(learnt) = follower.learnt()
            && let Err(reason) = self.keep(learnt).await?
        {
            // guard: mpc3-keep-at-others
            self.refuse(number, RoundRefusalCode::RoundRefusalUnable, reason);
            return Ok(());
        }
        if let Some(active) = &mut self.active {
            active.heard = follower.heard();
            // Once it has its word it needs no letters. Those that it said and that are lost the others miss themselves.
            let is_through = matches!(answer, Ok(Some(_)));
            active.is_talking = !is_through && (active.is_talking || !letters.is_empty());
            active.follower = Some(follower);
        }
        self.send_letters(number, letters);
        match (answer, &self.active) {
            (Ok(Some(message)), Some(active)) => self.answer(active, message),
            (Ok(_), _) => {}
            (
                Err(Fault {
                    kind: FaultKind::NotOpened { round, reason },
                    ..
                }),
                _,
            ) => self.refuse_to_open(number, round, reason),
            (Err(fault), active) => {
                let code = RoundRefusalCode::RoundRefusalFault;
                let reason = active.as_ref().map(|active| active.round.in_words(&fault));
                self.refuse(number, code, reason.unwrap_or_else(|| fault.to_string()));
            }
        }
        Ok(())
    }

    /// Keeps the result of the round under way, where the operator wants it; or says why it cannot be kept.
    async fn keep(&mut self, learnt: RoundSum) -> Result<Result<(), String>, JobError> {
        let (Some(results), Some(active)) = (self.parts.results.clone(), &self.active) else {
            return Ok(Ok(()));
        };
        let round = active.round.clone();
        let keep = move || {
            let survivors = learnt.survivors.len();
            let result = LearntResult::of(&round, &learnt.sum, survivors);
            keep(
                &*results,
                round.number(),
                &result.map_err(|e| e.to_string())?,
                "at one of the servers",
            )
        };
        self.hand.work(keep).await
    }
}
