//! What the sum of a coordinate is divided by in a sparse round.

/// The divisor of a coordinate's sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divisor {
    /// The number of parties whose updates are in the round, whether they sent the coordinate or not. What a party sends
    /// late then counts as much as it would have counted in a dense round.
    Parties(u32),
    /// The number of parties that sent the coordinate (FLASHE Alg. 1). What a party alone sends counts as many times more
    /// as there are parties.
    Senders,
}

impl Divisor {
    /// What the mean over the senders is multiplied with.
    #[inline(always)]
    pub(crate) fn part(self, count: u64) -> f64 {
        match self {
            Self::Parties(parties) => count as f64 / f64::from(parties.max(1)),
            Self::Senders => 1.0,
        }
    }
}
