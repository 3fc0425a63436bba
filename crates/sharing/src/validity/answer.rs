//! What a verifier answers: a linear combination for each test of what it was dealt.

use blindsum_math::prime_field::NttField;

use super::challenge::{Challenge, Factors};
use super::points::inner;
use super::{Layout, REPETITIONS, Test};

/// A column of one prover, read: its rows' shares, then its masks' shares.
pub(super) struct Shares<'a, F> {
    pub rows: &'a [F],
    /// For each repetition one of each test.
    pub masks: &'a [F],
}

/// What a verifier knows of its point.
pub(super) struct PointOf<F> {
    /// The values of the basis polynomials of slots.
    pub basis: Vec<F>,
    /// The values of the polynomials of weights of bits of the norm.
    pub norm_weights: Vec<F>,
}

/// The answers about one prover, whose projections have this seed: for each repetition one of each test.
pub(super) fn answers<F: NttField>(
    layout: &Layout,
    tests: &[Test],
    challenge: &Challenge<F>,
    point: &PointOf<F>,
    shares: &Shares<'_, F>,
    seed: [u8; 32],
) -> Vec<F> {
    let rows = shares.rows;
    let squared = |rows: &[F]| {
        rows.iter()
            .map(|&share| share - share * share)
            .collect::<Vec<F>>()
    };
    // β − β², zero where β is a bit.
    let bits = squared(&rows[layout.bits()]);
    let norm_bits = squared(&rows[layout.norm_bits()]);
    let projection_bits = squared(&rows[layout.projection_bits()]);
    let bounds = bounds(layout, rows);
    let numbers = numbers(layout, rows);
    let quadratic = quadratics(layout, &numbers, rows);
    let norm = norm(layout, &point.norm_weights, rows);
    let projection = challenge.projection.as_ref().map(|test| {
        let bits = &rows[layout.projection_bits()];
        test.at(seed, &point.basis, &numbers, bits)
    });
    let projection = projection.unwrap_or([F::ZERO; REPETITIONS]);
    let value = |(repetition, factors): (usize, &Factors<F>), test: &Test| match test {
        // guard: degrees-are-tested
        Test::Degree => inner(&factors.degree, rows),
        // guard: bits-are-tested
        Test::InputBit => inner(&factors.input_bit, &bits),
        // guard: every-word-is-bounded
        Test::InputBound => inner(&factors.input_bound, &bounds),
        // guard: squares-are-tested
        Test::Quadratic => inner(&factors.quadratic, &quadratic),
        Test::NormBit => inner(&factors.norm_bit, &norm_bits),
        // guard: norms-are-tested
        Test::Norm => factors.norm * norm,
        // guard: bits-of-projections-are-tested
        Test::ProjectionBit => inner(&factors.projection_bit, &projection_bits),
        // guard: projections-are-tested
        Test::Projection => projection[repetition],
    };
    let repetitions = challenge.repetitions.iter().enumerate();
    let values = repetitions.flat_map(|of| tests.iter().map(move |test| value(of, test)));
    values
        .zip(shares.masks)
        .map(|(value, &mask)| value + mask)
        .collect()
}

/// u_b − Σ_s c_s β_sb for every block b, where bit s counts c_s; nothing where words have no bits.
fn bounds<F: NttField>(layout: &Layout, rows: &[F]) -> Vec<F> {
    if layout.bits().is_empty() {
        return Vec::new();
    }
    let mut left = rows[layout.words()].to_vec();
    let bits = layout.statement().bits();
    for (s, of_bit) in rows[layout.bits()]
        .chunks_exact(layout.blocks())
        .enumerate()
    {
        // guard: bits-say-no-more-than-the-last-level
        let weight = F::from_canonical(bits.weight(s)).unwrap_or(F::ZERO);
        for (left, &bit) in left.iter_mut().zip(of_bit) {
            *left -= weight * bit;
        }
    }
    left
}

/// v_b = u_b − offset for every block b; nothing where the norm has no bound.
fn numbers<F: NttField>(layout: &Layout, rows: &[F]) -> Vec<F> {
    let Some(norm) = layout.statement().norm else {
        return Vec::new();
    };
    let offset = F::from_canonical(norm.offset).unwrap_or(F::ZERO);
    rows[layout.words()]
        .iter()
        .map(|&word| word - offset)
        .collect()
}

/// y_b − v_b·(v_b + slope) for every block b; nothing where the norm has no bound.
fn quadratics<F: NttField>(layout: &Layout, numbers: &[F], rows: &[F]) -> Vec<F> {
    let slope = layout.statement().norm.map_or(0, |norm| norm.slope);
    let slope = F::from_canonical(slope).unwrap_or(F::ZERO);
    let pairs = numbers.iter().zip(&rows[layout.squares()]);
    pairs
        .map(|(&v, &square)| square - v * (v + slope))
        .collect()
}

/// Σ_b y_b − Σ_g U_g·γ_g, with the values U_g of the polynomials of weights at the verifier's point.
fn norm<F: NttField>(layout: &Layout, weights: &[F], rows: &[F]) -> F {
    let squares = rows[layout.squares()].iter();
    let sum = squares.fold(F::ZERO, |sum, &square| sum + square);
    sum - inner(weights, &rows[layout.norm_bits()])
}
