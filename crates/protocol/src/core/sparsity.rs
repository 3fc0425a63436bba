//! Rounds in which parties send only some of their coordinates.

use blindsum_encode::DensitySchedule;

/// The parameters of such rounds.
#[derive(Clone, Debug)]
pub struct Sparsity {
    /// Which part of its coordinates a party sends in each round.
    pub schedule: DensitySchedule,
    /// How many parties must have sent a coordinate for its sum to be opened.
    pub least_contributors: u32,
    /// Whether a sum is divided by the number of parties that sent the coordinate; else by that of all survivors.
    pub counts_senders: bool,
}
