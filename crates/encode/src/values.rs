//! The numbers to encode, and the one pass that checks them before anything is sent.

use std::ops::Range;

use crate::norm_rule::NormRule;
use crate::{EncodeError, Encoding};
use blindsum_math::simd::{self, Kernel};

/// A vector to encode.
#[derive(Clone, Copy)]
pub enum Values<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Double precision.
    F64(&'a [f64]),
    /// Unsigned integers, for [`EncodingKind::Integers`](crate::EncodingKind::Integers).
    Integers(Integers<'a>),
}

impl<'a> From<&'a [f32]> for Values<'a> {
    fn from(values: &'a [f32]) -> Self {
        Self::F32(values)
    }
}

impl<'a> From<&'a [f64]> for Values<'a> {
    fn from(values: &'a [f64]) -> Self {
        Self::F64(values)
    }
}

impl<'a> From<&'a [u32]> for Values<'a> {
    fn from(values: &'a [u32]) -> Self {
        Self::Integers(values.into())
    }
}

impl<'a> From<&'a [u64]> for Values<'a> {
    fn from(values: &'a [u64]) -> Self {
        Self::Integers(values.into())
    }
}

impl Values<'_> {
    /// Number of coordinates.
    pub fn len(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::F64(values) => values.len(),
            Values::Integers(values) => values.len(),
        }
    }

    /// Whether there is no coordinate.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A vector of unsigned integers.
#[derive(Clone, Copy)]
pub enum Integers<'a> {
    /// 32 bits.
    U32(&'a [u32]),
    /// 64 bits.
    U64(&'a [u64]),
}

impl<'a> From<&'a [u32]> for Integers<'a> {
    fn from(values: &'a [u32]) -> Self {
        Self::U32(values)
    }
}

impl<'a> From<&'a [u64]> for Integers<'a> {
    fn from(values: &'a [u64]) -> Self {
        Self::U64(values)
    }
}

impl Integers<'_> {
    /// Number of integers.
    pub fn len(&self) -> usize {
        match self {
            Integers::U32(values) => values.len(),
            Integers::U64(values) => values.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Index of the first integer above `largest`.
    pub(crate) fn position_above(&self, largest: u64) -> Option<usize> {
        match self {
            Integers::U32(values) => values.iter().position(|&value| u64::from(value) > largest),
            Integers::U64(values) => values.iter().position(|&value| value > largest),
        }
    }
}

/// A floating-point number: `f32` or `f64`.
pub trait Real: Copy + sealed::Sealed {
    /// The same number in double precision.
    fn to_f64(self) -> f64;
    /// The nearest number of this precision.
    fn from_f64(value: f64) -> Self;
}

mod sealed {
    /// Keeps [`Real`](super::Real) to the two types it is true of.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

impl Real for f32 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Real for f64 {
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }
}

/// What clipping changed in a vector.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EncodeReport {
    /// Coordinates outside their bound, once the vector was scaled, which were clamped to it.
    pub clipped: u64,
    /// The L2 norm of the vector, where it was above its bound and the vector was scaled down.
    pub scaled_norm: Option<f64>,
    /// What the vector was multiplied with then, below 1.
    pub scaled_by: Option<f64>,
}

impl EncodeReport {
    /// Whether nothing was cut off.
    pub fn is_whole(&self) -> bool {
        self.clipped == 0 && self.scaled_by.is_none()
    }
}

/// Judges real numbers, a vector of the encoding's dimension: its report and the factor to scale it with.
pub(crate) fn judge(
    encoding: &Encoding,
    values: Values<'_>,
) -> Result<(EncodeReport, f64), EncodeError> {
    match values {
        Values::F32(values) => judge_reals(encoding, values),
        Values::F64(values) => judge_reals(encoding, values),
        Values::Integers(_) => Err(EncodeError::Integers),
    }
}

fn judge_reals<R: Real>(
    encoding: &Encoding,
    values: &[R],
) -> Result<(EncodeReport, f64), EncodeError> {
    let (got, dim) = (values.len(), encoding.dim());
    if got != dim {
        return Err(EncodeError::Dim { got, dim });
    }
    let rule = encoding.kind().norm();
    let mut report = EncodeReport::default();
    let mut norm = Norm::default();
    for (run, clip) in encoding.clip_runs(0..dim) {
        for first in run.clone().step_by(PIECE) {
            let values = &values[first..run.end.min(first + PIECE)];
            let factor = 1.0;
            let (all_finite, outside) = simd::run(Judge {
                values,
                factor,
                clip,
            });
            // guard: finite-numbers-only-in-rounds
            if !all_finite {
                let bad = values.iter().position(|value| !value.to_f64().is_finite());
                let index = first + bad.unwrap_or(0);
                return Err(EncodeError::NotFinite { index });
            }
            if rule != NormRule::Free {
                // All of dim is one run then, so that every piece starts at a multiple of the stripes.
                simd::run(AddSquares(values, &mut norm));
            }
            if rule != NormRule::Clip {
                report.clipped += outside;
            }
        }
    }
    let mut factor = 1.0;
    if let Some(bound) = encoding.norm_bound() {
        let norm = norm.value()?;
        if norm > bound {
            factor = bound / norm;
            (report.scaled_norm, report.scaled_by) = (Some(norm), Some(factor));
            if report.clipped > 0 {
                report.clipped = outside_after(encoding, values, factor);
            }
        }
    }
    Ok((report, factor))
}

/// How many values are outside their bound once all are scaled with `factor`.
fn outside_after<R: Real>(encoding: &Encoding, values: &[R], factor: f64) -> u64 {
    let outside = |(run, clip): (Range<usize>, f64)| {
        let values = &values[run];
        simd::run(Judge {
            values,
            factor,
            clip,
        })
        .1
    };
    encoding.tensors().map(outside).sum()
}

/// Coordinates judged at a time: they stay in the first-level cache for the second loop over them.
const PIECE: usize = 2048;

/// Whether all values are finite, and how many, scaled with `factor`, are outside `[-clip, clip]`.
struct Judge<'a, R> {
    values: &'a [R],
    factor: f64,
    clip: f64,
}

impl<R: Real> Kernel for Judge<'_, R> {
    type Output = (bool, u64);

    #[inline(always)]
    fn run(self) -> (bool, u64) {
        let mut not_finite = 0_u64;
        let mut outside = 0_u64;
        for value in self.values {
            let magnitude = value.to_f64().abs();
            // guard: finite-numbers-only
            not_finite += u64::from(!magnitude.is_finite());
            outside += u64::from(magnitude * self.factor > self.clip);
        }
        (not_finite == 0, outside)
    }
}

/// Squares, summed in stripes: coordinate i belongs to partial sum i mod 16. The order of additions is fixed,
/// so the norm is the same on every machine.
#[derive(Default)]
struct Norm([f64; STRIPES]);

const STRIPES: usize = 16;

impl Norm {
    fn squares(&self) -> f64 {
        self.0.iter().sum()
    }

    fn value(self) -> Result<f64, EncodeError> {
        let squares = self.squares();
        if squares.is_finite() {
            Ok(squares.sqrt())
        } else {
            Err(EncodeError::Norm)
        }
    }
}

/// The sum of the squares of some values, with the same order of additions on every machine.
pub(crate) fn sum_of_squares<R: Real>(values: &[R]) -> f64 {
    let mut norm = Norm::default();
    simd::run(AddSquares(values, &mut norm));
    norm.squares()
}

/// Adds the squares of values of which the first belongs to stripe 0.
struct AddSquares<'a, R>(&'a [R], &'a mut Norm);

impl<R: Real> Kernel for AddSquares<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self(values, Norm(stripes)) = self;
        let (rows, rest) = values.as_chunks::<STRIPES>();
        // A copy, so that the sums stay in registers.
        let mut sums = *stripes;
        for row in rows {
            for i in 0..STRIPES {
                let value = row[i].to_f64();
                sums[i] += value * value;
            }
        }
        for (sum, value) in sums.iter_mut().zip(rest) {
            *sum += value.to_f64() * value.to_f64();
        }
        *stripes = sums;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use blindsum_math::simd::run_on_all;

    proptest! {
        #[test]
        fn every_instruction_set_judges_alike(
            values in prop::collection::vec(any::<f32>(), 0..200),
            factor in prop_oneof![Just(1.0), 0.0..1.0_f64],
            clip in 0.0..1e3_f64,
        ) {
            let values = &values[..];
            let outside = values.iter().filter(|x| f64::from(x.abs()) * factor > clip).count() as u64;
            let expected = (values.iter().all(|x| x.is_finite()), outside);
            for judged in run_on_all(|| Judge { values, factor, clip }) {
                prop_assert_eq!(judged, expected);
            }
        }
    }

    #[test]
    fn every_instruction_set_adds_squares_alike() {
        let values: Vec<f32> = (0..1003).map(|i| (i as f32 * 0.7).sin()).collect();
        let mut norms = Vec::new();
        let mut one = Norm::default();
        AddSquares(&values, &mut one).run();
        norms.push(one.value().unwrap());
        let mut other = Norm::default();
        simd::run(AddSquares(&values, &mut other));
        norms.push(other.value().unwrap());
        let plain = values
            .iter()
            .map(|x| f64::from(*x).powi(2))
            .sum::<f64>()
            .sqrt();
        assert_eq!(norms[0].to_bits(), norms[1].to_bits());
        assert!((norms[0] - plain).abs() <= 1e-12 * plain);
    }
}
