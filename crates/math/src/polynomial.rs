//! Polynomials in one variable over a prime field: schoolbook arithmetic, made for at most a few hundred coefficients.
//!
//! The degree is not hidden: the time of every operation depends on it.

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::field::Field;

/// A polynomial; coefficient i belongs to X^i. Wiped when dropped.
#[derive(PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Polynomial<F: Field> {
    /// No zero at the end, so that the length is the degree + 1, and 0 for the zero polynomial.
    coefficients: Vec<F>,
}

impl<F: Field> Polynomial<F> {
    /// The polynomial with these coefficients, that of X^0 first; zeros at the end are allowed.
    #[must_use]
    pub fn new(coefficients: Vec<F>) -> Self {
        let mut polynomial = Self { coefficients };
        polynomial.trim();
        polynomial
    }

    /// The polynomial of degree n that is zero exactly at n `points`: ∏ (X − point).
    #[must_use]
    pub fn with_roots(points: &[F]) -> Self {
        let mut coefficients = Vec::with_capacity(points.len() + 1);
        coefficients.push(F::ONE);
        for &point in points {
            coefficients.push(F::ZERO);
            for i in (1..coefficients.len()).rev() {
                coefficients[i] = coefficients[i - 1] - point * coefficients[i];
            }
            coefficients[0] *= -point;
        }
        Self { coefficients }
    }

    /// The coefficients, that of X^0 first, the last one not zero.
    #[must_use]
    pub fn coefficients(&self) -> &[F] {
        &self.coefficients
    }

    /// The degree, `None` for the zero polynomial.
    #[must_use]
    pub fn degree(&self) -> Option<usize> {
        self.coefficients.len().checked_sub(1)
    }

    /// The value at `point`, by Horner's rule.
    #[must_use]
    pub fn evaluate(&self, point: F) -> F {
        self.coefficients
            .iter()
            .rev()
            .fold(F::ZERO, |value, &coefficient| value * point + coefficient)
    }

    /// The derivative.
    #[must_use]
    pub fn derivative(&self) -> Self {
        let mut exponent = F::ZERO;
        let coefficients = self.coefficients.iter().skip(1).map(|&coefficient| {
            exponent += F::ONE;
            coefficient * exponent
        });
        Self::new(coefficients.collect())
    }

    fn trim(&mut self) {
        while self.coefficients.last() == Some(&F::ZERO) {
            self.coefficients.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::field61::Field61;

    fn element(value: u64) -> Field61 {
        Field61::from_canonical(value).expect("below p")
    }

    fn polynomial(values: &[u64]) -> Polynomial<Field61> {
        Polynomial::new(values.iter().map(|&v| element(v)).collect())
    }

    fn values(max_len: usize) -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(0..Field61::MODULUS, 0..=max_len)
    }

    #[test]
    fn zeros_at_the_end_do_not_count() {
        assert_eq!(polynomial(&[3, 0, 4, 0, 0]).degree(), Some(2));
        assert_eq!(polynomial(&[0, 0]).degree(), None);
        assert!(polynomial(&[0, 0]) == polynomial(&[]));
    }

    #[test]
    fn derivative_of_a_cubic() {
        assert!(polynomial(&[7, 5, 3, 2]).derivative() == polynomial(&[5, 6, 6]));
        assert!(polynomial(&[7]).derivative() == polynomial(&[]));
    }

    proptest! {
        #[test]
        fn roots_are_roots(roots in values(12), elsewhere in 0..Field61::MODULUS) {
            let points: Vec<Field61> = roots.iter().map(|&v| element(v)).collect();
            let product = Polynomial::with_roots(&points);
            prop_assert_eq!(product.degree(), Some(roots.len()));
            prop_assert!(points.iter().all(|&point| product.evaluate(point) == Field61::ZERO));
            let expected = points.iter().fold(Field61::ONE, |value, &root| value * (element(elsewhere) - root));
            prop_assert_eq!(product.evaluate(element(elsewhere)), expected);
        }
    }
}
