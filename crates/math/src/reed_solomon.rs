//! Reed–Solomon codes: polynomials of degree < k by their values at n points, decoded although some values are wrong.
//!
//! A threshold sharing is such a codeword, so decoding finds both the shared values and who handed in a wrong share.
//! The decoder is the one of Gao, "A new algorithm for decoding Reed–Solomon codes" (2003): interpolate all received
//! values, then run the extended Euclidean algorithm on the interpolant and ∏ (X − point) halfway.

use zeroize::Zeroizing;

use crate::MathError;
use crate::field::{Field, batch_invert};
use crate::polynomial::Polynomial;

/// The code of length n and dimension k on given evaluation points, prepared for decoding many words.
pub struct ReedSolomon<F: Field> {
    dimension: usize,
    points: Vec<F>,
    /// ∏ (X − point) over all points.
    locator: Polynomial<F>,
    /// 1 / locator'(point): the scale of each point's term in Lagrange's formula.
    weights: Vec<F>,
}

/// A decoded word.
pub struct Decoded<F: Field> {
    /// The polynomial of degree < k behind the word.
    pub polynomial: Polynomial<F>,
    /// Positions of the wrong values, ascending.
    pub errors: Vec<usize>,
}

impl<F: Field> ReedSolomon<F> {
    /// The code of dimension `dimension` = k on n = `points.len()` points.
    ///
    /// # Errors
    /// [`MathError::CodeDimension`] unless 1 ≤ k ≤ n, [`MathError::EqualPoints`] if two points are equal.
    pub fn new(dimension: usize, points: Vec<F>) -> Result<Self, MathError> {
        if dimension == 0 || dimension > points.len() {
            let length = points.len();
            return Err(MathError::CodeDimension { dimension, length });
        }
        let locator = Polynomial::with_roots(&points);
        let slope = locator.derivative();
        let mut weights: Vec<F> = points.iter().map(|&point| slope.evaluate(point)).collect();
        // A root is repeated exactly when the derivative vanishes there.
        batch_invert(&mut weights).map_err(|_| MathError::EqualPoints)?;
        Ok(Self {
            dimension,
            points,
            locator,
            weights,
        })
    }

    /// The number of wrong values that can always be corrected: ⌊(n − k)/2⌋.
    #[must_use]
    pub fn correctable(&self) -> usize {
        (self.points.len() - self.dimension) / 2
    }

    /// Finds the polynomial that differs from `received` at no more than [`ReedSolomon::correctable`] points.
    ///
    /// The time depends on the number of errors.
    ///
    /// # Errors
    /// [`MathError::WordLength`] unless there is one value a point, [`MathError::Undecodable`] if there is no such
    /// polynomial.
    pub fn decode(&self, received: &[F]) -> Result<Decoded<F>, MathError> {
        if received.len() != self.points.len() {
            return Err(MathError::WordLength {
                got: received.len(),
                length: self.points.len(),
            });
        }
        let polynomial = self
            .halfway_quotient(self.interpolate(received))
            .ok_or_else(|| self.undecodable())?;
        let errors: Vec<usize> = (0..received.len())
            .filter(|&i| polynomial.evaluate(self.points[i]) != received[i])
            .collect();
        if errors.len() > self.correctable() {
            return Err(self.undecodable());
        }
        Ok(Decoded { polynomial, errors })
    }

    /// The polynomial of degree < n through all values: Σ value · weight · locator / (X − point).
    fn interpolate(&self, values: &[F]) -> Polynomial<F> {
        let locator = self.locator.coefficients();
        let mut sum = vec![F::ZERO; self.points.len()];
        for ((&point, &weight), &value) in self.points.iter().zip(&self.weights).zip(values) {
            let scale = Zeroizing::new(weight * value);
            // Synthetic division: coefficient i of locator / (X − point) from coefficient i + 1.
            let mut quotient = F::ZERO;
            for (i, coefficient) in sum.iter_mut().enumerate().rev() {
                quotient = quotient * point + locator[i + 1];
                *coefficient += *scale * quotient;
            }
        }
        Polynomial::new(sum)
    }

    /// The second half of Gao's algorithm, from the interpolant of the received values to the message polynomial.
    ///
    /// Keeps remainder ≡ factor · interpolant (mod locator) until the remainder's degree is below (n + k)/2; with no
    /// more errors than correctable, factor is then zero at the wrong points and remainder = factor · message.
    fn halfway_quotient(&self, interpolant: Polynomial<F>) -> Option<Polynomial<F>> {
        let stop = self.points.len() + self.dimension;
        let mut previous = (
            Polynomial::new(self.locator.coefficients().to_vec()),
            Polynomial::new(Vec::new()),
        );
        let mut current = (interpolant, Polynomial::new(vec![F::ONE]));
        while current.0.degree().is_some_and(|degree| 2 * degree >= stop) {
            let (quotient, remainder) = previous.0.divide(&current.0)?;
            let factor = previous.1.minus_product(&quotient, &current.1);
            previous = std::mem::replace(&mut current, (remainder, factor));
        }
        let (message, rest) = current.0.divide(&current.1)?;
        let fits = message
            .degree()
            .is_none_or(|degree| degree < self.dimension);
        (rest.degree().is_none() && fits).then_some(message)
    }

    fn undecodable(&self) -> MathError {
        MathError::Undecodable {
            dimension: self.dimension,
            length: self.points.len(),
            correctable: self.correctable(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::field61::Field61;
    use crate::tiny_field::TinyField;

    type Tiny = TinyField<7>;

    /// All words of length n over the tiny field.
    fn all_words(n: usize) -> impl Iterator<Item = Vec<Tiny>> {
        (0..7usize.pow(n as u32)).map(move |mut index| {
            let digits = (0..n).map(|_| {
                let digit = index % 7;
                index /= 7;
                Tiny::from_canonical(digit as u64).unwrap()
            });
            digits.collect()
        })
    }

    /// Decodes every word there is and compares with the search of all codewords.
    fn exhaustive(dimension: usize, points: &[u64]) {
        let points: Vec<Tiny> = points
            .iter()
            .map(|&x| Tiny::from_canonical(x).unwrap())
            .collect();
        let code = ReedSolomon::new(dimension, points.clone()).unwrap();
        let messages: Vec<Polynomial<Tiny>> = all_words(dimension).map(Polynomial::new).collect();
        let codewords: Vec<Vec<Tiny>> = messages
            .iter()
            .map(|message| {
                points
                    .iter()
                    .map(|&point| message.evaluate(point))
                    .collect()
            })
            .collect();
        for word in all_words(points.len()) {
            let errors_from = |codeword: &[Tiny]| -> Vec<usize> {
                (0..word.len())
                    .filter(|&i| word[i] != codeword[i])
                    .collect()
            };
            let nearest = codewords
                .iter()
                .position(|codeword| errors_from(codeword).len() <= code.correctable());
            match (nearest, code.decode(&word)) {
                (Some(nearest), Ok(decoded)) => {
                    assert!(decoded.polynomial == messages[nearest]);
                    assert_eq!(decoded.errors, errors_from(&codewords[nearest]));
                }
                (None, Err(MathError::Undecodable { .. })) => {}
                _ => panic!("decoder and search disagree on {word:?}"),
            }
        }
    }

    #[test]
    fn agrees_with_exhaustive_search() {
        exhaustive(1, &[1, 2, 3, 4, 5]);
        exhaustive(2, &[6, 1, 3, 5]);
        exhaustive(3, &[0, 1, 2, 4, 6]);
        exhaustive(2, &[1, 2, 3, 4, 6]);
        exhaustive(4, &[1, 2, 3, 4]);
    }

    #[test]
    fn refuses_bad_parameters() {
        let points = |values: &[u64]| {
            values
                .iter()
                .map(|&x| Tiny::from_canonical(x).unwrap())
                .collect::<Vec<_>>()
        };
        let error = |dimension, values: &[u64]| ReedSolomon::new(dimension, points(values)).err();
        assert_eq!(error(2, &[1, 2, 1]), Some(MathError::EqualPoints));
        for (dimension, values) in [(0, &[1, 2][..]), (3, &[1, 2]), (1, &[])] {
            let length = values.len();
            assert_eq!(
                error(dimension, values),
                Some(MathError::CodeDimension { dimension, length })
            );
        }
        let code = ReedSolomon::new(1, points(&[1, 2, 3])).unwrap();
        let short = code.decode(&points(&[1, 1])).err();
        assert_eq!(short, Some(MathError::WordLength { got: 2, length: 3 }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn corrects_up_to_the_bound(
            (message, n, wrong) in (1usize..12, 0usize..14).prop_flat_map(|(k, redundancy)| {
                let n = k + redundancy;
                let positions = prop::sample::subsequence((0..n).collect::<Vec<_>>(), 0..=redundancy / 2);
                (prop::collection::vec(0..Field61::MODULUS, k), Just(n), positions)
            }),
            offset in 1..Field61::MODULUS,
        ) {
            let element = |value| Field61::from_canonical(value).unwrap();
            let dimension = message.len();
            let polynomial = Polynomial::new(message.into_iter().map(element).collect());
            let points: Vec<Field61> = (1..=n as u64).map(element).collect();
            let mut received: Vec<Field61> = points.iter().map(|&point| polynomial.evaluate(point)).collect();
            for &position in &wrong {
                received[position] += element(offset);
            }
            let decoded = ReedSolomon::new(dimension, points).unwrap().decode(&received).unwrap();
            prop_assert!(decoded.polynomial == polynomial);
            prop_assert_eq!(decoded.errors, wrong);
        }
    }
}
