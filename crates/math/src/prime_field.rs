//! Prime fields of at most 48 bits with roots of unity of large two-power order: the fields of ramp sharing.
//!
//! 48 bits leave a vector lane of 52 room for many sums before anything has to be reduced, see
//! [`transform`](crate::transform). Elements are kept in 0 ≤ value < p; every operation is free of branches, look-ups
//! and divisions that depend on the elements.

use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use zeroize::DefaultIsZeroes;

use crate::MathError;
use crate::field::Field;

/// p = 2^31 − 2^24 + 1.
const P31: u64 = 0x7f00_0001;
/// p = 2^19 · 3^7 · 122741 + 1, less than 2^29 below 2^47.
const P47: u64 = 0x7fff_e438_0001;
/// p = 2^36 · 3^7 + 1, a little above 2^47.
const P48: u64 = 0x88b0_0000_0001;

/// The field of 2^31 − 2^24 + 1 elements; an encoded element takes 4 bytes.
pub type Field31 = PrimeField<P31>;
/// The field of 0x7fffe4380001 elements, just below 2^47; an encoded element takes 6 bytes.
pub type Field47 = PrimeField<P47>;
/// The field of 0x88b000000001 elements, just above 2^47; an encoded element takes 6 bytes.
pub type Field48 = PrimeField<P48>;

/// A field small enough to enumerate, for exhaustive tests of code that all these fields share.
pub type Field17 = PrimeField<17>;

/// An element of the field of integers modulo the prime `P` < 2^48.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrimeField<const P: u64>(u64);

/// A prime field below 2^48 that a radix-2 transform works in.
pub trait NttField: Field {
    /// An element of order p − 1.
    const GENERATOR: Self;
    /// The largest a such that 2^a divides p − 1.
    const TWO_ADICITY: u32 = (Self::MODULUS - 1).trailing_zeros();
    /// The largest b such that 3^b divides p − 1.
    const THREE_ADICITY: u32 = {
        let (mut rest, mut exponent) = (Self::MODULUS - 1, 0);
        while rest.is_multiple_of(3) {
            (rest, exponent) = (rest / 3, exponent + 1);
        }
        exponent
    };

    /// Bytes of one draw from a key stream. Its low [`Field::BITS`] bits are an element if they are below p.
    const DRAW_BYTES: usize = if Self::BITS <= 32 { 4 } else { 8 };

    /// The element congruent to `value`; every `value` is allowed.
    fn from_wide(value: u128) -> Self;

    /// The root of unity of order 2^`log_order`: the generator to the power (p − 1)/2^`log_order`.
    ///
    /// # Errors
    /// [`MathError::RootOrder`] if `log_order` > [`NttField::TWO_ADICITY`].
    fn root_of_unity(log_order: u32) -> Result<Self, MathError> {
        root::<Self>(2, log_order, Self::TWO_ADICITY)
    }

    /// The root of unity of order 3^`log_order`: the generator to the power (p − 1)/3^`log_order`.
    ///
    /// # Errors
    /// [`MathError::RootOrder`] if `log_order` > [`NttField::THREE_ADICITY`].
    fn root_of_unity_3(log_order: u32) -> Result<Self, MathError> {
        root::<Self>(3, log_order, Self::THREE_ADICITY)
    }
}

fn root<F: NttField>(base: u64, log_order: u32, largest: u32) -> Result<F, MathError> {
    if log_order > largest {
        return Err(MathError::RootOrder {
            base,
            log_order,
            largest,
        });
    }
    Ok(F::GENERATOR.power((F::MODULUS - 1) / base.pow(log_order)))
}

impl NttField for Field17 {
    const GENERATOR: Self = Self(3);

    fn from_wide(value: u128) -> Self {
        Self::reduce_wide(value)
    }
}

impl NttField for Field31 {
    const GENERATOR: Self = Self(3);

    fn from_wide(value: u128) -> Self {
        Self::reduce_wide(value)
    }
}

impl NttField for Field47 {
    const GENERATOR: Self = Self(5);

    fn from_wide(value: u128) -> Self {
        Self::reduce_wide(value)
    }
}

impl NttField for Field48 {
    const GENERATOR: Self = Self(5);

    fn from_wide(value: u128) -> Self {
        Self::reduce_wide(value)
    }
}

impl<const P: u64> PrimeField<P> {
    /// ⌈log2 p⌉.
    const LOG: u32 = u64::BITS - P.leading_zeros();
    /// ⌊2^(2 LOG) / p⌋ of Barrett's reduction.
    const RECIPROCAL: u64 = {
        assert!(P > 2 && P < 1 << 48, "the modulus fits in 48 bits");
        ((1_u128 << (2 * Self::LOG)) / P as u128) as u64
    };
    /// 2^LOG mod p.
    const HIGH: u64 = (1 << Self::LOG) % P;

    /// Takes p off a value ≥ p, which brings 0 ≤ value < 2p into the field and value < 3p below 2p.
    #[inline]
    const fn reduce_once(value: u64) -> Self {
        let difference = value.wrapping_sub(P);
        // The top bit is set exactly when the subtraction went below zero, as value < 2^50.
        let keep = (difference >> 63).wrapping_neg();
        Self(difference.wrapping_add(P & keep))
    }

    /// Barrett's reduction of 0 ≤ value < 2^(2 LOG).
    #[inline]
    const fn reduce(value: u128) -> Self {
        let top = (value >> (Self::LOG - 1)) as u64;
        // At most 2 below the true quotient, so the remainder is below 3p.
        let quotient = (top as u128 * Self::RECIPROCAL as u128) >> (Self::LOG + 1);
        let remainder = (value as u64).wrapping_sub((quotient as u64).wrapping_mul(P));
        Self::reduce_once(Self::reduce_once(remainder).0)
    }

    /// Horner's rule on the digits in base 2^LOG, the highest first.
    fn reduce_wide(value: u128) -> Self {
        let digits = u128::BITS.div_ceil(Self::LOG);
        (0..digits).rev().fold(Self(0), |result, i| {
            let digit = (value >> (i * Self::LOG)) as u64 & ((1 << Self::LOG) - 1);
            result * Self(Self::HIGH) + Self::reduce_once(digit)
        })
    }
}

impl<const P: u64> DefaultIsZeroes for PrimeField<P> {}

impl<const P: u64> Field for PrimeField<P> {
    const MODULUS: u64 = P;
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1);

    #[inline]
    fn from_canonical(value: u64) -> Option<Self> {
        (value < P).then_some(Self(value))
    }

    #[inline]
    fn to_canonical(self) -> u64 {
        self.0
    }
}

impl<const P: u64> Add for PrimeField<P> {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self::reduce_once(self.0 + other.0)
    }
}

impl<const P: u64> Sub for PrimeField<P> {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self::reduce_once(self.0 + P - other.0)
    }
}

impl<const P: u64> Neg for PrimeField<P> {
    type Output = Self;
    #[inline]
    fn neg(self) -> Self {
        Self::reduce_once(P - self.0)
    }
}

impl<const P: u64> Mul for PrimeField<P> {
    type Output = Self;
    #[inline]
    fn mul(self, other: Self) -> Self {
        Self::reduce(u128::from(self.0) * u128::from(other.0))
    }
}

impl<const P: u64> AddAssign for PrimeField<P> {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl<const P: u64> SubAssign for PrimeField<P> {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl<const P: u64> MulAssign for PrimeField<P> {
    #[inline]
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check<F: NttField>(a: u64, b: u64) {
        let p = u128::from(F::MODULUS);
        let (wide_a, wide_b) = (u128::from(a), u128::from(b));
        let element = |value| F::from_canonical(value).expect("below p");
        let (x, y) = (element(a), element(b));
        let is = |have: F, want: u128| assert_eq!(u128::from(have.to_canonical()), want % p);
        is(x + y, wide_a + wide_b);
        is(x - y, wide_a + p - wide_b);
        is(x * y, wide_a * wide_b);
        is(-x, p - wide_a);
        if a != 0 {
            is(x * x.inverse(), 1);
        }
    }

    fn edges<F: NttField>() {
        let p = F::MODULUS;
        let edges = [0, 1, 2, p / 3, p / 2, p / 2 + 1, p - 2, p - 1];
        for a in edges {
            for b in edges {
                check::<F>(a, b);
            }
        }
        assert_eq!(F::from_canonical(p), None);
        assert_eq!(F::from_canonical(u64::MAX), None);
        for value in [0, u128::from(p), u128::from(u64::MAX), u128::MAX] {
            let want = (value % u128::from(p)) as u64;
            assert_eq!(F::from_wide(value).to_canonical(), want);
        }
    }

    #[test]
    fn arithmetic_at_the_edges() {
        edges::<Field31>();
        edges::<Field47>();
        edges::<Field48>();
    }

    #[test]
    fn encoded_lengths() {
        let lengths = [
            Field31::ENCODED_LEN,
            Field47::ENCODED_LEN,
            Field48::ENCODED_LEN,
        ];
        assert_eq!(lengths, [4, 6, 6]);
    }

    /// The generator's powers (p − 1)/q for the primes q of p − 1 are not 1, so its order is p − 1.
    fn generates<F: NttField>(primes_of_order: &[u64]) {
        for &prime in primes_of_order {
            assert_eq!((F::MODULUS - 1) % prime, 0);
            assert_ne!(F::GENERATOR.power((F::MODULUS - 1) / prime), F::ONE);
        }
        let cofactor = (F::MODULUS - 1) >> F::TWO_ADICITY;
        let rest = primes_of_order.iter().fold(cofactor, |mut rest, &prime| {
            while rest.is_multiple_of(prime) {
                rest /= prime;
            }
            rest
        });
        assert_eq!(rest, 1, "all primes of p - 1 are listed");
    }

    #[test]
    fn generators_generate() {
        generates::<Field31>(&[2, 127]);
        generates::<Field47>(&[2, 3, 122_741]);
        generates::<Field48>(&[2, 3]);
    }

    fn roots<F: NttField>(two: u32, three: u32) {
        assert_eq!((F::TWO_ADICITY, F::THREE_ADICITY), (two, three));
        for log_order in 0..=two {
            let root = F::root_of_unity(log_order).expect("such a root");
            assert_eq!(root.power(1 << log_order), F::ONE);
            assert!(log_order == 0 || root.power(1 << (log_order - 1)) == -F::ONE);
        }
        for log_order in 0..=three {
            let root = F::root_of_unity_3(log_order).expect("such a root");
            assert_eq!(root.power(3_u64.pow(log_order)), F::ONE);
            assert!(log_order == 0 || root.power(3_u64.pow(log_order - 1)) != F::ONE);
        }
        for (base, largest) in [(2, two), (3, three)] {
            let log_order = largest + 1;
            let refusal = Err(MathError::RootOrder {
                base,
                log_order,
                largest,
            });
            let result = match base {
                2 => F::root_of_unity(log_order),
                _ => F::root_of_unity_3(log_order),
            };
            assert_eq!(result, refusal);
        }
    }

    #[test]
    fn roots_of_unity_have_their_order() {
        roots::<Field31>(24, 0);
        roots::<Field47>(19, 7);
        roots::<Field48>(36, 7);
    }

    proptest! {
        #[test]
        fn arithmetic_is_that_of_integers(a in any::<u64>(), b in any::<u64>(), wide in any::<u128>()) {
            check::<Field31>(a % P31, b % P31);
            check::<Field47>(a % P47, b % P47);
            check::<Field48>(a % P48, b % P48);
            prop_assert_eq!(u128::from(Field31::from_wide(wide).to_canonical()), wide % u128::from(P31));
            prop_assert_eq!(u128::from(Field47::from_wide(wide).to_canonical()), wide % u128::from(P47));
            prop_assert_eq!(u128::from(Field48::from_wide(wide).to_canonical()), wide % u128::from(P48));
        }
    }
}
