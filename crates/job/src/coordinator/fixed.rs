//! A roster that is fixed, while its members open the nonces to which they committed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::roster::CertifiedRoster;
use blindsum_protocol::{Job, RoundParameters, nonce_commitment};

use super::beginning::Beginnings;
use super::connections::Connections;
use super::lost::{Lost, LostBy};
use crate::machine::Time;
use crate::pb;

/// A roster that is fixed.
pub(crate) struct Fixed {
    pub number: u64,
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

impl Fixed {
    /// The members of this roster have commitments where others have nonces.
    pub fn new(
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
    pub fn misses(&self, name: &str) -> bool {
        let member = self.members.get(name);
        member.is_some_and(|member| member.nonce.is_none())
    }

    /// Who has not opened yet.
    pub fn missing(&self) -> impl Iterator<Item = &Arc<str>> {
        let missing = self.members.iter().filter(|(_, m)| m.nonce.is_none());
        missing.map(|(name, _)| name)
    }

    /// The connection of a member was lost.
    pub fn lost(&mut self, name: &str, now: Time) {
        if let Some(member) = self.members.get_mut(name) {
            member.lost.get_or_insert(Lost::new(now, LostBy::Cut));
        }
    }

    /// A member is not waited for any more: its lease has run out, or it has left the job.
    pub fn member_failed(&mut self, name: &str, lost: Lost) {
        if let Some(member) = self.members.get_mut(name) {
            member.lost = Some(lost);
        }
    }

    /// A member will not open.
    pub fn fail(&mut self, name: &Arc<str>, reason: String) {
        self.failed.get_or_insert((name.clone(), reason));
    }

    /// The first of those that have not opened who is not waited for any more, until when, and why.
    pub fn first_lost(&self, grace: Duration) -> Option<(Time, &Arc<str>, &'static str)> {
        let missing = self.members.iter().filter(|(_, m)| m.nonce.is_none());
        let lost = missing.filter_map(|(name, m)| Some((name, m.lost?)));
        lost.map(|(name, lost)| (lost.until(grace), name, lost.reason()))
            .min()
    }

    /// The names of its members.
    pub fn names(&self) -> Vec<Arc<str>> {
        self.members.keys().cloned().collect()
    }

    /// Who will not open, and why.
    pub fn failed(&self) -> Option<&(Arc<str>, String)> {
        self.failed.as_ref()
    }

    /// Tells a member that the roster is fixed, now or once it is back.
    pub fn send(&mut self, members: &mut Connections, name: &str, now: Time) {
        let Some(member) = members.get_mut(name) else {
            return self.lost(name, now);
        };
        let frame = self.beginnings.fixed(&self.fixed, &mut member.shown);
        member.link.shared(frame);
        if let Some(opener) = self.members.get_mut(name) {
            opener.lost = None;
        }
    }

    /// A member opens its nonce, which must be the one to which it committed; false where it is not, `None` where it is no
    /// member.
    pub fn open(&mut self, job: &Job, name: &str, nonce: &[u8]) -> Option<bool> {
        let member = self.members.get_mut(name)?;
        let nonce = <[u8; 32]>::try_from(nonce).ok();
        let fits = |nonce: &[u8; 32]| {
            // guard: nonces-fit-at-the-coordinator
            nonce_commitment(job, self.number, name, nonce) == member.commitment
        };
        let opened = nonce.filter(fits);
        if let Some(nonce) = opened {
            // guard: an-opening-counts-in-a-round-that-begins
            member.nonce = Some(nonce);
        }
        Some(opened.is_some())
    }

    /// The nonces of all that have opened, in the order of names, as the roster.
    pub fn into_nonces(self) -> Vec<[u8; 32]> {
        let members = self.members.into_values();
        members.filter_map(|member| member.nonce).collect()
    }
}
