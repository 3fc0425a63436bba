//! The state of a training simulation between two processes.

use blindsum_protocol::Best;

/// All that a training simulation needs to go on in another process. Keys of the job are not in it: parties make them anew.
#[derive(Clone, Debug)]
pub struct TrainingState {
    /// The version of the model.
    pub version: u64,
    /// Its bytes, with the state of the server step and the history of updates where the job has them.
    pub model: Vec<u8>,
    /// Rounds that were run, with and without a sum.
    pub done: u32,
    /// Rounds that were begun again without a party that was lost.
    pub begun_again: u64,
    /// What rounds are bound to: a hash over all sums.
    pub chain: [u8; 32],
    /// What each party has not sent yet, by rank; empty where rounds are dense.
    pub leftovers: Vec<Vec<u8>>,
    /// The best value of the metric that may end the job, with the bytes of the model that it is of.
    pub best: Option<(Best, Vec<u8>)>,
}
