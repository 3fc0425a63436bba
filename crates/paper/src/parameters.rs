//! The parameters of the PSS thesis.

/// The parameters that the PSS thesis (§IV.1) chooses.
///
/// It takes a power of two for the polynomial, a power of three for the points, and a block length that
/// divides the number of words, so that a prime number of words is shared one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperParameters {
    /// d2, the largest power of two up to n − (2c + d): coefficients of a polynomial.
    pub polynomial: usize,
    /// l, the largest divisor of m up to d2 − c: words in a polynomial.
    pub packing: usize,
    /// d3, the smallest power of three above n: points at which it is evaluated.
    pub points: usize,
}

impl PaperParameters {
    /// The choice for n parties, c corrupt, d dropped and m words; `None` where there is none.
    pub fn choose(parties: usize, corrupt: usize, dropouts: usize, words: usize) -> Option<Self> {
        let room = parties.checked_sub(2 * corrupt + dropouts)?;
        let polynomial: usize = 1 << room.checked_ilog2()?;
        let most = polynomial.checked_sub(corrupt).filter(|&most| most > 0)?;
        let packing = (1..=most.min(words))
            .rev()
            .find(|&l| words.is_multiple_of(l))?;
        let mut points = 3;
        while points <= parties {
            points *= 3;
        }
        Some(Self {
            polynomial,
            packing,
            points,
        })
    }
}
