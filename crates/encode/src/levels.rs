//! How many levels the range of a coordinate is cut into.

/// How a scaled value becomes an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Up with a probability equal to the fraction, down otherwise. Unbiased: the fraction is taken to f bits
    /// and compared with as many random ones, `f = min(32, 52 - bits of (weight * (2^bits - 1)))`, so the
    /// expectation is within 2^-33 of a level of the exact value or, for large levels, within 2^-53 of the
    /// whole range.
    Stochastic,
    /// To the nearest integer, ties to even. Needs no randomness and halves the largest error. 0 is a level
    /// ([`Rounding::last_level`]) and is encoded exactly, with every weight; other values have a fixed error.
    Nearest,
}

impl Rounding {
    /// The last level t of a coordinate with `bits` bits, 2 to 32: level 0 is -c, level t is c.
    ///
    /// Rounding to nearest has an odd number of levels, t = 2^bits - 2, so that 0 is the middle one: what is 0 stays 0.
    /// With t = 2^bits - 1 it would lie halfway between two levels and always go to the same one, which is a bias of
    /// c / t that no average over parties and rounds takes away. Stochastic rounding has no bias wherever 0 lies, and
    /// takes all levels.
    pub fn last_level(self, bits: u32) -> u64 {
        match self {
            Self::Stochastic => (1 << bits) - 1,
            Self::Nearest => (1 << bits) - 2,
        }
    }

    /// What a level is to the next one, as a coordinate.
    pub(crate) fn step(self, bits: u32, clip: f64) -> f64 {
        2.0 * clip / self.last_level(bits) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_in_the_middle_of_the_levels_of_nearest_rounding() {
        for bits in 2..=32 {
            let last = Rounding::Nearest.last_level(bits);
            assert_eq!(last % 2, 0);
            assert_eq!(last + 1, Rounding::Stochastic.last_level(bits));
            assert_eq!(Rounding::Nearest.step(bits, 1.0) * (last / 2) as f64, 1.0);
        }
    }
}
