//! What a party says when it is ready for a round: its nonce, or a commitment to the nonce if a graph is drawn from it.
//!
//! A party that knew all other nonces could try its own until the graph suits it. So each party reveals its nonce only
//! when the roster is fixed, for that roster and no other, and takes part in no round but the one that was fixed. Every
//! member can check that nobody had a choice: the round has all the nonces to which its members committed.

use blindsum_protocol::{Job, Round, Tag, nonce_commitment};

use crate::pb;

/// *Ready*, in docs/wire-party.md: from `Ready` r until `RosterFixed` r or `RoundStart` r. Its `Hello` says round r, and
/// that nothing was answered.
pub(super) struct Pledge {
    /// What the coordinator was told.
    pub ready: pb::Ready,
    /// In no record but that of a suspended party: see [`JobRecords::write`](super::records::JobRecords::write).
    pub nonce: Vec<u8>,
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
        }
    }

    /// The nonce, for a roster that was fixed.
    pub fn opening(&self) -> pb::NonceOpening {
        pb::NonceOpening {
            round: self.ready.round,
            nonce: self.nonce.clone(),
        }
    }

    /// A round begins for which no roster was fixed.
    ///
    /// # Errors
    /// It must have been, or it is not as it was offered.
    pub fn check(&self, start: &pb::RoundStart, round: &Round) -> Result<(), String> {
        self.check_tag(start)?;
        match round.job().commits_nonces() {
            true => Err("it begins before its roster was fixed".into()),
            false => Ok(()),
        }
    }

    /// A round begins with the tag that was offered.
    ///
    /// # Errors
    /// It has another one.
    pub fn check_tag(&self, start: &pb::RoundStart) -> Result<(), String> {
        match (start.tag, &start.about) == (self.ready.tag, &self.ready.about) {
            true => Ok(()),
            false => Err("it begins with another tag than was offered".into()),
        }
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
