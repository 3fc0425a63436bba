//! The numbers of a round: what the coordinator chooses for a roster and every party checks.
//!
//! How many neighbours a party has, how many shares rebuild a secret, how many words a polynomial packs: the
//! coordinator derives these numbers and sends them at the beginning of a round. A party derives nothing. It only
//! checks the inequalities on which its privacy rests, so that a party can be written in any language. The numbers are
//! part of the round's context: parties that were told different numbers cannot complete a round together.

use crate::{Fault, FaultKind, Job, SpecError};

/// The numbers that a coordinator chooses for a round; 0 where the protocol of the job has no such number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Neighbours κ of a party in the graph of `secagg` and `secagg+`.
    pub neighbours: u32,
    /// Shares that rebuild: a secret (t of `secagg` and `secagg+`) or a sum (k of `fssa` and `pss`).
    pub threshold: u32,
    /// Words l in a polynomial of `fssa` and `pss`.
    pub packing: u32,
}

impl Numbers {
    /// What enters the context of a round: the three in this order, each as 4 bytes, big-endian.
    pub(crate) fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        let words = [self.neighbours, self.threshold, self.packing];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}

/// How a protocol chooses its numbers, and what a party wants of them.
pub(crate) struct NumberRules {
    /// Those of a round of so many parties.
    pub choose: fn(&Job, usize) -> Result<Numbers, SpecError>,
    /// The inequalities on which the privacy of a party rests, and those that keep it from senseless work. Whether
    /// the round can come to a result is for the coordinator to care about.
    pub check: fn(&Job, usize, Numbers) -> Result<(), FaultKind>,
}

/// A number that breaks a rule.
pub(crate) fn broken<T>(name: &'static str, rule: String) -> Result<T, FaultKind> {
    Err(FaultKind::Number { name, rule })
}

/// The number that the job asks for must be the one of the round; 0 asks for none.
///
/// # Errors
/// It is another one.
pub(crate) fn as_asked(name: &'static str, told: u32, asked: usize) -> Result<(), FaultKind> {
    match asked {
        0 => Ok(()),
        asked if asked == told as usize => Ok(()),
        asked => broken(
            name,
            format!("{name} = {told}, and the job asks for {asked}"),
        ),
    }
}

/// A number that the protocol does not have is 0.
///
/// # Errors
/// It is not.
pub(crate) fn absent(name: &'static str, told: u32) -> Result<(), FaultKind> {
    match told {
        0 => Ok(()),
        told => broken(
            name,
            format!("{name} = {told} must be 0: the protocol has no such number"),
        ),
    }
}

impl Job {
    /// The numbers that a coordinator chooses for a round of `n` parties. A checked job has them for every n from
    /// [`min_parties`](Self::min_parties) to `parties`.
    ///
    /// # Errors
    /// `n` is outside of this range, or no numbers meet a rule, which the fault quotes.
    pub fn numbers_for(&self, n: usize) -> Result<Numbers, Fault> {
        self.check_roster_size(n)?;
        match &self.spec().info().numbers {
            Some(rules) => (rules.choose)(self, n)
                .map_err(|e| Fault::server(FaultKind::Parameters(e.to_string()))),
            None => Ok(Numbers::default()),
        }
    }

    /// Checks that these numbers keep a party's privacy in a round of `n` parties.
    ///
    /// # Errors
    /// [`FaultKind::Number`]: the number and the rule that it breaks.
    pub fn check_numbers(&self, n: usize, numbers: Numbers) -> Result<(), FaultKind> {
        match &self.spec().info().numbers {
            Some(rules) => (rules.check)(self, n, numbers),
            None => {
                absent("neighbours", numbers.neighbours)?;
                absent("threshold", numbers.threshold)?;
                absent("packing", numbers.packing)
            }
        }
    }
}
