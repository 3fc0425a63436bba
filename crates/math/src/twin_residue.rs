//! Integers modulo two primes just below 2^61, for sums that must come out right over the integers.
//!
//! A number of at most 121 bits is zero if it is zero modulo both primes, since their product is above 2^121. Reduction
//! takes shifts and additions, because 2^61 ≡ c (mod 2^61 − c) with small c, and no branch.

use std::ops::{Add, AddAssign, Mul, Sub};

use zeroize::DefaultIsZeroes;

use crate::MathError;

/// c of the primes p = 2^61 − c.
const GAPS: [u64; 2] = [1, 31];

/// The primes p1 = 2^61 − 1 and p2 = 2^61 − 31.
pub const PRIMES: [u64; 2] = [(1 << 61) - GAPS[0], (1 << 61) - GAPS[1]];

/// 2^61 − 1.
const LOW: u64 = (1 << 61) - 1;

/// A number modulo p1 and modulo p2, each kept below its prime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwinResidue([u64; 2]);

impl TwinResidue {
    /// Bytes of the encoded form: two little-endian numbers.
    pub const BYTES: usize = 16;

    /// 0.
    pub const ZERO: Self = Self([0; 2]);

    /// The residue that is `numbers[0]` modulo p1 and `numbers[1]` modulo p2.
    pub fn from_each(numbers: [u128; 2]) -> Self {
        Self([0, 1].map(|k| reduce(numbers[k], k)))
    }

    /// The encoded form, canonical.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let [first, second] = self.0.map(u128::from);
        (first | second << 64).to_le_bytes()
    }

    /// Reads the encoded form.
    ///
    /// # Errors
    /// [`MathError::NonCanonical`] for a number that is not below its prime.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self, MathError> {
        let both = u128::from_le_bytes(*bytes);
        let residues = [both as u64, (both >> 64) as u64];
        match residues.into_iter().zip(PRIMES).find(|(r, p)| r >= p) {
            Some((_, modulus)) => Err(MathError::NonCanonical { modulus }),
            None => Ok(Self(residues)),
        }
    }

    fn each(self, other: Self, operation: impl Fn(u64, u64, usize) -> u64) -> Self {
        Self([0, 1].map(|k| operation(self.0[k], other.0[k], k)))
    }
}

impl DefaultIsZeroes for TwinResidue {}

/// The residue of an integer.
impl From<u128> for TwinResidue {
    fn from(number: u128) -> Self {
        Self::from_each([number; 2])
    }
}

impl Add for TwinResidue {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.each(other, |a, b, k| reduce_once(a + b, k))
    }
}

impl AddAssign for TwinResidue {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for TwinResidue {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.each(other, |a, b, k| reduce_once(a + PRIMES[k] - b, k))
    }
}

/// The product by an integer.
impl Mul<u64> for TwinResidue {
    type Output = Self;

    fn mul(self, factor: u64) -> Self {
        Self([0, 1].map(|k| reduce(u128::from(self.0[k]) * u128::from(factor), k)))
    }
}

/// `number` modulo prime k.
fn reduce(number: u128, k: usize) -> u64 {
    let fold = |x: u128| u128::from(x as u64 & LOW) + u128::from(GAPS[k]) * (x >> 61);
    // Below 2^61 + 31·2^67, then below 2^61 + 31·2^12.
    reduce_once(fold(fold(number)) as u64, k)
}

/// `value` < 2p modulo prime k.
fn reduce_once(value: u64, k: usize) -> u64 {
    let difference = value.wrapping_sub(PRIMES[k]);
    // The top bit is set exactly if it went below zero, as value < 2^62.
    let below = (difference >> 63).wrapping_neg();
    difference.wrapping_add(PRIMES[k] & below)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers at the borders of both primes and of the representation.
    fn edges() -> Vec<u128> {
        let around = |x: u128| [x.wrapping_sub(1), x, x.wrapping_add(1)];
        let borders = [0, 1 << 61, 1 << 64, 1 << 122].into_iter();
        let primes = PRIMES.map(u128::from);
        let multiples = primes.into_iter().flat_map(|p| [p, 2 * p, p * p]);
        borders.chain(multiples).flat_map(around).collect()
    }

    fn canonical(number: u128) -> [u64; 2] {
        PRIMES.map(|p| (number % u128::from(p)) as u64)
    }

    fn check(a: u128, b: u128) {
        let (x, y) = (TwinResidue::from(a), TwinResidue::from(b));
        assert_eq!(x.0, canonical(a));
        let factor = b as u64;
        for (k, p) in PRIMES.map(u128::from).into_iter().enumerate() {
            let (a, b) = (a % p, b % p);
            assert_eq!(u128::from((x + y).0[k]), (a + b) % p);
            assert_eq!(u128::from((x - y).0[k]), (a + p - b) % p);
            assert_eq!(u128::from((x * factor).0[k]), a * u128::from(factor) % p);
        }
    }

    /// Both are prime: no base up to 37 is a witness against them (enough for 64 bits).
    #[test]
    fn the_primes_are_prime() {
        for p in PRIMES.map(u128::from) {
            let power = |base: u128, exponent: u128| {
                (0..64).rev().fold(1, |x: u128, bit| {
                    let x = x * x % p;
                    if exponent >> bit & 1 == 1 {
                        x * base % p
                    } else {
                        x
                    }
                })
            };
            let twos = (p - 1).trailing_zeros();
            for base in [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37] {
                let mut power = power(base, (p - 1) >> twos);
                let mut probable = power == 1;
                for _ in 0..twos {
                    probable |= power == p - 1;
                    power = power * power % p;
                }
                assert!(probable, "{base} is a witness against {p}");
            }
        }
    }

    #[test]
    fn arithmetic_at_the_edges() {
        for a in edges() {
            edges().into_iter().for_each(|b| check(a, b));
        }
    }

    #[test]
    fn numbers_from_the_prime_on_are_refused() {
        for k in [0, 1] {
            for (above, value) in [(false, PRIMES[k] - 1), (true, PRIMES[k]), (true, u64::MAX)] {
                let mut residues = [5; 2];
                residues[k] = value;
                let bytes = TwinResidue(residues).to_bytes();
                let modulus = PRIMES[k];
                let expected = match above {
                    true => Err(MathError::NonCanonical { modulus }),
                    false => Ok(TwinResidue(residues)),
                };
                assert_eq!(TwinResidue::from_bytes(&bytes), expected);
            }
        }
    }

    #[test]
    fn encoded_little_endian() {
        let mut bytes = [0; 16];
        (bytes[0], bytes[8]) = (3, 7);
        assert_eq!(TwinResidue([3, 7]).to_bytes(), bytes);
        assert_eq!(TwinResidue::from_each([3, 7]).to_bytes(), bytes);
    }

    proptest! {
        #[test]
        fn arithmetic_is_arithmetic_modulo_each_prime(a in any::<u128>(), b in any::<u128>()) {
            check(a, b);
        }
    }
}
