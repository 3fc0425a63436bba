//! Faults in a few classes, for counting: a closed set of words, while the kinds of faults grow with the protocols.

use super::fault::FaultKind;

/// A class of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultClass {
    /// Bytes that are no message of the stage, or one of another version.
    Malformed,
    /// A message at a wrong time: of another round or stage, a second one, or of somebody who has no part in the stage.
    OutOfTurn,
    /// A key that must not be used, or a signature or proof that does not verify.
    Signature,
    /// A wrong list of survivors, or lists that differ.
    Survivors,
    /// A share, a sum of shares or a seal that does not fit those of the others.
    Shares,
    /// A vector or ciphertext that the job does not allow.
    Vector,
    /// A wrong accusation, or an accusation that was shown to be right.
    Accusation,
    /// A sum, or its opening, that is wrong or was refused.
    Sum,
    /// Too few parties were left, or the party without which there is no round is missing.
    TooFew,
    /// The side's own input, number, key or record cannot be used.
    Own,
}

impl FaultClass {
    /// All of them, in order.
    pub const ALL: &[Self] = &[
        Self::Malformed,
        Self::OutOfTurn,
        Self::Signature,
        Self::Survivors,
        Self::Shares,
        Self::Vector,
        Self::Accusation,
        Self::Sum,
        Self::TooFew,
        Self::Own,
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::OutOfTurn => "out_of_turn",
            Self::Signature => "signature",
            Self::Survivors => "survivors",
            Self::Shares => "shares",
            Self::Vector => "vector",
            Self::Accusation => "accusation",
            Self::Sum => "sum",
            Self::TooFew => "too_few",
            Self::Own => "own",
        }
    }
}

impl FaultKind {
    /// The class by which it is counted.
    pub fn class(&self) -> FaultClass {
        match self {
            Self::Malformed { .. } | Self::Version { .. } => FaultClass::Malformed,
            Self::OtherRound
            | Self::OtherStage { .. }
            | Self::Conflicting { .. }
            | Self::NotAMember
            | Self::Ended => FaultClass::OutOfTurn,
            Self::BadKey { .. } | Self::BadSignature { .. } | Self::Unproved { .. } => {
                FaultClass::Signature
            }
            Self::BadSurvivorList(_) | Self::Inconsistent { .. } => FaultClass::Survivors,
            Self::Sealed { .. }
            | Self::BadShares { .. }
            | Self::WrongShare { .. }
            | Self::WrongColumn { .. }
            | Self::WrongShares { .. }
            | Self::WrongAnswer { .. }
            | Self::WrongAggregate
            | Self::Undecodable { .. } => FaultClass::Shares,
            Self::Invalid { .. } | Self::Identical { .. } => FaultClass::Vector,
            Self::Accused { .. }
            | Self::Unshown
            | Self::FalseAccuser { .. }
            | Self::Contested { .. } => FaultClass::Accusation,
            Self::WrongSum
            | Self::Decryption(_)
            | Self::RollCall { .. }
            | Self::SumsDiffer { .. }
            | Self::Refused { .. }
            | Self::NotOpened { .. } => FaultClass::Sum,
            Self::TooFewSurvivors { .. } | Self::TooFewHonest { .. } | Self::RootMissing { .. } => {
                FaultClass::TooFew
            }
            Self::NoKey
            | Self::OtherKey
            | Self::RoundUsed { .. }
            | Self::Vault(_)
            | Self::Number { .. }
            | Self::Parameters(_)
            | Self::Input(_)
            | Self::InputMissing
            | Self::Snapshot(_) => FaultClass::Own,
        }
    }
}
