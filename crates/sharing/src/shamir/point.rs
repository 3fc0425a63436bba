//! Where the sharing polynomials are evaluated: one point a holder, never 0.

use std::num::NonZeroU32;

use blindsum_math::field61::Field61;

use crate::SharingError;

/// The evaluation point of one holder: x = rank in the roster + 1. Not zero, for the value at zero is the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point(NonZeroU32);

impl Point {
    /// The point x, below 2^32 and therefore a different field element for every x.
    ///
    /// # Errors
    /// [`SharingError::ZeroPoint`] if x = 0.
    pub fn new(x: u32) -> Result<Self, SharingError> {
        // guard: point-zero
        NonZeroU32::new(x).map(Self).ok_or(SharingError::ZeroPoint)
    }

    /// The point of the holder at `rank` (counted from 0): x = rank + 1.
    ///
    /// # Errors
    /// [`SharingError::Rank`] if x does not fit.
    pub fn of_rank(rank: u32) -> Result<Self, SharingError> {
        NonZeroU32::MIN
            .checked_add(rank)
            .map(Self)
            .ok_or(SharingError::Rank { rank })
    }

    /// x.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// The points as field elements, once it is sure that no two are equal.
pub(super) fn field_points(points: &[Point]) -> Result<Vec<Field61>, SharingError> {
    let mut sorted = points.to_vec();
    sorted.sort_unstable();
    // guard: equal-points
    if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let point = pair[0].get();
        return Err(SharingError::DuplicatePoint { point });
    }
    Ok(points
        .iter()
        .map(|point| Field61::from_u32(point.get()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case 23 of the abuse suite.
    #[test]
    fn zero_is_no_point() {
        assert_eq!(Point::new(0), Err(SharingError::ZeroPoint));
        assert_eq!(Point::new(1), Point::of_rank(0));
        assert_eq!(Point::new(u32::MAX), Point::of_rank(u32::MAX - 1));
        let rank = u32::MAX;
        assert_eq!(Point::of_rank(rank), Err(SharingError::Rank { rank }));
    }
}
