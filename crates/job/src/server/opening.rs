//! Before a round whose graph is drawn from its members' nonces: the roster is fixed, and each member opens the nonce to
//! which it committed.
//!
//! Leaving out a member now would give the coordinator a choice of graphs, since it knows the other nonces. So all
//! members open their nonces, or the round does not take place: the next one is offered at once, with fresh nonces, and
//! without the members that did not open.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::roster::CertifiedRoster;
use blindsum_protocol::{RoundParameters, nonce_commitment};
use tracing::{info, warn};

use super::beginning::Beginnings;
use super::face::Input;
use super::failed::Lost;
use super::job::Event;
use super::{Halt, Lead};
use crate::machine::Time;
use crate::pb::party_frame::Frame;
use crate::{foreign, pb, seconds};

/// A roster that is fixed.
pub(crate) struct Opening {
    number: u64,
    /// What its members are told, with the certificates of all.
    fixed: pb::RosterFixed,
    beginnings: Beginnings,
    members: BTreeMap<Arc<str>, Opener>,
    /// Who will not open, and why: the round has failed.
    failed: Option<(Arc<str>, String)>,
}

/// A member that opens its nonce.
struct Opener {
    commitment: [u8; 32],
    nonce: Option<[u8; 32]>,
    /// Whether its connection was lost.
    lost: Option<Lost>,
}

impl Opening {
    /// The members of this roster have commitments where others have nonces.
    fn new(
        number: u64,
        roster: &CertifiedRoster,
        model: pb::ModelName,
        numbers: RoundParameters,
    ) -> Self {
        let members = roster.members().iter();
        let committed = members.clone().map(|member| pb::Committed {
            fingerprint: crate::fingerprint(&member.certificate).to_vec().into(),
            commitment: member.nonce.to_vec().into(),
        });
        let opener = |commitment| Opener {
            commitment,
            nonce: None,
            lost: None,
        };
        Self {
            number,
            fixed: pb::RosterFixed {
                round: number,
                model: Some(model),
                roster: committed.collect(),
                certificates: members
                    .clone()
                    .map(|m| m.certificate.clone().into())
                    .collect(),
                numbers: Some(numbers.into()),
            },
            beginnings: Beginnings::default(),
            members: members
                .map(|member| (member.name.as_str().into(), opener(member.nonce)))
                .collect(),
            failed: None,
        }
    }

    pub fn has(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Whether this is a member that has not opened yet.
    fn misses(&self, name: &str) -> bool {
        let member = self.members.get(name);
        member.is_some_and(|member| member.nonce.is_none())
    }

    /// Who has not opened yet.
    fn missing(&self) -> impl Iterator<Item = &Arc<str>> {
        let missing = self.members.iter().filter(|(_, m)| m.nonce.is_none());
        missing.map(|(name, _)| name)
    }

    /// The connection of a member was lost.
    pub fn lost(&mut self, name: &str, now: Time) {
        if let Some(member) = self.members.get_mut(name) {
            member.lost.get_or_insert(Lost::since(now));
        }
    }

    /// A member is not waited for any more: its lease has run out, or it has left the job.
    pub fn member_failed(&mut self, name: &str, lost: Lost) {
        if let Some(member) = self.members.get_mut(name) {
            member.lost = Some(lost);
        }
    }

    /// A member will not open.
    fn fail(&mut self, name: &Arc<str>, reason: String) {
        self.failed.get_or_insert((name.clone(), reason));
    }

    /// The first of those that have not opened who is not waited for any more, until when, and why.
    fn first_lost(&self, grace: Duration) -> Option<(Time, &Arc<str>, &'static str)> {
        let missing = self.members.iter().filter(|(_, m)| m.nonce.is_none());
        let lost = missing.filter_map(|(name, m)| Some((name, m.lost?)));
        lost.map(|(name, lost)| (lost.until(grace), name, lost.reason()))
            .min()
    }
}

impl Lead {
    /// The roster with the nonces of all its members, who have committed to them.
    pub(super) async fn open_nonces(
        &mut self,
        number: u64,
        roster: CertifiedRoster,
        numbers: RoundParameters,
    ) -> Result<CertifiedRoster, Halt> {
        // Parties have had the time to come: nobody waits for more of them, should this round come to nothing.
        self.met = true;
        let opening = Opening::new(number, &roster, self.model.name(), numbers);
        let names: Vec<Arc<str>> = opening.members.keys().cloned().collect();
        self.opening = Some(opening);
        info!(job = %self.name, round = number, parties = names.len(), "roster fixed");
        for name in &names {
            self.send_fixed(name);
        }
        self.unpublished = true;
        let collected = self.collect_nonces(number).await;
        let opening = self.opening.take();
        collected?;
        let members = opening.map_or_else(BTreeMap::new, |opening| opening.members);
        // In the order of names, as the roster.
        let nonces = members.into_values().filter_map(|member| member.nonce);
        let opened = roster.with_nonces(&nonces.collect::<Vec<_>>());
        opened.map_err(|error| Halt::Aborted(error.to_string()))
    }

    /// Whose nonces are waited for, if any.
    pub(super) fn not_opened(&self) -> Vec<String> {
        let missing = self.opening.iter().flat_map(Opening::missing);
        missing.map(|name| name.to_string()).collect()
    }

    /// Tells a member that the roster is fixed, now or once it is back.
    pub(super) fn send_fixed(&mut self, name: &str) {
        let Some(opening) = &mut self.opening else {
            return;
        };
        let Some(member) = self.members.get_mut(name) else {
            return opening.lost(name, self.hand.now());
        };
        let beginnings = &mut opening.beginnings;
        let frame = beginnings.fixed(&opening.fixed, &mut member.shown);
        member.link.shared(frame);
        if let Some(opener) = opening.members.get_mut(name) {
            opener.lost = None;
        }
    }

    /// A party connects while nonces are opened; true where it needs no more words about a round.
    pub(super) fn resume_opening(&mut self, name: &Arc<str>, round: u64) -> bool {
        let Some(opening) = &mut self.opening else {
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
                self.tell_dropped(round, name, reason);
            }
            (false, false) => return false,
        }
        is_now
    }

    /// A member that cannot open or does not want to: it has done nothing wrong, and waits for another round. Where its
    /// nonce is known already the round can begin, and do without it.
    fn will_not_open(&mut self, name: &Arc<str>, reason: String) {
        let opening = self.opening.as_mut();
        if let Some(opening) = opening.filter(|opening| opening.misses(name)) {
            opening.fail(name, reason.clone());
            self.conduct.kept_nonce_back(name, self.begun);
            self.call_without(name, &reason);
        }
    }

    /// A member that lies about its nonce.
    fn lied_opening(&mut self, name: &Arc<str>, reason: String) {
        // guard: who-lies-about-its-nonce-sits-out
        self.conduct.lied(name, self.begun);
        self.call_without(name, &reason);
        if let Some(opening) = &mut self.opening {
            opening.fail(name, reason);
        }
    }

    /// Until all have opened; or who has not.
    async fn collect_nonces(&mut self, number: u64) -> Result<(), Halt> {
        let time = self.operator.terms.stage_deadline;
        let deadline = self.hand.now() + seconds(time);
        let grace = self.parts.settings.reconnect_grace;
        loop {
            let Some(opening) = &self.opening else {
                return Ok(());
            };
            if let Some((name, reason)) = &opening.failed {
                warn!(job = %self.name, round = number, party = %name, %reason, "did not open its nonce");
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
            let now = self.hand.now();
            let lost = opening.first_lost(grace);
            let lost = lost.map(|(until, name, reason)| (until, name.clone(), reason));
            let until = match lost {
                Some((until, name, reason)) if until <= now => {
                    let reason = self.departed.reason(&name, reason);
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
        let missing = self.opening.iter().flat_map(Opening::missing).cloned();
        let (here, lost): (Vec<_>, Vec<_>) =
            missing.partition(|name| self.members.contains_key(name));
        let said_nothing = format!("said nothing within {seconds} s");
        for name in &lost {
            self.will_not_open(name, "its connection was lost".into());
        }
        if here.len() > self.parts.job.spec().corrupt_parties() {
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
        let Some(opening) = &mut self.opening else {
            return;
        };
        let Some(member) = opening.members.get_mut(name) else {
            return;
        };
        let nonce = <[u8; 32]>::try_from(nonce).ok();
        let fits = |nonce: &[u8; 32]| {
            // guard: nonces-fit-at-the-coordinator
            nonce_commitment(&self.parts.job, opening.number, name, nonce) == member.commitment
        };
        match nonce.filter(fits) {
            Some(nonce) => {
                // guard: an-opening-counts-in-a-round-that-begins
                member.nonce = Some(nonce);
                self.unpublished = true;
            }
            None => self.lied_opening(name, "its nonce is not the one that it committed to".into()),
        }
    }
}
