//! The encoding of a job, checked once.

use std::ops::Range;

use blindsum_math::words::Width;

use crate::clip::{CLIP_RANGE, ClipSpec, MARKS, NARROWEST, check_clip};
use crate::kind::{EncodingKind, Kind, LOW_BITS, ceil_log2};
use crate::metric_words::MetricWords;
use crate::noise::NoiseShare;
use crate::norm_rule::NormRule;
use crate::{EncodeError, MetricRange};

/// A run of coordinates with its own clipping bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TensorSpec {
    /// Number of coordinates.
    pub len: usize,
    /// Bound on the absolute value of a coordinate.
    pub clip: f64,
}

/// The encoding of a job, unchecked; [`EncodingSpec::validate`] makes an [`Encoding`] of it.
#[derive(Clone, Debug, PartialEq)]
pub struct EncodingSpec {
    /// Coordinates of a vector, at least 1.
    pub dim: usize,
    /// How a coordinate becomes a word.
    pub kind: EncodingKind,
    /// Largest weight of a vector, at least 1.
    pub max_weight: u32,
    /// Largest number of parties in a sum, at least 1.
    pub parties: usize,
    /// Clipping bounds tensor by tensor, covering all coordinates; empty for one bound.
    pub tensors: Vec<TensorSpec>,
    /// Whether vectors report the range of each tensor's coordinates in words of their own: for bounds that follow
    /// from earlier rounds ([`UpdateHistory`](crate::UpdateHistory)).
    pub tells_reach: bool,
    /// The metrics that parties report beside their vectors, at most [`MAX_METRICS`].
    pub metrics: Vec<MetricRange>,
    /// The share of noise of each vector, for differential privacy; none where vectors are sent as they are.
    pub noise: Option<NoiseShare>,
}

/// How the vectors of a job are encoded. Checked: no sum of `parties` vectors can wrap.
#[derive(Clone, Debug, PartialEq)]
pub struct Encoding {
    dim: usize,
    kind: Kind,
    max_weight: u32,
    parties: usize,
    width: Width,
    pub(crate) runs: Vec<Run>,
    /// The tensors that vectors tell the reach of: all of the job, or none.
    reach_tensors: usize,
    pub(crate) metrics: MetricWords,
}

/// Coordinates up to `end` (from the end of the run before) that share a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Run {
    end: usize,
    pub(crate) clip: f64,
    /// Which tensor of the job it is.
    pub(crate) tensor: usize,
}

/// Bits of fraction of [`EncodingKind::Fixed64`].
const FRACTION_BITS: i32 = 16;

/// What one unit of a [`EncodingKind::Fixed64`] coordinate is in its word.
pub(crate) const FIXED64_UNIT: f64 = (1_u64 << FRACTION_BITS) as f64;

/// The largest power of two that is a valid clip of [`EncodingKind::Fixed64`] for `parties` parties with weights up to
/// `max_weight`, both at least 1.
pub fn largest_fixed64_clip(parties: usize, max_weight: u32) -> f64 {
    let weights = parties as u128 * u128::from(max_weight);
    f64::powi(2.0, 62 - FRACTION_BITS - weights.max(1).ilog2() as i32)
}

impl EncodingSpec {
    /// Checks every rule.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] names the first field that breaks a rule and quotes the rule:
    /// * `dim`, `parties` and `max_weight` at least 1;
    /// * `2 <= bits <= 32`, and `1 <= bits <= 64` for [`EncodingKind::Integers`];
    /// * every clip in `1e-30..=1e30`, so that means and models stay in the normal range of a single;
    /// * the tensors cover `dim`, and there are none for [`ClipSpec::L2`], [`ClipSpec::Sent`] and integers;
    /// * rounding alone cannot reach the norm of [`ClipSpec::Sent`], which is at most 1e35;
    /// * for [`EncodingKind::Quantised`], `max_weight * (2^bits - 1) < 2^52`, so that scaling in `f64` gives exact
    ///   integers, and `bits + ⌈log2(parties * max_weight)⌉ <= 64`, so that no sum wraps;
    /// * for [`EncodingKind::Fixed64`], `clip * max_weight * parties * 2^16 < 2^63`, and `clip > 2^-17`: what is not above
    ///   half of a unit becomes 0;
    /// * for [`EncodingKind::Integers`], `min(bits, 32) + ⌈log2(parties * max_weight)⌉ <= 64`;
    /// * with noise, those of [`SizesSpec::validate`](blindsum_privacy::SizesSpec::validate), for
    ///   [`EncodingKind::Quantised`], [`ClipSpec::L2`] and `max_weight = 1` only.
    pub fn validate(self) -> Result<Encoding, EncodeError> {
        for (field, value) in [
            ("dim", self.dim),
            ("parties", self.parties),
            ("max_weight", self.max_weight as usize),
        ] {
            if value < 1 {
                return Err(EncodeError::spec(field, format!("1 <= {field} = {value}")));
            }
        }
        // Two words an integer and the weight, or a word and those of a tensor, are the most words that a vector has.
        if self.dim > usize::MAX / 8 - 1 {
            return Err(EncodeError::spec(
                "dim",
                format!("dim = {} < 2^61 - 1", self.dim),
            ));
        }
        let (kind, width, clip) = match self.kind {
            EncodingKind::Quantised {
                bits,
                clip,
                rounding,
            } => {
                let norm = match clip {
                    ClipSpec::Tensor(_) => NormRule::Free,
                    ClipSpec::L2(_) => NormRule::Clip,
                    ClipSpec::Sent { max_norm, .. } => NormRule::Sent(max_norm),
                };
                let width = self.quantised_width(bits)?;
                let kind = Kind::Quantised {
                    bits,
                    rounding,
                    norm,
                };
                (kind, width, clip.clip())
            }
            EncodingKind::Fixed64 { clip } => (Kind::Fixed64, 64, clip),
            EncodingKind::Integers { bits } => {
                let (width, split) = self.integer_width(bits)?;
                (Kind::Integers { bits, split }, width, 0.0)
            }
        };
        let (kind, width) = match self.noise {
            Some(share) => share.kind(self.kind, (self.parties, self.dim, self.max_weight))?,
            None => (kind, width),
        };
        let runs = self.runs(kind, clip)?;
        let weights = self.parties as u128 * u128::from(self.max_weight);
        let metrics = MetricWords::new(&self.metrics, kind.metric_bits(weights))?;
        let encoding = Encoding {
            reach_tensors: self.reach_tensors(kind, &runs)?,
            runs,
            dim: self.dim,
            kind,
            max_weight: self.max_weight,
            parties: self.parties,
            metrics,
            width: Width::new(width).map_err(|e| EncodeError::spec("bits", e.to_string()))?,
        };
        encoding.check_bounds()?;
        encoding
            .metrics
            .check_digits(self.parties, self.max_weight)?;
        Ok(encoding)
    }

    /// b = q + ⌈log2(n * w)⌉: n * w * (2^q - 1) < 2^(q + ⌈log2(n * w)⌉).
    fn quantised_width(&self, bits: u32) -> Result<u32, EncodeError> {
        if !(2..=32).contains(&bits) {
            return Err(EncodeError::spec(
                "bits",
                format!("2 <= bits = {bits} <= 32"),
            ));
        }
        let weight = self.max_weight;
        // guard: weights-are-exact
        if u128::from(weight) * ((1 << bits) - 1) >= 1 << 52 {
            let rule =
                format!("max_weight * (2^bits - 1) = {weight} * (2^{bits} - 1) < 2^52 must hold");
            return Err(EncodeError::spec("max_weight", rule));
        }
        // guard: words-hold-the-largest-sum
        let width = bits + ceil_log2(self.parties as u128 * u128::from(weight));
        if width > 64 {
            let rule = format!(
                "bits + ceil(log2(parties * max_weight)) = {bits} + ceil(log2({} * {weight})) = {width} <= 64 \
                 must hold",
                self.parties
            );
            return Err(EncodeError::spec("bits", rule));
        }
        Ok(width)
    }

    /// Bits of a word, and whether an integer takes two.
    fn integer_width(&self, bits: u32) -> Result<(u32, bool), EncodeError> {
        if !(1..=64).contains(&bits) {
            return Err(EncodeError::spec(
                "bits",
                format!("1 <= bits = {bits} <= 64"),
            ));
        }
        let weights = self.parties as u128 * u128::from(self.max_weight);
        let carry = ceil_log2(weights);
        if bits + carry <= 64 {
            return Ok((bits + carry, false));
        }
        let low = bits.min(LOW_BITS);
        if low + carry > 64 {
            let rule = format!(
                "min(bits, 32) + ceil(log2(parties * max_weight)) = {low} + ceil(log2({} * {})) = {} <= 64 must hold",
                self.parties,
                self.max_weight,
                low + carry
            );
            return Err(EncodeError::spec("bits", rule));
        }
        Ok((LOW_BITS + carry, true))
    }

    /// Of how many tensors vectors tell how far they go.
    fn reach_tensors(&self, kind: Kind, runs: &[Run]) -> Result<usize, EncodeError> {
        match (self.tells_reach, kind) {
            (false, _) => Ok(0),
            (
                true,
                Kind::Quantised {
                    norm: NormRule::Free,
                    ..
                },
            ) => Ok(runs.len()),
            (true, _) => {
                let rule =
                    "bounds from earlier rounds need quantised coordinates with a bound for each";
                Err(EncodeError::spec("clipping", rule))
            }
        }
    }

    fn runs(&self, kind: Kind, clip: f64) -> Result<Vec<Run>, EncodeError> {
        if matches!(kind, Kind::Integers { .. }) {
            if self.tensors.is_empty() {
                return Ok(Vec::new());
            }
            let rule = "must be empty for integers, which are not clipped";
            return Err(EncodeError::spec("tensors", rule));
        }
        if self.tensors.is_empty() {
            check_clip("clip", clip, &CLIP_RANGE)?;
            let end = self.dim;
            return Ok(vec![Run {
                end,
                clip,
                tensor: 0,
            }]);
        }
        match kind.norm() {
            NormRule::Free => {}
            NormRule::Clip => {
                let rule = "must be empty where clip bounds the L2 norm of the whole vector";
                return Err(EncodeError::spec("tensors", rule));
            }
            NormRule::Sent(_) => {
                let rule = "must be 0 where tensors have bounds of their own";
                return Err(EncodeError::spec("max_norm", rule));
            }
        }
        let mut runs = Vec::with_capacity(self.tensors.len());
        let mut end = 0_usize;
        for (number, tensor) in self.tensors.iter().enumerate() {
            if tensor.len < 1 {
                return Err(EncodeError::spec("tensors.len", "1 <= tensors.len = 0"));
            }
            check_clip("tensors.clip", tensor.clip, &CLIP_RANGE)?;
            end = end.saturating_add(tensor.len);
            runs.push(Run {
                end,
                clip: tensor.clip,
                tensor: number,
            });
        }
        if end != self.dim {
            let rule = format!("sum of tensors.len = {end} must be dim = {}", self.dim);
            return Err(EncodeError::spec("tensors", rule));
        }
        Ok(runs)
    }
}

impl Encoding {
    /// Coordinates of a vector.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Words of a vector: one for each coordinate (two where integers are split, first all low ones, then all high
    /// ones); the weight if weights above 1 are allowed; four for each tensor where vectors report ranges
    /// ([`Encoding::reached`]); and those of the metrics ([`Encoding::metric_sums`]).
    ///
    /// With `max_weight = 1` the total weight is the number of survivors, and no word is spent on it.
    pub fn lanes(&self) -> usize {
        let weight = usize::from(self.has_weight_word());
        self.coordinate_lanes() + weight + self.reach_words() + self.metrics.words()
    }

    /// Words that tell how far tensors go.
    pub(crate) fn reach_words(&self) -> usize {
        MARKS.len() * self.reach_tensors
    }

    /// No less than the words of `parties` vectors can add up to in one lane, before it is
    /// reduced modulo 2^b; for fixed point, whose words are negative numbers too, taken as unsigned.
    pub fn largest_sum(&self) -> u128 {
        let parties = self.parties as u128;
        let bits = match self.kind {
            Kind::Fixed64 => return parties * u128::from(u64::MAX),
            Kind::Noised { sizes, .. } => sizes.width(),
            Kind::Quantised { bits, .. } | Kind::Integers { bits, split: false } => bits,
            Kind::Integers { split: true, .. } => LOW_BITS,
        };
        // No less than the total weight, which the weight word adds up to.
        parties * u128::from(self.max_weight) * ((1 << bits) - 1)
    }

    /// Bits of a word.
    pub fn width(&self) -> Width {
        self.width
    }

    /// Largest weight of a vector.
    pub fn max_weight(&self) -> u32 {
        self.max_weight
    }

    /// Largest number of parties in a sum.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// The coordinates of every tensor and their bound, in order: all of `dim` where the job lists none, and
    /// nothing for integers, which have no bound.
    pub fn tensors(&self) -> impl Iterator<Item = (Range<usize>, f64)> + '_ {
        self.clip_runs(0..self.dim)
    }

    /// The same encoding with other clipping bounds, one for each tensor: for a single round, with bounds found from
    /// earlier rounds. Its words have the same width and number.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] if there are more or fewer bounds than [`Encoding::tensors`], or one of them
    /// breaks the rules of [`EncodingSpec::validate`]. It may be 2^-20 times as wide as the narrowest bound of a job.
    pub fn with_clips(&self, clips: &[f64]) -> Result<Self, EncodeError> {
        let (got, tensors) = (clips.len(), self.runs.len());
        if got != tensors {
            let rule = format!("clips = {got} = tensors = {tensors}");
            return Err(EncodeError::spec("clips", rule));
        }
        let narrow = CLIP_RANGE.start() * NARROWEST..=*CLIP_RANGE.end();
        let mut encoding = self.clone();
        for (run, &clip) in encoding.runs.iter_mut().zip(clips) {
            check_clip("clips", clip, &narrow)?;
            run.clip = clip;
        }
        encoding.check_bounds()?;
        Ok(encoding)
    }

    /// The encoding of a vector of just these coordinates, ascending, each with the bound of its tensor.
    pub(crate) fn compact(&self, indices: &[u32]) -> Self {
        let mut encoding = self.clone();
        encoding.dim = indices.len();
        encoding.runs.clear();
        for run in &self.runs {
            let end = indices.partition_point(|&index| (index as usize) < run.end);
            let before = encoding.runs.last().map_or(0, |run| run.end);
            if end > before {
                encoding.runs.push(Run { end, ..*run });
            }
        }
        encoding
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Words of a vector without the weight.
    pub(crate) fn coordinate_lanes(&self) -> usize {
        match self.kind {
            Kind::Integers { split: true, .. } => 2 * self.dim,
            _ => self.dim,
        }
    }

    pub(crate) fn has_weight_word(&self) -> bool {
        self.max_weight > 1
    }

    /// The pieces of `coordinates` with one clipping bound each, in order.
    pub(crate) fn clip_runs(
        &self,
        coordinates: Range<usize>,
    ) -> impl Iterator<Item = (Range<usize>, f64)> + '_ {
        let first = self
            .runs
            .partition_point(|run| run.end <= coordinates.start);
        let mut start = coordinates.start;
        self.runs[first..]
            .iter()
            .map(move |run| {
                let piece = start..run.end.min(coordinates.end);
                start = piece.end;
                (piece, run.clip)
            })
            .take_while(|(piece, _)| !piece.is_empty())
    }
}
