//! Polynomials in one variable over a prime field, dense and small: schoolbook arithmetic for a few hundred coefficients.
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

    /// `self` − `factor` · `other`.
    #[must_use]
    pub fn minus_product(&self, factor: &Self, other: &Self) -> Self {
        let (Some(factor_degree), Some(other_degree)) = (factor.degree(), other.degree()) else {
            return Self::new(self.coefficients.clone());
        };
        let len = (factor_degree + other_degree + 1).max(self.coefficients.len());
        let mut coefficients = Vec::with_capacity(len);
        coefficients.extend_from_slice(&self.coefficients);
        coefficients.resize(len, F::ZERO);
        for (i, &a) in factor.coefficients.iter().enumerate() {
            for (sum, &b) in coefficients[i..].iter_mut().zip(&other.coefficients) {
                *sum -= a * b;
            }
        }
        Self::new(coefficients)
    }

    /// Quotient and remainder of the division by `divisor`, `None` if that is zero.
    #[must_use]
    pub fn divide(&self, divisor: &Self) -> Option<(Self, Self)> {
        let divisor_degree = divisor.degree()?;
        let leading_inverse = divisor.coefficients[divisor_degree].inverse();
        let mut remainder = self.coefficients.clone();
        let mut quotient = vec![F::ZERO; (remainder.len()).saturating_sub(divisor_degree)];
        for shift in (0..quotient.len()).rev() {
            let factor = remainder[shift + divisor_degree] * leading_inverse;
            quotient[shift] = factor;
            for (rest, &coefficient) in remainder[shift..].iter_mut().zip(&divisor.coefficients) {
                *rest -= factor * coefficient;
            }
        }
        Some((Self::new(quotient), Self::new(remainder)))
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

    #[test]
    fn division_by_zero_is_refused() {
        assert!(polynomial(&[1, 2]).divide(&polynomial(&[])).is_none());
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

        #[test]
        fn minus_product_is_pointwise(a in values(8), b in values(8), c in values(8), x in 0..Field61::MODULUS) {
            let (a, b, c, x) = (polynomial(&a), polynomial(&b), polynomial(&c), element(x));
            let result = a.minus_product(&b, &c);
            prop_assert_eq!(result.evaluate(x), a.evaluate(x) - b.evaluate(x) * c.evaluate(x));
        }

        #[test]
        fn division_has_a_small_remainder(a in values(14), b in values(8)) {
            let (a, b) = (polynomial(&a), polynomial(&b));
            prop_assume!(b.degree().is_some());
            let (quotient, remainder) = a.divide(&b).expect("divisor is not zero");
            prop_assert!(remainder.degree() < b.degree());
            prop_assert!(a.minus_product(&quotient, &b) == remainder);
        }
    }
}
