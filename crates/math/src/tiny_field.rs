//! Prime fields small enough to enumerate, for exhaustive tests of whatever is generic over a [`Field`].
//!
//! Division is the processor's, so the time depends on the elements: never put a secret in here.

use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use zeroize::DefaultIsZeroes;

use crate::field::Field;

/// An element of the field of integers modulo the prime `P`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TinyField<const P: u8>(u8);

impl<const P: u8> TinyField<P> {
    const IS_PRIME: () = {
        let mut divisor = 2;
        while divisor < P {
            assert!(
                !P.is_multiple_of(divisor),
                "the modulus of a field is prime"
            );
            divisor += 1;
        }
        assert!(P >= 2, "the modulus of a field is prime");
    };

    fn reduced(value: u16) -> Self {
        let () = Self::IS_PRIME;
        Self((value % u16::from(P)) as u8)
    }

    /// All elements, 0 first.
    pub fn all() -> impl Iterator<Item = Self> + Clone {
        (0..u16::from(P)).map(Self::reduced)
    }
}

impl<const P: u8> DefaultIsZeroes for TinyField<P> {}

impl<const P: u8> Field for TinyField<P> {
    const MODULUS: u64 = P as u64;
    const ZERO: Self = Self(0);
    const ONE: Self = Self(1);

    fn from_canonical(value: u64) -> Option<Self> {
        (value < Self::MODULUS).then_some(Self(value as u8))
    }

    fn to_canonical(self) -> u64 {
        u64::from(self.0)
    }
}

impl<const P: u8> Add for TinyField<P> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::reduced(u16::from(self.0) + u16::from(other.0))
    }
}

impl<const P: u8> Sub for TinyField<P> {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::reduced(u16::from(self.0) + u16::from(P) - u16::from(other.0))
    }
}

impl<const P: u8> Neg for TinyField<P> {
    type Output = Self;
    fn neg(self) -> Self {
        Self::ZERO - self
    }
}

impl<const P: u8> Mul for TinyField<P> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self::reduced(u16::from(self.0) * u16::from(other.0))
    }
}

impl<const P: u8> AddAssign for TinyField<P> {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl<const P: u8> SubAssign for TinyField<P> {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl<const P: u8> MulAssign for TinyField<P> {
    fn mul_assign(&mut self, other: Self) {
        *self = *self * other;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_axioms<const P: u8>() {
        let all = || TinyField::<P>::all();
        assert_eq!(all().count(), usize::from(P));
        for a in all() {
            assert_eq!(a + (-a), TinyField::ZERO);
            assert_eq!(a * TinyField::ONE, a);
            assert!(a == TinyField::ZERO || a * a.inverse() == TinyField::ONE);
            for b in all() {
                assert_eq!(a - b + b, a);
                assert_eq!(a * b, b * a);
                for c in all() {
                    assert_eq!(a * (b + c), a * b + a * c);
                }
            }
        }
    }

    #[test]
    fn they_are_fields() {
        field_axioms::<2>();
        field_axioms::<5>();
        field_axioms::<7>();
        field_axioms::<251>();
    }
}
