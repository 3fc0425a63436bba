//! The one error type of this crate.

use crate::ServerIndex;

/// Why the servers cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpcError {
    /// A message that is too short or too long.
    #[error("round {round}: the message of {from} has {got} bytes, and must have {expected}")]
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
    /// A message of another round than the one under way.
    #[error("round {round}: {from} is in round {got}")]
    Round {
        /// The round under way, from 0.
        round: u32,
        /// Whose message.
        from: ServerIndex,
        /// The round that the message names.
        got: u32,
    },
    /// Bits behind the last one of a row of bits must be 0, so that there is one encoding of each value.
    #[error("bit vector of a message: the bits after the last one must be zero")]
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
    /// Messages contradict each other: one of the three servers does not follow the protocol.
    #[error(
        "{what}: the message of {from} contradicts the others; {from}, {me} or the third server deviates from the protocol"
    )]
    Differs {
        /// What was compared.
        what: &'static str,
        /// The server that noticed it.
        me: ServerIndex,
        /// The server whose message it noticed it in.
        from: ServerIndex,
    },
    /// The vector that others are compared with is shared with another norm than every direction has.
    #[error("reference vector: its shares have another norm than a direction has")]
    Direction,
    /// A result was to be shown before everything computed for it was verified, or after something was found wrong.
    #[error("a result must be verified before it is shown")]
    Unverified,
    /// A computation that has failed, or of which a part was given up while it waited, says nothing any more.
    #[error("the computation has ended already")]
    Ended,
    /// The code waits for nothing that a message could bring.
    #[error("the computation waits for no message and has not ended")]
    Stuck,
}
