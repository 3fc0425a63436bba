//! Rounds in which parties send some of their coordinates only.

use blindsum_encode::DensitySchedule;

/// What rounds need to know in which parties send some of their coordinates only.
#[derive(Clone, Debug)]
pub struct Sparsity {
    /// The part of the coordinates that a party sends, by round.
    pub schedule: DensitySchedule,
    /// How many parties must have sent a coordinate for its sum to be opened.
    pub least_contributors: u32,
}
