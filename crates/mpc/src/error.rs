//! The one error type of this crate.

use crate::ServerIndex;

/// Why the servers cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpcError {
    /// A message that is too short or too long.
    #[error("round {round}: a message of {got} bytes from {from}, but {expected} must come")]
    Length {
        /// The round, from 0.
        round: u32,
        /// Whose message.
        from: ServerIndex,
        /// Bytes that an honest server sends.
        expected: usize,
        /// Bytes that came.
        got: usize,
    },
    /// Bits behind the last one of a row of bits must be 0, so that there is one encoding of each value.
    #[error("a row of bits has ones behind its end")]
    Padding,
    /// Shares of vectors that do not fit together.
    #[error("shapes: {left} values and {right} values, but {rule} must hold")]
    Shape {
        /// Values in the first.
        left: usize,
        /// Values in the second.
        right: usize,
        /// What must hold.
        rule: &'static str,
    },
    /// A number outside of what an operation is made for.
    #[error("{name} = {value}, but {rule} must hold")]
    Range {
        /// What it is.
        name: &'static str,
        /// Its value.
        value: u64,
        /// What must hold.
        rule: &'static str,
    },
    /// One of the two servers, or the one that says so, does not follow the protocol.
    #[error(
        "{what}: {from} says something else than what follows from the rest, so it, {me} or the third one cheats"
    )]
    Differs {
        /// What was compared.
        what: &'static str,
        /// Who finds it.
        me: ServerIndex,
        /// Whose message it is.
        from: ServerIndex,
    },
    /// Something was computed and not verified, or found wrong.
    #[error("a result must be verified before it is shown")]
    Unverified,
    /// The code waits for nothing that a message could bring.
    #[error("the computation waits for no message and does not end")]
    Stuck,
}
