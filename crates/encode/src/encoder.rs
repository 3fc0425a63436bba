//! From numbers to words, tile by tile.

use blindsum_crypto::Zeroizing;
use blindsum_crypto::mask::{MaskStream, Sign, apply_masks};
use blindsum_math::words::TileMut;

use crate::kind::Kind;
use crate::lanes::{self, Lane};
use crate::levels::Rounding;
use crate::noised::NoisedWords;
use crate::quantise::{Fixed, Nearest, Scale, Stochastic};
use crate::reach::Reach;
use crate::spec::FIXED64_UNIT;
use crate::values::Real;
use crate::verdict::Verdict;
use crate::{EncodeError, EncodeReport, Encoding, IntegerWords, MetricLevels, Seeds, Values};
use blindsum_math::simd;

/// One vector on its way into words.
///
/// Everything that can be wrong with the vector is found by [`Encoder::new`], before a word is made. A word
/// depends on the vector, the weight and the seed only, not on the tiles or the machine.
pub struct Encoder<'a>(Source<'a>);

enum Source<'a> {
    Reals(RealWords<'a>),
    Noised(NoisedWords<'a>),
    Integers(IntegerWords<'a>),
}

/// Real numbers on their way into words.
struct RealWords<'a> {
    encoding: &'a Encoding,
    values: Values<'a>,
    weight: u32,
    report: EncodeReport,
    /// What the vector is scaled with before anything else: below 1 where its norm is too large.
    factor: f64,
    stream: MaskStream,
    /// The words behind the coordinates.
    tail: Zeroizing<Vec<u64>>,
    /// How far the tensors go.
    reach: Vec<Reach>,
}

/// Coordinates rounded at a time: their random bits are on the stack, and wiped after each tile.
const PIECE: usize = 512;

impl<'a> Encoder<'a> {
    /// Checks `values` and prepares to encode them with `weight`.
    ///
    /// The seed of rounding gives the random bits of stochastic rounding: coordinate d takes the little-endian `u32` at bytes
    /// 4d..4d+4 of its stream. Two vectors must not share a seed. Nearest rounding and integers use no random bits.
    /// An encoding with noise needs a seed of noise as well ([`Seeds::with_noise`]).
    ///
    /// # Errors
    /// [`EncodeError::Weight`], [`EncodeError::Dim`], [`EncodeError::NotFinite`] for NaN and infinities,
    /// [`EncodeError::Norm`] if the vector is clipped by its norm and that overflows, [`EncodeError::Value`] for
    /// integers that are too large, [`EncodeError::Integers`] and [`EncodeError::Reals`] for the other kind of numbers;
    /// [`EncodeError::NoiseSeed`] and [`EncodeError::NoNoise`] if a seed of noise is missing, or given for no noise.
    pub fn new(
        encoding: &'a Encoding,
        values: impl Into<Values<'a>>,
        weight: u32,
        seeds: impl Into<Seeds>,
    ) -> Result<Self, EncodeError> {
        let values = values.into();
        let verdict = Verdict::of(encoding, values, weight)?;
        Self::after(encoding, values, weight, verdict, seeds.into())
    }

    /// Like [`Encoder::new`], for values and a weight that this encoding has validated already.
    pub(crate) fn after(
        encoding: &'a Encoding,
        values: Values<'a>,
        weight: u32,
        verdict: Verdict,
        seeds: Seeds,
    ) -> Result<Self, EncodeError> {
        if let (Kind::Noised { rounding, sizes }, false) =
            (encoding.kind(), matches!(values, Values::Integers(_)))
        {
            let words = NoisedWords::new(encoding, values, verdict, (rounding, sizes), seeds)?;
            return Ok(Self(Source::Noised(words)));
        }
        let seed = seeds.rounding()?;
        let (report, factor) = (verdict.report(), verdict.factor());
        let reach = encoding.reach_of(values);
        Ok(Self(match (encoding.kind(), values) {
            (Kind::Integers { .. }, Values::Integers(values)) => {
                Source::Integers(IntegerWords::judged(encoding, values, weight)?)
            }
            (Kind::Integers { .. }, _) => return Err(EncodeError::Reals),
            (_, Values::Integers(_)) => return Err(EncodeError::Integers),
            _ => Source::Reals(RealWords {
                encoding,
                values,
                weight,
                report,
                factor,
                stream: MaskStream::new(seed, Sign::Add),
                tail: encoding.tail(weight, &reach, &MetricLevels::default()),
                reach,
            }),
        }))
    }

    /// The same, where more was cut off than these values show: tensors go at least so far. It reports no metrics.
    pub(crate) fn reaching(mut self, least: &[Reach]) -> Self {
        if let Source::Reals(words) = &mut self.0 {
            for (reach, least) in words.reach.iter_mut().zip(least) {
                *reach = (*reach).max(*least);
            }
            return self.with_metrics(&MetricLevels::default());
        }
        self
    }

    /// The same vector that reports these metrics. Without them all metrics of the job are missing.
    pub fn with_metrics(self, metrics: &MetricLevels) -> Self {
        Self(match self.0 {
            Source::Reals(mut words) => {
                words.tail = words.encoding.tail(words.weight, &words.reach, metrics);
                Source::Reals(words)
            }
            Source::Noised(words) => Source::Noised(words.with_metrics(metrics)),
            Source::Integers(words) => Source::Integers(words.with_metrics(metrics)),
        })
    }

    /// A report of what clipping changed in the vector.
    pub fn report(&self) -> EncodeReport {
        match &self.0 {
            Source::Reals(words) => words.report,
            Source::Noised(words) => words.report(),
            Source::Integers(_) => EncodeReport::default(),
        }
    }

    /// Words of the vector, [`Encoding::lanes`].
    pub fn lanes(&self) -> usize {
        match &self.0 {
            Source::Reals(words) => words.encoding.lanes(),
            Source::Noised(words) => words.lanes(),
            Source::Integers(words) => words.lanes(),
        }
    }

    /// Writes words `first_lane..first_lane + tile.len()` over `tile`.
    ///
    /// # Errors
    /// [`EncodeError::Tile`] if they are not all in the vector or the lanes are not those of its width.
    pub fn encode_tile(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), EncodeError> {
        match &self.0 {
            Source::Reals(words) => words.encode_tile(first_lane, tile),
            Source::Noised(words) => words.encode_tile(first_lane, tile),
            Source::Integers(words) => words.encode_tile(first_lane, tile),
        }
    }
}

impl RealWords<'_> {
    fn encode_tile(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), EncodeError> {
        lanes::check_tile(self.encoding, first_lane, &tile)?;
        match (self.values, tile) {
            (Values::Integers(_), _) => unreachable!("judged to be real numbers"),
            (Values::F32(values), TileMut::W32(lanes)) => self.encode(values, first_lane, lanes),
            (Values::F64(values), TileMut::W32(lanes)) => self.encode(values, first_lane, lanes),
            (Values::F32(values), TileMut::W64(lanes)) => {
                self.encode_wide(values, first_lane, lanes)
            }
            (Values::F64(values), TileMut::W64(lanes)) => {
                self.encode_wide(values, first_lane, lanes)
            }
        }
        Ok(())
    }

    /// Lanes of `u64`, which fixed point has always.
    fn encode_wide<R: Real>(&self, values: &[R], first: usize, lanes: &mut [u64]) {
        if self.encoding.kind() != Kind::Fixed64 {
            return self.encode(values, first, lanes);
        }
        let unit = FIXED64_UNIT * f64::from(self.weight);
        let (mut lanes, coordinates) = lanes::split_tail(self.encoding, &self.tail, first, lanes);
        for (run, clip) in self.encoding.clip_runs(coordinates) {
            let (piece, rest) = lanes.split_at_mut(run.len());
            let values = &values[run];
            simd::run(Fixed {
                values,
                clip,
                unit,
                lanes: piece,
            });
            lanes = rest;
        }
    }

    fn encode<R: Real, L: Lane>(&self, values: &[R], first: usize, lanes: &mut [L]) {
        let Kind::Quantised { bits, rounding, .. } = self.encoding.kind() else {
            unreachable!("the words of fixed point are 64 bits wide");
        };
        let top = rounding.last_level(bits) * u64::from(self.weight);
        let (mut lanes, coordinates) = lanes::split_tail(self.encoding, &self.tail, first, lanes);
        for (run, clip) in self.encoding.clip_runs(coordinates) {
            let (of_run, rest) = lanes.split_at_mut(run.len());
            match rounding {
                Rounding::Nearest => {
                    // guard: campaign-sums-are-plain-arithmetic
                    let scale = Scale::nearest(clip, top, self.factor);
                    let values = &values[run];
                    simd::run(Nearest {
                        values,
                        scale,
                        lanes: of_run,
                    });
                }
                Rounding::Stochastic => {
                    let scale = Scale::stochastic(clip, top, self.factor);
                    let mut random = Zeroizing::new([0; PIECE]);
                    for (lanes, start) in of_run.chunks_mut(PIECE).zip(run.step_by(PIECE)) {
                        let values = &values[start..start + lanes.len()];
                        let random = &mut random[..lanes.len()];
                        random.fill(0);
                        apply_masks(
                            std::slice::from_ref(&self.stream),
                            start as u64,
                            TileMut::W32(random),
                        );
                        simd::run(Stochastic {
                            values,
                            random,
                            scale,
                            lanes,
                        });
                    }
                }
            }
            lanes = rest;
        }
    }
}
