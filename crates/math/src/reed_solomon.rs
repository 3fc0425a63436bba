//! Reed–Solomon codes: a polynomial of degree < k is given by its values at n points, some of which are wrong.
//!
//! The shares of a threshold sharing are such a codeword. Decoding finds the holders whose shares are wrong, and the
//! other shares give the secret. The n − k syndromes of a word depend only on its errors: they follow a linear
//! recurrence whose characteristic polynomial has the wrong points as roots. The algorithm of Berlekamp and Massey
//! finds the shortest such recurrence (Massey, "Shift-register synthesis and BCH decoding", 1969). A word without
//! errors costs n · (n − k) multiplications, and each error about 2 · (n − k) + n more.

use zeroize::Zeroizing;

use crate::MathError;
use crate::field::{Field, batch_invert};

/// The code of length n and dimension k on given evaluation points, prepared for many words.
pub struct ReedSolomon<F: Field> {
    dimension: usize,
    points: Vec<F>,
    /// 1 / ∏ (point − other point): the scale of each value in a syndrome.
    weights: Vec<F>,
}

impl<F: Field> ReedSolomon<F> {
    /// The code of dimension `dimension` = k on n = `points.len()` points. Takes n² multiplications.
    ///
    /// # Errors
    /// [`MathError::CodeDimension`] unless 1 ≤ k ≤ n, [`MathError::EqualPoints`] if two points are equal.
    pub fn new(dimension: usize, points: Vec<F>) -> Result<Self, MathError> {
        if dimension == 0 || dimension > points.len() {
            let length = points.len();
            return Err(MathError::CodeDimension { dimension, length });
        }
        let mut weights: Vec<F> = (0..points.len())
            .map(|i| {
                let others = (0..points.len()).filter(|&j| j != i);
                others.fold(F::ONE, |product, j| product * (points[i] - points[j]))
            })
            .collect();
        // The product of two equal points is zero.
        batch_invert(&mut weights).map_err(|_| MathError::EqualPoints)?;
        Ok(Self {
            dimension,
            points,
            weights,
        })
    }

    /// The number n of points.
    #[must_use]
    pub fn length(&self) -> usize {
        self.points.len()
    }

    /// The number of wrong values that can always be located: ⌊(n − k)/2⌋.
    #[must_use]
    pub fn correctable(&self) -> usize {
        (self.points.len() - self.dimension) / 2
    }

    /// The positions, ascending, where `received` differs from the one codeword that differs from it in at most
    /// [`ReedSolomon::correctable`] positions. The values at all other positions are right.
    ///
    /// The time depends on the number of errors.
    ///
    /// # Errors
    /// [`MathError::WordLength`] unless there is one value for each point, [`MathError::Undecodable`] if there is no
    /// such codeword.
    pub fn locate(&self, received: &[F]) -> Result<Vec<usize>, MathError> {
        if received.len() != self.points.len() {
            return Err(MathError::WordLength {
                got: received.len(),
                length: self.points.len(),
            });
        }
        let recurrence = shortest_recurrence(&self.syndromes(received), self.correctable())
            .ok_or_else(|| self.undecodable())?;
        let errors: Vec<usize> = (0..self.points.len())
            .filter(|&i| characteristic(&recurrence, self.points[i]) == F::ZERO)
            .collect();
        // With as many roots as its order, the recurrence is one of values at these points; with fewer, it is
        // no word's with so few errors.
        if errors.len() + 1 != recurrence.len() {
            return Err(self.undecodable());
        }
        Ok(errors)
    }

    /// S_j = Σ weight · value · point^j for j < n − k: all zero exactly for codewords.
    fn syndromes(&self, received: &[F]) -> Vec<F> {
        let scaled = received.iter().zip(&self.weights);
        let mut terms: Zeroizing<Vec<F>> =
            Zeroizing::new(scaled.map(|(&value, &weight)| value * weight).collect());
        (self.dimension..self.points.len())
            .map(|_| {
                let mut syndrome = F::ZERO;
                for (term, &point) in terms.iter_mut().zip(&self.points) {
                    syndrome += *term;
                    *term *= point;
                }
                syndrome
            })
            .collect()
    }

    fn undecodable(&self) -> MathError {
        MathError::Undecodable {
            dimension: self.dimension,
            length: self.points.len(),
            correctable: self.correctable(),
        }
    }
}

/// The shortest recurrence c_0 · S_j + c_1 · S_(j−1) + … + c_L · S_(j−L) = 0 with c_0 = 1 that holds for all j ≥ L:
/// its L + 1 coefficients. `None` if L is above `most`.
fn shortest_recurrence<F: Field>(sequence: &[F], most: usize) -> Option<Vec<F>> {
    let (mut current, mut order) = (vec![F::ONE], 0);
    // The recurrence before the order last grew, the first element it fails at, counted back from the one under
    // way, and by how much it fails there.
    let (mut before, mut distance, mut before_fails_by) = (vec![F::ONE], 1, F::ONE);
    for (at, &element) in sequence.iter().enumerate() {
        let earlier = sequence[at - order..at].iter().rev();
        let terms = current[1..].iter().zip(earlier);
        let fails_by = terms.fold(element, |sum, (&c, &earlier)| sum + c * earlier);
        if fails_by == F::ZERO {
            distance += 1;
            continue;
        }
        let grown = order.max(at + 1 - order);
        if grown > most {
            return None;
        }
        let old = (grown > order).then(|| current.clone());
        current.resize(grown + 1, F::ZERO);
        let factor = fails_by * before_fails_by.inverse();
        for (c, &b) in current[distance..].iter_mut().zip(&before) {
            *c -= factor * b;
        }
        distance += 1;
        if let Some(old) = old {
            (before, before_fails_by, distance) = (old, fails_by, 1);
            order = grown;
        }
    }
    Some(current)
}

/// The value of the characteristic polynomial c_0 · X^L + c_1 · X^(L−1) + … + c_L, by Horner's rule.
fn characteristic<F: Field>(recurrence: &[F], point: F) -> F {
    let coefficients = recurrence.iter();
    coefficients.fold(F::ZERO, |value, &c| value * point + c)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::field61::Field61;
    use crate::polynomial::Polynomial;
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

    /// Locates the errors of every word there is and compares with the search of all codewords.
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
            match (nearest, code.locate(&word)) {
                (Some(nearest), Ok(errors)) => {
                    assert_eq!(errors, errors_from(&codewords[nearest]));
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
        let short = code.locate(&points(&[1, 1])).err();
        assert_eq!(short, Some(MathError::WordLength { got: 2, length: 3 }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn locates_up_to_the_bound(
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
            let errors = ReedSolomon::new(dimension, points).unwrap().locate(&received).unwrap();
            prop_assert_eq!(errors, wrong);
        }
    }
}
