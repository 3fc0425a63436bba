//! The kinds of rounds.

/// The purpose of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundKind {
    /// A sum of the parties' vectors.
    Sum,
    /// A key of the job, for parties that lack it.
    KeySetup,
}

impl RoundKind {
    pub(super) fn label(self) -> &'static str {
        match self {
            RoundKind::Sum => "blindsum round",
            RoundKind::KeySetup => "blindsum key set-up",
        }
    }
}
