//! A party that has revealed its nonce, and waits for the round to begin.

use blindsum_protocol::{Round, nonce_commitment};

use super::pledge::Pledge;
use crate::pb;

/// *Opened*, in docs/wire-party.md: from `NonceOpening` r, where nonces are committed to, until `RoundStart` r. Its
/// `Hello` says round r, and that nothing was answered.
pub(super) struct Opened {
    pub pledge: Pledge,
    /// The roster for which the nonce was opened, without certificates.
    fixed: pb::RosterFixed,
}

impl Opened {
    /// The nonce is opened for this roster.
    pub fn new(pledge: Pledge, mut fixed: pb::RosterFixed) -> Self {
        fixed.certificates.clear();
        Self { pledge, fixed }
    }

    /// The roster for which the nonce was opened.
    pub fn fixed(&self) -> &pb::RosterFixed {
        &self.fixed
    }

    /// A roster is fixed once more, as after a connection was lost.
    ///
    /// # Errors
    /// It is another one.
    pub fn check_same(&self, mut fixed: pb::RosterFixed) -> Result<(), String> {
        fixed.certificates.clear();
        let opened = &self.fixed;
        // guard: nonces-are-opened-once
        match *opened == fixed {
            true => Ok(()),
            false => Err("a roster is fixed a second time, with something else in it".into()),
        }
    }

    /// A round begins with the members that were fixed, and the nonces to which they committed.
    ///
    /// # Errors
    /// What is not as it was offered or fixed.
    pub fn check(&self, start: &pb::RoundStart, round: &Round) -> Result<(), String> {
        self.pledge.check_tag(start)?;
        let fixed = &self.fixed;
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
