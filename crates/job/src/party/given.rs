//! What a party remembers of what it has given: of its updates, of their metrics, and of first models.

use blindsum_encode::Sent;

use super::leftover::Leftover;
use super::measured::Measured;
use crate::falling::Falling;

/// What is remembered.
#[derive(Default)]
pub(super) struct Given {
    /// The hashes of the first models that it has given.
    pub models: Vec<[u8; 32]>,
    /// The models of which it has reported metrics.
    pub measured: Measured,
    /// What it has not sent yet, where rounds are sparse.
    pub leftover: Option<Leftover>,
    /// What was sent of an update in a sparse round, until its result is taken.
    pub sent: Option<(u64, Sent)>,
    /// Whether the log has said already that updates are clipped, and what to do.
    pub clipping_told: bool,
    /// The clipping bounds of rounds, where they follow from earlier ones.
    pub falling: Falling,
}
