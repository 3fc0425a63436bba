//! What a party has of a round when it is over.

use blindsum_math::words::Words;

use crate::PartySet;

/// What a client learns when the round is over.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundSum {
    /// The sum of the survivors' words.
    pub sum: Words,
    /// Whose words are in it.
    pub survivors: PartySet,
    /// How many of them sent each coordinate, where rounds are sparse. The sum is 0 where fewer than
    /// [`JobSpec::least_contributors`](crate::JobSpec::least_contributors) did.
    pub contributors: Option<Vec<u32>>,
}

impl RoundSum {
    /// A sum to which every survivor has added at all coordinates.
    pub(crate) fn dense(sum: Words, survivors: PartySet) -> Self {
        Self {
            sum,
            survivors,
            contributors: None,
        }
    }
}
