//! Parties that leave the job by themselves and say why: a policy refuses the job, a program is stopped or fails. Nobody
//! has failed then: the lease is given back at once, and nobody waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::pb::{LeavingCode, RoundRefusalCode};
use crate::totals::LossCause;
use crate::{foreign, pb};

/// The most parties whose reasons are kept.
const MAX_DEPARTED: usize = 1000;

/// Why parties have left, by name.
#[derive(Default)]
pub(super) struct Departed(BTreeMap<Arc<str>, String>);

impl Departed {
    /// The party has left, for this reason.
    pub fn insert(&mut self, name: &Arc<str>, reason: String) {
        if self.0.len() < MAX_DEPARTED || self.0.contains_key(name) {
            self.0.insert(name.clone(), reason);
        }
    }

    /// The party has connected again.
    pub fn is_back(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Whether a party has left.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Why a party is not waited for: its own reason if it has left, or else `other`.
    pub fn reason(&self, name: &str, other: &str) -> String {
        self.0.get(name).cloned().unwrap_or_else(|| other.into())
    }

    /// All reasons, for people.
    pub fn reasons(&self) -> BTreeMap<String, String> {
        let reasons = self.0.iter();
        reasons
            .map(|(name, reason)| (name.to_string(), reason.clone()))
            .collect()
    }
}

/// Why a party leaves, in words. Its own words are foreign text.
#[must_use]
pub fn departure(leaving: &pb::Leaving) -> String {
    let what = match leaving.code() {
        LeavingCode::LeavingPolicy => "it refuses the job",
        LeavingCode::LeavingStopped => "its program was stopped",
        LeavingCode::LeavingFailed => "it cannot go on",
        LeavingCode::LeavingClosed | LeavingCode::LeavingUnspecified => "it has left the job",
    };
    match foreign(&leaving.reason) {
        reason if reason.is_empty() => what.into(),
        // It says by itself what has failed.
        reason if leaving.code() == LeavingCode::LeavingFailed => reason,
        reason => format!("{what}: {reason}"),
    }
}

/// By what it is counted that a party takes no further part in a round.
pub(super) fn refusal_cause(refusal: &pb::RoundRefused) -> LossCause {
    match refusal.code() {
        RoundRefusalCode::RoundRefusalSitsOut => LossCause::SatOut,
        RoundRefusalCode::RoundRefusalInput => LossCause::NotAccepted,
        _ => LossCause::Refused,
    }
}

/// Whether a party leaves a round for a reason of its own: nobody has done wrong.
pub(super) fn leaves_by_itself(refusal: &pb::RoundRefused) -> bool {
    refusal_cause(refusal).is_sitting_out()
        || refusal.code() == RoundRefusalCode::RoundRefusalUnable
}

/// Why a party takes no further part in a round, in words.
pub(super) fn refused_because(refusal: &pb::RoundRefused) -> String {
    let what = match refusal.code() {
        RoundRefusalCode::RoundRefusalSitsOut => "its program gave no update",
        RoundRefusalCode::RoundRefusalInput => "its update was not accepted",
        _ => "refused by the party",
    };
    match foreign(&refusal.reason) {
        reason if reason.is_empty() => what.into(),
        reason => format!("{what}: {reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a party says of itself is cut to a line, and does nothing in a log.
    #[test]
    fn case_53_the_words_of_who_leaves_are_foreign() {
        let leaving = |code: LeavingCode, reason: &str| pb::Leaving {
            code: code.into(),
            reason: reason.into(),
        };
        let refuses = leaving(LeavingCode::LeavingPolicy, "policy max_dim: too\nlong");
        assert_eq!(
            departure(&refuses),
            "it refuses the job: policy max_dim: too\\u{a}long"
        );
        let long = leaving(LeavingCode::LeavingFailed, &"x".repeat(10_000));
        assert!(departure(&long).len() < 300);
        assert_eq!(
            departure(&leaving(LeavingCode::LeavingStopped, "")),
            "its program was stopped"
        );
    }

    #[test]
    fn reasons_are_kept_of_so_many_parties() {
        let mut departed = Departed::default();
        for number in 0..MAX_DEPARTED + 10 {
            departed.insert(&format!("party-{number}").into(), "it is tired".into());
        }
        assert_eq!(departed.reasons().len(), MAX_DEPARTED);
        departed.insert(&"party-3".into(), "it is gone".into());
        assert_eq!(departed.reason("party-3", "lost"), "it is gone");
        departed.is_back("party-3");
        assert_eq!(departed.reason("party-3", "lost"), "lost");
    }
}
