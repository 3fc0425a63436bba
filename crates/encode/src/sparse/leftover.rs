//! How much a party keeps of what it has not sent.

/// The size of what a party keeps for later rounds. It goes with the party if the job ends.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LeftoverSize {
    /// The L2 norm, in the unit of updates.
    pub norm: f64,
    /// The coordinates that are not 0.
    pub coordinates: u64,
}

impl LeftoverSize {
    /// The size of these values.
    pub(super) fn of(values: &[f64]) -> Self {
        Self {
            norm: crate::values::sum_of_squares(values).sqrt(),
            coordinates: values.iter().filter(|value| **value != 0.0).count() as u64,
        }
    }
}
