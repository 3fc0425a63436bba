//! Before a round whose graph is drawn from its members' nonces: the roster is fixed, and each member opens the nonce to
//! which it committed.
//!
//! Leaving out a member now would give the coordinator a choice of graphs, since it knows the other nonces. So all
//! members open their nonces, or the round does not take place: the next one is offered at once, with fresh nonces, and
//! without the members that did not open.

use std::sync::Arc;

use blindsum_crypto::roster::CertifiedRoster;
use blindsum_protocol::Numbers;
use tracing::{info, warn};

use super::face::Input;
use super::fixed::Opening;
use super::job::Event;
use super::phase::Phase;
use super::{Halt, Lead};
use crate::pb::party_frame::Frame;
use crate::{foreign, seconds};

impl Lead {
    /// The roster with the nonces of all its members, who have committed to them.
    pub(super) async fn open_nonces(
        &mut self,
        number: u64,
        roster: CertifiedRoster,
        numbers: Numbers,
    ) -> Result<CertifiedRoster, Halt> {
        // Parties have had the time to come: nobody waits for more of them, should this round come to nothing.
        self.rounds.met = true;
        let opening = Opening::new(number, &roster, self.models.current.name(), numbers);
        let names = opening.names();
        self.phase = Phase::Fixed(Box::new(opening));
        info!(job = %self.context.name, round = number, parties = names.len(), "roster fixed");
        for name in &names {
            self.send_fixed(name);
        }
        self.context.news();
        let collected = self.collect_nonces(number).await;
        let opening = self.phase.take_opening();
        collected?;
        let nonces = opening.map_or_else(Vec::new, |opening| opening.into_nonces());
        let opened = roster.with_nonces(&nonces);
        opened.map_err(|error| Halt::Aborted(error.to_string()))
    }

    /// Tells a member that the roster is fixed, now or once it is back.
    fn send_fixed(&mut self, name: &str) {
        if let Some(opening) = self.phase.opening_mut() {
            opening.send(&mut self.members, name, self.context.now());
        }
    }

    /// A party connects while nonces are opened; true where it needs no more words about a round.
    pub(super) fn resume_opening(&mut self, name: &Arc<str>, round: u64) -> bool {
        let Some(opening) = self.phase.opening_mut() else {
            return false;
        };
        let is_now = opening.number == round;
        match (opening.has(name), is_now) {
            (true, true) => self.send_fixed(name),
            (true, false) => {
                // Its nonce lived in the process that drew it.
                let reason = "it was started again without its nonce";
                self.will_not_open(name, reason.into());
            }
            (false, true) => {
                let reason = "the roster was fixed without this party";
                self.members.tell_dropped(round, name, reason);
            }
            (false, false) => return false,
        }
        is_now
    }

    /// A member that cannot open or does not want to: it has done nothing wrong, and waits for another round. Where its
    /// nonce is known already the round can begin, and do without it.
    fn will_not_open(&mut self, name: &Arc<str>, reason: String) {
        let opening = self.phase.opening_mut();
        if let Some(opening) = opening.filter(|opening| opening.misses(name)) {
            opening.fail(name, reason.clone());
            self.bans.kept_nonce_back(name);
            self.calls.without(name, &reason);
        }
    }

    /// A member that lies about its nonce.
    fn lied_opening(&mut self, name: &Arc<str>, reason: String) {
        // guard: who-lies-about-its-nonce-sits-out
        self.bans.lied(name);
        self.calls.without(name, &reason);
        if let Some(opening) = self.phase.opening_mut() {
            opening.fail(name, reason);
        }
    }

    /// Until all have opened; or who has not.
    async fn collect_nonces(&mut self, number: u64) -> Result<(), Halt> {
        let time = self.operator.terms.stage_deadline;
        let deadline = self.context.now() + seconds(time);
        let grace = self.context.parts.settings.reconnect_grace;
        loop {
            let Some(opening) = self.phase.opening() else {
                return Ok(());
            };
            if let Some((name, reason)) = opening.failed() {
                warn!(job = %self.context.name, round = number, party = %name, %reason, "did not open its nonce");
                let reason = format!("{name} did not open its nonce: {reason}");
                let whom = format!(
                    "waiting for other parties, or again for {name}: in round {number} {reason}"
                );
                return Err(Halt::Missed { whom, reason });
            }
            // guard: all-members-open
            if opening.missing().next().is_none() {
                return Ok(());
            }
            let now = self.context.now();
            let lost = opening.first_lost(grace);
            let lost = lost.map(|(until, name, reason)| (until, name.clone(), reason));
            let until = match lost {
                Some((until, name, reason)) if until <= now => {
                    let reason = self.members.departed.reason(&name, reason);
                    self.will_not_open(&name, reason);
                    continue;
                }
                Some((until, ..)) => until.min(deadline),
                None => deadline,
            };
            if now >= deadline {
                self.too_late(time)?;
                continue;
            }
            if let Some(input) = self.next_input(Some(until)).await? {
                self.opening_input(number, input).await;
                self.may_begin()?;
            }
        }
    }

    /// The deadline has passed. Who has said nothing may have kept its nonce back, or its connection is dead and nobody
    /// knows yet. Where it is more than may lie, what is at fault is nothing of theirs.
    fn too_late(&mut self, seconds: f64) -> Result<(), Halt> {
        let missing = self
            .phase
            .opening()
            .into_iter()
            .flat_map(Opening::missing)
            .cloned();
        let (here, lost): (Vec<_>, Vec<_>) = missing.partition(|name| self.members.has(name));
        let said_nothing = format!("said nothing within {seconds} s");
        for name in &lost {
            self.will_not_open(name, "its connection was lost".into());
        }
        if here.len() > self.context.spec().corrupt_parties() {
            let count = here.len();
            let reason = format!("{count} parties did not open their nonces: they {said_nothing}");
            return Err(Halt::Aborted(reason));
        }
        for name in &here {
            self.will_not_open(name, format!("it {said_nothing}"));
        }
        Ok(())
    }

    async fn opening_input(&mut self, number: u64, input: Input) {
        match self.handle(input).await {
            Some(Event::Frame {
                name,
                frame: Frame::NonceOpening(opened),
            }) if opened.round == number => self.nonce_opened(&name, &opened.nonce),
            Some(Event::Frame {
                name,
                frame: Frame::RoundRefused(refusal),
            }) if refusal.round == number => {
                let reason = format!("it refuses the round: {}", foreign(&refusal.reason));
                self.will_not_open(&name, reason);
            }
            _ => {}
        }
    }

    /// A nonce, which must be the one to which its party committed.
    fn nonce_opened(&mut self, name: &Arc<str>, nonce: &[u8]) {
        let opening = self.phase.opening_mut();
        match opening.and_then(|opening| opening.open(self.context.job(), name, nonce)) {
            Some(true) => self.context.news(),
            Some(false) => {
                self.lied_opening(name, "its nonce is not the one that it committed to".into());
            }
            None => {}
        }
    }
}
