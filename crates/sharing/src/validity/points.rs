//! Where words and shares stand, and the polynomials that mask a test.

use blindsum_math::field::Field;
use blindsum_math::polynomial::Polynomial;
use blindsum_math::prime_field::{Field47, NttField};
use zeroize::Zeroizing;

use super::Test;
use super::test::Shape;

/// The field of proofs.
pub(super) type F = Field47;

/// The points of a sharing: l of words and n of shares, all different.
pub(super) struct Points<E: Field> {
    pub words: Vec<E>,
    pub shares: Vec<E>,
    /// ∏ (X − h) over the points h of words.
    vanishing: Polynomial<E>,
    /// Σ h^i over the points of words, divided by −l, for i from 1 on.
    power_sums: Vec<E>,
}

impl<E: Field> Points<E> {
    /// `coefficients` is the most that a polynomial has.
    pub fn new(words: Vec<E>, shares: Vec<E>, coefficients: usize) -> Self {
        let count = words.iter().fold(E::ZERO, |count, _| count + E::ONE);
        let scale = -count.inverse();
        let mut powers = words.clone();
        let mut power_sums = Vec::with_capacity(coefficients);
        for _ in 1..coefficients {
            power_sums.push(powers.iter().fold(E::ZERO, |sum, &power| sum + power) * scale);
            for (power, &word) in powers.iter_mut().zip(&words) {
                *power *= word;
            }
        }
        Self {
            vanishing: Polynomial::with_roots(&words),
            words,
            shares,
            power_sums,
        }
    }

    /// The coefficients of the mask of a test that has this freedom, [`Test::freedom`] elements: it runs through all honest
    /// polynomials of the test.
    pub fn mask(&self, test: Test, freedom: &[E]) -> Zeroizing<Vec<E>> {
        match test.shape() {
            Shape::Any => freedom.to_vec().into(),
            Shape::Zero => {
                let vanishing = self.vanishing.coefficients();
                let length = freedom.len() + vanishing.len() - 1;
                let mut product = Zeroizing::new(vec![E::ZERO; length]);
                for (i, &r) in freedom.iter().enumerate() {
                    for (place, &z) in product[i..].iter_mut().zip(vanishing) {
                        *place += r * z;
                    }
                }
                product
            }
            Shape::ZeroSum => {
                // The constant makes up for what the others sum up to.
                let terms = freedom.iter().zip(&self.power_sums);
                let constant = terms.fold(E::ZERO, |sum, (&r, &power)| sum + r * power);
                let mut mask = Zeroizing::new(Vec::with_capacity(freedom.len() + 1));
                mask.push(constant);
                mask.extend_from_slice(freedom);
                mask
            }
        }
    }

    /// Whether these values at the points of words are those of an honest polynomial of the test.
    pub fn fits(test: Test, values: &[E]) -> bool {
        match test.shape() {
            Shape::Any => true,
            Shape::Zero => values.iter().all(|value| *value == E::ZERO),
            Shape::ZeroSum => values.iter().fold(E::ZERO, |sum, &value| sum + value) == E::ZERO,
        }
    }
}

/// The value of a polynomial, by Horner's rule.
pub(super) fn evaluate<E: Field>(coefficients: &[E], point: E) -> E {
    let coefficients = coefficients.iter().rev();
    coefficients.fold(E::ZERO, |value, &coefficient| value * point + coefficient)
}

/// Σ a_i · b_i. Products are added up before they are reduced: they have less than 96 bits, so that 2^32 of them fit.
pub(super) fn inner<F: NttField>(a: &[F], b: &[F]) -> F {
    let products = a.iter().zip(b);
    F::from_wide(products.fold(0, |sum, (a, b)| {
        sum + u128::from(a.to_canonical()) * u128::from(b.to_canonical())
    }))
}
