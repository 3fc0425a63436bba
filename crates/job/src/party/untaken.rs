//! A result that the caller was told and has not taken yet (`taking.rs`).

use super::result::RoundResult;
use super::suspended::RoundUnderWay;
use crate::pb;

/// A result that the caller was told.
pub(super) struct Untaken {
    pub round: u64,
    pub confirmed: pb::RoundConfirmed,
    /// How many parties sent each coordinate, where the round was sparse and this party's are in it.
    pub contributors: Option<Vec<u32>>,
    /// What leads to the result a second time, where the party may be suspended before it is taken.
    again: Option<(RoundUnderWay, pb::RoundDone)>,
}

impl Untaken {
    pub fn new(
        round: u64,
        result: &RoundResult,
        me: &str,
        again: Option<(RoundUnderWay, pb::RoundDone)>,
    ) -> Self {
        let counts = result.survivors.iter().any(|survivor| survivor == me);
        Self {
            round,
            confirmed: confirmed(round, result),
            contributors: result.contributors.clone().filter(|_| counts),
            again,
        }
    }

    /// The round with its end, to tell the result again in another process.
    pub fn again(&self) -> Option<(RoundUnderWay, pb::RoundDone)> {
        self.again.clone()
    }
}

/// What a party says that it holds after a round.
pub(super) fn confirmed(round: u64, result: &RoundResult) -> pb::RoundConfirmed {
    pb::RoundConfirmed {
        round,
        model: Some(result.model.name()),
        result: result.result.to_vec(),
    }
}
