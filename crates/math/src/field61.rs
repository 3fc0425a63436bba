//! The prime field modulo the Mersenne prime p = 2^61 − 1, in which short secrets are shared.
//!
//! Reduction is a shift and an addition, because 2^61 ≡ 1 (mod p). Elements are kept in 0 ≤ value < p and every
//! operation is free of branches and of look-ups that depend on the elements.

use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use zeroize::DefaultIsZeroes;

use crate::field::Field;

/// The prime p = 2^61 − 1.
const P: u64 = (1 << 61) - 1;

/// An element of the field of integers modulo 2^61 − 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field61(u64);

impl Field61 {
    /// The element with a representative that fits in 32 bits, hence in the field.
    #[must_use]
    pub const fn from_u32(value: u32) -> Self {
        Self(value as u64)
    }

    /// Brings 0 ≤ value < 2p into the field.
    #[inline]
    const fn reduce_once(value: u64) -> Self {
        let difference = value.wrapping_sub(P);
        // The top bit is set exactly when the subtraction went below zero, as value < 2p < 2^62.
        let keep = (difference >> 63).wrapping_neg();
        Self(difference.wrapping_add(P & keep))
    }
}

impl DefaultIsZeroes for Field61 {}

impl Field for Field61 {
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

impl Add for Field61 {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self::reduce_once(self.0 + other.0)
    }
}

impl Sub for Field61 {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self::reduce_once(self.0 + P - other.0)
    }
}

impl Neg for Field61 {
    type Output = Self;
    #[inline]
    fn neg(self) -> Self {
        Self::reduce_once(P - self.0)
    }
}

impl Mul for Field61 {
    type Output = Self;
    #[inline]
    fn mul(self, other: Self) -> Self {
        // The product is at most (p − 1)^2, so its part above bit 61 is at most p − 3 and the sum below 2p.
        let product = u128::from(self.0) * u128::from(other.0);
        Self::reduce_once((product as u64 & P) + (product >> 61) as u64)
    }
}

impl AddAssign for Field61 {
    #[inline]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Field61 {
    #[inline]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl MulAssign for Field61 {
    #[inline]
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::MathError;

    const EDGES: [u64; 8] = [0, 1, 2, (1 << 32) - 1, 1 << 32, 1 << 60, P - 2, P - 1];

    fn element(value: u64) -> Field61 {
        Field61::from_canonical(value).expect("below p")
    }

    fn check_against_u128(a: u64, b: u64) {
        let p = u128::from(P);
        let (wide_a, wide_b) = (u128::from(a), u128::from(b));
        let is = |have: Field61, want: u128| assert_eq!(u128::from(have.to_canonical()), want % p);
        is(element(a) + element(b), wide_a + wide_b);
        is(element(a) - element(b), wide_a + p - wide_b);
        is(element(a) * element(b), wide_a * wide_b);
        is(-element(a), p - wide_a);
    }

    #[test]
    fn arithmetic_at_the_edges() {
        for a in EDGES {
            for b in EDGES {
                check_against_u128(a, b);
            }
        }
    }

    #[test]
    fn inverses_at_the_edges() {
        assert_eq!(Field61::ZERO.inverse(), Field61::ZERO);
        for a in EDGES.into_iter().filter(|&a| a != 0) {
            assert_eq!(element(a) * element(a).inverse(), Field61::ONE);
        }
    }

    #[test]
    fn representatives_from_p_on_are_refused() {
        assert_eq!(element(P - 1).to_canonical(), P - 1);
        for value in [P, P + 1, 1 << 61, u64::MAX] {
            assert_eq!(Field61::from_canonical(value), None);
            assert_eq!(
                Field61::read_from(&value.to_le_bytes()),
                Err(MathError::NonCanonical { modulus: P })
            );
        }
    }

    proptest! {
        #[test]
        fn arithmetic_is_arithmetic_modulo_p(a in 0..P, b in 0..P) {
            check_against_u128(a, b);
        }

        #[test]
        fn inverse_undoes_multiplication(a in 1..P, b in 0..P) {
            prop_assert_eq!(element(a).inverse() * element(a) * element(b), element(b));
        }

        #[test]
        fn powers_add_in_the_exponent(a in 0..P, x in 0..1u64 << 63, y in 0..1u64 << 63) {
            prop_assert_eq!(element(a).power(x) * element(a).power(y), element(a).power(x + y));
        }

        #[test]
        fn encoding_round_trips(a in 0..P) {
            let mut bytes = [0xa5; 8];
            element(a).write_to(&mut bytes);
            prop_assert_eq!(bytes, a.to_le_bytes());
            prop_assert_eq!(Field61::read_from(&bytes), Ok(element(a)));
        }
    }
}
