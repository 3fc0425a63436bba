//! Why a statement, a witness or a column was refused.

use crate::SharingError;
use crate::ramp::ParameterError;

/// Why a statement, a witness or a column was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValidityError {
    /// A statement that cannot be proved in this field.
    #[error("{field}: {rule}")]
    Statement {
        /// The part of it that is wrong.
        field: &'static str,
        /// The rule with the numbers that break it.
        rule: String,
    },
    /// Parameters of the sharing that break a rule.
    #[error(transparent)]
    Parameters(#[from] ParameterError),
    /// A vector of another length.
    #[error("words: {got} words, but the statement is about {need}")]
    Words {
        /// Words given.
        got: usize,
        /// Words of a vector.
        need: usize,
    },
    /// A word outside its range.
    #[error("words: a word must be at most {most}")]
    Word {
        /// The largest word.
        most: u64,
    },
    /// A norm above its bound.
    #[error("norm: the sum of squares must be at most {most}")]
    Norm {
        /// The bound.
        most: u64,
    },
    /// A projection above its bound.
    #[error(
        "projection: must be from -{most} to {most}; chance makes it larger once in 2^40 rounds"
    )]
    Projection {
        /// The bound.
        most: u64,
    },
    /// What the sharing refused.
    #[error(transparent)]
    Sharing(#[from] SharingError),
}
