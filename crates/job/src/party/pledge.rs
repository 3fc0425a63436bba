//! What a party says when it is ready for a round: its nonce, or a commitment to the nonce if a graph is drawn from it.
//!
//! A party that knew all other nonces could try its own until the graph suits it. So each party reveals its nonce only
//! when the roster is fixed, for that roster and no other, and takes part in no round but the one that was fixed. Every
//! member can check that nobody had a choice: the round has all the nonces to which its members committed.

use blindsum_protocol::{Job, Round, Tag, nonce_commitment};

use crate::pb;

/// A nonce, and what was said of it.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Pledge {
    /// What the coordinator was told.
    #[prost(message, required, tag = "1")]
    pub ready: pb::Ready,
    /// In no record but that of a suspended party: see [`JobState::write`](super::state::JobState::write).
    #[prost(bytes = "vec", tag = "2")]
    pub nonce: Vec<u8>,
    /// The roster for which it was opened.
    #[prost(message, optional, tag = "3")]
    pub opened: Option<pb::RosterFixed>,
}

impl Pledge {
    /// The tag of the round that it is for.
    pub fn tag(&self) -> Option<Tag> {
        Tag::read(self.ready.tag, &self.ready.about).unwrap_or_default()
    }

    /// Of a party of this name, for a round of the job.
    pub fn new(job: &Job, round: u64, name: &str, nonce: [u8; 32]) -> Self {
        let (said, commitment) = match job.commits_nonces() {
            true => {
                let commitment = nonce_commitment(job, round, name, &nonce);
                (Vec::new(), commitment.to_vec())
            }
            false => (nonce.to_vec(), Vec::new()),
        };
        Self {
            ready: pb::Ready {
                round,
                nonce: said,
                commitment,
                ..pb::Ready::default()
            },
            nonce: nonce.to_vec(),
            opened: None,
        }
    }

    /// The nonce, for a roster that is fixed: the first one, or that one once more.
    ///
    /// # Errors
    /// It was opened for another one.
    pub fn open(&mut self, mut fixed: pb::RosterFixed) -> Result<pb::NonceOpening, String> {
        fixed.certificates.clear();
        let opened = self.opened.get_or_insert_with(|| fixed.clone());
        // guard: nonces-are-opened-once
        match *opened == fixed {
            true => Ok(pb::NonceOpening {
                round: fixed.round,
                nonce: self.nonce.clone(),
            }),
            false => Err("a roster is fixed a second time, with something else in it".into()),
        }
    }

    /// A round begins with the members that were fixed, and the nonces to which they committed.
    ///
    /// # Errors
    /// What is not as it was offered or fixed.
    pub fn check(&self, start: &pb::RoundStart, round: &Round) -> Result<(), String> {
        if (start.tag, &start.about) != (self.ready.tag, &self.ready.about) {
            return Err("it begins with another tag than was offered".into());
        }
        if !round.job().commits_nonces() {
            return Ok(());
        }
        let fixed = self.opened.as_ref();
        let fixed = fixed.ok_or("it begins before its roster was fixed")?;
        // guard: the-numbers-are-those-that-were-fixed
        if (&start.model, &start.numbers) != (&fixed.model, &fixed.numbers) {
            return Err("it begins with another model or other numbers than were fixed".into());
        }
        let members = start.roster.iter().map(|member| &member.fingerprint);
        // guard: the-roster-is-the-one-that-was-fixed
        if !members.eq(fixed.roster.iter().map(|member| &member.fingerprint)) {
            return Err("it begins with other members than were fixed".into());
        }
        for (member, fixed) in round.roster().members().iter().zip(&fixed.roster) {
            let name = &member.name;
            let commitment = nonce_commitment(round.job(), start.round, name, &member.nonce);
            // guard: nonces-are-those-committed-to
            if commitment[..] != fixed.commitment {
                return Err(format!(
                    "the nonce of {name} is not the one that it committed to"
                ));
            }
        }
        Ok(())
    }
}

/// A roster that is fixed as the beginning of a round, in which commitments stand for nonces: what is checked of one
/// is checked of the other.
pub(super) fn as_start(fixed: &pb::RosterFixed) -> pb::RoundStart {
    let member = |member: &pb::Committed| pb::Participant {
        fingerprint: member.fingerprint.clone(),
        nonce: member.commitment.clone(),
    };
    pb::RoundStart {
        round: fixed.round,
        model: fixed.model.clone(),
        roster: fixed.roster.iter().map(member).collect(),
        certificates: fixed.certificates.clone(),
        answers_taken: 0,
        kind: pb::RoundKind::Sum.into(),
        numbers: fixed.numbers,
        terms: None,
        // What is checked of a roster does not depend on it.
        tag: None,
        about: Vec::new(),
    }
}
