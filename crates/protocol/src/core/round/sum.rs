//! The result of a round at a party.

use blindsum_math::words::Words;

use crate::PartySet;

/// What a client learns when the round is over, or a server that is not the coordinator.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundSum {
    /// The sum of the survivors' words, or what the rule of the job makes of them. A client has no words where [the servers
    /// alone learn it](crate::Job::tells_parties).
    pub sum: Words,
    /// The parties whose words are in it.
    pub survivors: PartySet,
    /// In sparse rounds, how many of them sent each coordinate. The sum is 0 where fewer than
    /// [`JobSpec::least_contributors`](crate::JobSpec::least_contributors) did.
    pub contributors: Option<Vec<u32>>,
}

/// A result whose words are signed numbers of 64 bits: a coordinate is `factor · word + offset` of its clipping bound.
pub(crate) struct Signed {
    pub factor: f64,
    pub offset: f64,
}

/// The mean that a round must come to, computed from vectors that are known.
#[derive(Clone, Debug, PartialEq)]
pub struct InTheClear {
    /// The coordinates, `[dim]`.
    pub mean: Vec<f64>,
    /// By how much a coordinate of the servers' result may differ: they compute with numbers of limited length.
    pub error: f64,
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
