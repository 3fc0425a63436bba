//! The sharing itself, over any prime field: W secrets side by side, each the constant term of a polynomial.

use blindsum_math::MathError;
use blindsum_math::field::{Field, batch_invert};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

/// W polynomials of degree < t, as t rows: row i has the coefficients of X^i, row 0 the secrets. Wiped when dropped.
pub(super) struct Polynomials<F: Field, const W: usize> {
    rows: Zeroizing<Vec<[F; W]>>,
}

impl<F: Field, const W: usize> Polynomials<F, W> {
    /// Uniformly random polynomials of degree < `threshold` with these constant terms; `threshold` is not 0.
    pub fn random(secrets: &[F; W], threshold: usize, rng: &mut dyn CryptoRng) -> Self {
        // guard: degree-below-the-threshold
        let mut coefficients = Zeroizing::new(vec![[F::ZERO; W]; threshold - 1]);
        // guard: random-coefficients
        F::fill_random(coefficients.as_flattened_mut(), rng);
        Self::new(secrets, &coefficients)
    }

    /// The polynomials with these constant terms and these coefficients of X, X², ….
    pub fn new(secrets: &[F; W], coefficients: &[[F; W]]) -> Self {
        let mut rows = Zeroizing::new(Vec::with_capacity(coefficients.len() + 1));
        rows.push(*secrets);
        rows.extend_from_slice(coefficients);
        Self { rows }
    }

    /// All W values at `point`, by Horner's rule: W chains of multiplications that the processor overlaps.
    pub fn evaluate(&self, point: F) -> [F; W] {
        let mut values = [F::ZERO; W];
        for row in self.rows.iter().rev() {
            for (value, &coefficient) in values.iter_mut().zip(row) {
                *value = *value * point + coefficient;
            }
        }
        values
    }
}

/// Products that are computed side by side: one alone would wait for each multiplication to end.
const LANES: usize = 4;

/// own · ∏ (other − own) over all other points, for each of the [`LANES`] points from `first` on; what is beyond the
/// last one means nothing.
fn divisors<F: Field>(first: usize, points: &[F]) -> [F; LANES] {
    let own: [F; LANES] = std::array::from_fn(|lane| *points.get(first + lane).unwrap_or(&F::ZERO));
    let mut products = own;
    for (j, &other) in points.iter().enumerate() {
        for (lane, product) in products.iter_mut().enumerate() {
            if first + lane != j {
                *product *= other - own[lane];
            }
        }
    }
    products
}

/// Lagrange coefficients at 0: Σ weight · f(point) = f(0) for every f of degree < `points.len()`.
///
/// weight_i = ∏_{j≠i} x_j / (x_j − x_i), with one inversion for all of them.
///
/// # Errors
/// [`MathError::InverseOfZero`] if a point is zero or two are equal.
pub(super) fn weights_at_zero<F: Field>(points: &[F]) -> Result<Vec<F>, MathError> {
    let product = points
        .iter()
        .fold(F::ONE, |product, &point| product * point);
    let mut weights: Vec<F> = (0..points.len())
        .step_by(LANES)
        .flat_map(|first| divisors(first, points))
        .collect();
    weights.truncate(points.len());
    batch_invert(&mut weights)?;
    for weight in &mut weights {
        *weight *= product;
    }
    Ok(weights)
}

/// Σ weight · values, for all W at once.
pub(super) fn combine<'a, F: Field, const W: usize>(
    weights: &[F],
    values: impl Iterator<Item = &'a [F; W]>,
) -> [F; W] {
    let mut sums = [F::ZERO; W];
    for (&weight, values) in weights.iter().zip(values) {
        for (sum, &value) in sums.iter_mut().zip(values) {
            *sum += weight * value;
        }
    }
    sums
}
