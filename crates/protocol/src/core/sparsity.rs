//! Rounds in which parties send only some of their coordinates.

use blindsum_encode::DensitySchedule;

/// The parameters of such rounds.
#[derive(Clone, Debug)]
pub struct Sparsity {
    /// Which part of its coordinates a party sends in each round.
    pub schedule: DensitySchedule,
    /// How many parties must have sent a coordinate for its sum to be opened.
    pub least_contributors: u32,
}
