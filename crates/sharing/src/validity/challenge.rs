//! What a challenge asks of every row.

use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign};
use blindsum_crypto::secret::Secret;
use blindsum_math::prime_field::NttField;

use super::projection::{PROJECTIONS, ProjectionTest};
use super::{Layout, REPETITIONS, Test};
use crate::ramp::fill_uniform;

/// The random factors of one repetition of all tests.
pub(super) struct Factors<F> {
    /// Of every row, in the test of degrees.
    pub degree: Vec<F>,
    /// Of every row of bits.
    pub input_bit: Vec<F>,
    /// Of every block.
    pub input_bound: Vec<F>,
    /// Of every block.
    pub quadratic: Vec<F>,
    /// Of every row of bits of the norm.
    pub norm_bit: Vec<F>,
    /// Of the test of the norm.
    pub norm: F,
    /// Of every row of bits of projections.
    pub projection_bit: Vec<F>,
}

/// The random factors that a seed stands for, the same for every prover and verifier. They are public once every
/// prover has committed to its shares, and must be unpredictable before.
pub struct Challenge<F> {
    pub(super) repetitions: [Factors<F>; REPETITIONS],
    /// The test of projections, in all repetitions, where there are any.
    pub(super) projection: Option<ProjectionTest<F>>,
}

impl<F: NttField> Challenge<F> {
    /// The factors of a seed: elements of the field from the mask stream of the seed, list t of repetition ρ from byte
    /// (8·ρ + t)·2^35 on, in the order of [`Test::ALL`].
    pub fn new(seed: [u8; 32], layout: &Layout) -> Self {
        let stream = [MaskStream::new(
            MaskSeed::from(Secret::from(seed)),
            Sign::Add,
        )];
        let list = |repetition: usize, test: Test, length: usize| {
            let mut canonical = vec![0; length];
            let region = 8 * repetition as u64 + test as u64;
            fill_uniform::<F>(&stream, region, &mut canonical);
            let element = |value| F::from_canonical(value).unwrap_or(F::ZERO);
            canonical.into_iter().map(element).collect::<Vec<F>>()
        };
        let repetition = |number| Factors {
            degree: list(number, Test::Degree, layout.rows()),
            input_bit: list(number, Test::InputBit, layout.bits().len()),
            input_bound: list(number, Test::InputBound, layout.blocks()),
            quadratic: list(number, Test::Quadratic, layout.squares().len()),
            norm_bit: list(number, Test::NormBit, layout.norm_bits().len()),
            norm: list(number, Test::Norm, 1)
                .first()
                .copied()
                .unwrap_or(F::ZERO),
            projection_bit: list(number, Test::ProjectionBit, layout.projection_bits().len()),
        };
        let projections = |number| list(number, Test::Projection, PROJECTIONS);
        let projection = layout.bits_of_projection().map(|bits| {
            let factors = std::array::from_fn(projections);
            ProjectionTest::new(factors, bits, layout.packing())
        });
        Self {
            repetitions: std::array::from_fn(repetition),
            projection,
        }
    }
}
