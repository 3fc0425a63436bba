//! The parameters of a round: what the coordinator chooses for a roster and every party checks.
//!
//! How many neighbours a party has, how many shares rebuild a secret, how many words a polynomial packs: the
//! coordinator derives these numbers and sends them at the beginning of a round. A party derives nothing. It only
//! checks the inequalities on which its privacy rests, so that a party can be written in any language. The numbers are
//! part of the round's context: parties that were told different numbers cannot complete a round together.
//!
//! Which parameters a protocol has, it says in a [table](round_parameters) of its own.

use crate::{Fault, FaultKind, Job, SpecError};

/// The fields of the message that carries them.
const FIELDS: [&str; 3] = ["neighbours", "threshold", "packing"];

/// What a coordinator chooses for a round, as it is sent: a word for each field of the message, 0 where the protocol of
/// the job has no such parameter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundParameters([u32; FIELDS.len()]);

impl RoundParameters {
    /// From the words of the message, in the order of its fields: `neighbours`, `threshold`, `packing`.
    pub fn from_words(words: [u32; FIELDS.len()]) -> Self {
        Self(words)
    }

    /// The words of the message, in the same order.
    pub fn words(self) -> [u32; FIELDS.len()] {
        self.0
    }

    /// What enters the context of a round: the words, each as 4 bytes, big-endian.
    pub(crate) fn to_bytes(self) -> [u8; 12] {
        let mut bytes = [0; 12];
        for (place, word) in bytes.chunks_exact_mut(4).zip(self.0) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// Refuses a word for a parameter that the protocol does not have.
    fn check_absent(self, has: &[&str]) -> Result<(), FaultKind> {
        let mut others = FIELDS
            .iter()
            .zip(self.0)
            .filter(|(name, _)| !has.contains(name));
        match others.find(|(_, told)| *told != 0) {
            None => Ok(()),
            Some((name, told)) => broken(
                name,
                format!("{name} = {told} must be 0: the protocol does not have this number"),
            ),
        }
    }
}

/// The place of a field in the message. A name that the message lacks does not compile where the place is a constant.
pub(crate) const fn place_of(name: &str) -> usize {
    match name.as_bytes() {
        b"neighbours" => 0,
        b"threshold" => 1,
        b"packing" => 2,
        _ => panic!("the message has no such field"),
    }
}

/// Declares the parameters that a protocol chooses for each round, by the names of the message's fields.
macro_rules! round_parameters {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name { $($(#[$field_doc])* pub $field: u32,)+ }

        impl $name {
            /// The names of all.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($field)),+];
        }

        impl From<$crate::RoundParameters> for $name {
            fn from(told: $crate::RoundParameters) -> Self {
                let words = told.words();
                Self {$(
                    $field: words[const { $crate::core::round_parameters::place_of(stringify!($field)) }],
                )+}
            }
        }

        impl From<$name> for $crate::RoundParameters {
            fn from(chosen: $name) -> Self {
                let mut words = Self::default().words();
                $(
                    words[const { $crate::core::round_parameters::place_of(stringify!($field)) }] = chosen.$field;
                )+
                Self::from_words(words)
            }
        }
    };
}
pub(crate) use round_parameters;

/// How a protocol chooses the parameters of a round, and what a party wants of them.
pub(crate) struct ParameterRules {
    /// The names of those that it has.
    pub names: &'static [&'static str],
    /// Those of a round of so many parties.
    pub choose: fn(&Job, usize) -> Result<RoundParameters, SpecError>,
    /// The inequalities on which the privacy of a party rests, and those that keep it from senseless work. Whether
    /// the round can come to a result is for the coordinator to care about.
    pub check: fn(&Job, usize, RoundParameters) -> Result<(), FaultKind>,
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

impl Job {
    /// The parameters that a coordinator chooses for a round of `n` parties. A checked job has them for every n from
    /// [`min_parties`](Self::min_parties) to `parties`.
    ///
    /// # Errors
    /// `n` is outside of this range, or no numbers meet a rule, which the fault quotes.
    pub fn round_parameters_for(&self, n: usize) -> Result<RoundParameters, Fault> {
        self.check_roster_size(n)?;
        match &self.spec().info().round_parameters {
            Some(rules) => (rules.choose)(self, n)
                .map_err(|e| Fault::server(FaultKind::Parameters(e.to_string()))),
            None => Ok(RoundParameters::default()),
        }
    }

    /// Checks that these parameters keep a party's privacy in a round of `n` parties.
    ///
    /// # Errors
    /// [`FaultKind::Number`]: the number and the rule that it breaks.
    pub fn check_parameters(&self, n: usize, told: RoundParameters) -> Result<(), FaultKind> {
        match &self.spec().info().round_parameters {
            Some(rules) => {
                told.check_absent(rules.names)?;
                (rules.check)(self, n, told)
            }
            None => told.check_absent(&[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    round_parameters! {
        /// Two of the three, in another order than in the message.
        Two {
            packing,
            neighbours,
        }
    }

    #[test]
    fn a_table_has_the_places_of_its_names() {
        let told = Two::from(RoundParameters::from_words([1, 2, 3]));
        assert_eq!((told.neighbours, told.packing), (1, 3));
        assert_eq!(RoundParameters::from(told).words(), [1, 0, 3]);
        for (place, name) in FIELDS.iter().enumerate() {
            assert_eq!(place_of(name), place);
        }
    }

    #[test]
    fn a_word_that_no_table_has_is_refused_by_its_name() {
        let told = RoundParameters::from_words([0, 2, 3]);
        assert_eq!(told.check_absent(&["threshold", "packing"]), Ok(()));
        match told.check_absent(Two::NAMES) {
            Err(FaultKind::Number { name, rule }) => {
                assert_eq!(name, "threshold");
                assert!(rule.starts_with("threshold = 2 must be 0"), "{rule}");
            }
            other => panic!("{other:?}"),
        }
    }
}
