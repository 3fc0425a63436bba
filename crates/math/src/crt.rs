//! The Chinese remainder theorem for the pair of fields that stands in where 47 bits are too few.

use crate::field::Field;
use crate::prime_field::{Field47, Field48};

/// 1/p47 in the field of p48 elements.
const INVERSE: u64 = 0x173f_b4c6_c0bb;

/// The number below p47 · p48 that is congruent to `a` modulo p47 = [`Field47::MODULUS`] and to `b` modulo
/// p48 = [`Field48::MODULUS`].
///
/// # Panics
/// If `a` or `b` is not canonical.
#[must_use]
pub fn join(a: u64, b: u64) -> u128 {
    u128::from(a) + u128::from(Field47::MODULUS) * u128::from(quotient(a, b))
}

/// The low 64 bits of [`join`] for each pair of `a` and `b`.
///
/// # Panics
/// If the lengths differ or a residue is not canonical.
pub fn join_low(a: &[u64], b: &[u64], out: &mut [u64]) {
    assert!(
        a.len() == b.len() && a.len() == out.len(),
        "as many residues of the one as of the other prime"
    );
    for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
        *out = a.wrapping_add(Field47::MODULUS.wrapping_mul(quotient(a, b)));
    }
}

/// (b − a)/p47 modulo p48.
fn quotient(a: u64, b: u64) -> u64 {
    assert!(a < Field47::MODULUS, "a residue modulo p47");
    let element = |value| Field48::from_canonical(value).expect("a residue modulo p48");
    ((element(b) - element(a)) * element(INVERSE)).to_canonical()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PRODUCT: u128 = Field47::MODULUS as u128 * Field48::MODULUS as u128;

    fn residues(value: u128) -> (u64, u64) {
        let of = |modulus: u64| (value % u128::from(modulus)) as u64;
        (of(Field47::MODULUS), of(Field48::MODULUS))
    }

    fn check(value: u128) {
        let (a, b) = residues(value);
        assert_eq!(join(a, b), value);
        let mut low = [0];
        join_low(&[a], &[b], &mut low);
        assert_eq!(low, [value as u64]);
    }

    #[test]
    fn edges() {
        for edge in [
            0,
            u128::from(Field47::MODULUS),
            u128::from(Field48::MODULUS),
            1 << 64,
            PRODUCT / 2,
            PRODUCT - 1,
        ] {
            check(edge);
            check(edge.saturating_sub(1));
        }
    }

    #[test]
    #[should_panic(expected = "a residue modulo p47")]
    fn residues_are_canonical() {
        let _ = join(Field47::MODULUS, 0);
    }

    proptest! {
        #[test]
        fn joins_what_was_split(value in 0..PRODUCT) {
            check(value);
        }
    }
}
