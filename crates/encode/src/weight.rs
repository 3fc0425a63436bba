//! What a sum of words says of itself: its shape, and the total weight behind it.

use blindsum_math::words::Words;

use crate::{EncodeError, Encoding};

impl Encoding {
    pub(crate) fn check_sum_shape(&self, sum: &Words) -> Result<(), EncodeError> {
        if sum.len() == self.lanes() && sum.width() == self.width() {
            return Ok(());
        }
        Err(EncodeError::SumShape {
            got_lanes: sum.len(),
            got_bits: sum.width().bits(),
            lanes: self.lanes(),
            bits: self.width().bits(),
        })
    }

    /// The total weight of a sum, checked to be one that `survivors` parties can have.
    ///
    /// # Errors
    /// [`EncodeError::SumShape`], [`EncodeError::Survivors`], [`EncodeError::TotalWeight`].
    pub fn total_weight(&self, sum: &Words, survivors: usize) -> Result<u64, EncodeError> {
        self.check_sum_shape(sum)?;
        let parties = self.parties();
        if !(1..=parties).contains(&survivors) {
            return Err(EncodeError::Survivors { survivors, parties });
        }
        if !self.has_weight_word() {
            return Ok(survivors as u64);
        }
        let total_weight = sum.get(self.coordinate_lanes());
        // parties * max_weight < 2^64, so that no sum wraps.
        let largest = survivors as u64 * u64::from(self.max_weight());
        if (survivors as u64..=largest).contains(&total_weight) {
            return Ok(total_weight);
        }
        Err(EncodeError::TotalWeight {
            total_weight,
            survivors,
            largest,
        })
    }
}
