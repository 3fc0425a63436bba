//! Clipping bounds from the updates of earlier rounds: analytical clipping for integer quantisation (ACIQ) on
//! what everybody knows, as FLASHE §5.2 proposes.
//!
//! A party that chose its bound by its own values would tell something about them, and everybody needs the
//! same one. So the spread of a tensor is estimated from the means that earlier rounds opened, and the bound
//! is the one that loses least of a Gaussian with that spread ([`gaussian_factor`]). The bounds are part of
//! what the parties of a round must agree on, to the last bit: nothing here uses a function that two machines
//! may round differently.

use crate::norm_rule::NormRule;
use crate::spec::Kind;
use crate::values::{Real, sum_of_squares};
use crate::{EncodeError, Encoding};

/// What the rounds so far tell about the spread of each tensor's updates.
///
/// For a round with n survivors and mean u it keeps, for a tensor of L coordinates, the power
///
/// ```text
/// p  =  n * (u_1^2 + … + u_L^2) / L
/// ```
///
/// and over all rounds a decaying average: p of the first round, then (average + p) / 2. The bound of the next round is
///
/// ```text
/// c  =  min(C, max(C / 2^20, gaussian_factor(bits) * sqrt(average)))
/// ```
///
/// where C is the bound in the job. As long as the average is 0, in particular before the first round, c = C.
/// So c is never 0 nor larger than what the parties agreed to.
///
/// Why n: updates that have nothing in common cancel in the mean, whose power is then an n-th of that of a
/// single update. A bound that is made for the mean would cut them off, the next mean would be smaller for it,
/// and so would the next bound, until nothing is left. With n the bound is never too narrow for one party;
/// where all updates are alike it is sqrt(n) times wider than it had to be, which costs nothing in the end:
/// the independent rounding errors of n parties have a sqrt(n) times smaller mean.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateHistory {
    factor: f64,
    tensors: Vec<Tensor>,
}

/// One tensor of the history.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tensor {
    len: usize,
    /// The job's bound C.
    clip: f64,
    /// Average power of a single update; 0 where nothing is known.
    power: f64,
}

/// Widest bound over narrowest: 2^20. A tensor that stood still can begin to move, and its bound widens by a
/// factor a round, so it must not be too far away.
const NARROWEST: f64 = 1.0 / (1 << 20) as f64;

/// Bounds of the job for which no square and no sum of squares leaves the exponents of `f64`, nor any mean
/// those of `f32`.
const CLIP_RANGE: std::ops::RangeInclusive<f64> = 1e-30..=1e30;

/// First byte of a history.
const VERSION: u8 = 1;

impl UpdateHistory {
    /// The history before the first round of a job with this encoding.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] for an encoding that is not quantised with a bound per coordinate, or has a
    /// bound outside `1e-30..=1e30`.
    pub fn new(encoding: &Encoding) -> Result<Self, EncodeError> {
        let Kind::Quantised {
            bits,
            norm: NormRule::Free,
            ..
        } = encoding.kind()
        else {
            let rule =
                "bounds from earlier rounds need quantised coordinates with a bound for each";
            return Err(EncodeError::spec("clipping", rule));
        };
        let mut tensors = Vec::new();
        for (run, clip) in encoding.tensors() {
            if !CLIP_RANGE.contains(&clip) {
                let rule =
                    format!("1e-30 <= clip = {clip:e} <= 1e30 for bounds from earlier rounds");
                return Err(EncodeError::spec("clip", rule));
            }
            tensors.push(Tensor {
                len: run.len(),
                clip,
                power: 0.0,
            });
        }
        Ok(Self {
            factor: gaussian_factor(bits),
            tensors,
        })
    }

    /// Adds a finished round: `mean`, `[dim]`, is the mean of the updates of `survivors` parties. All parties must call
    /// this with the same numbers: a mean decoded to `f32` differs from one decoded to `f64`.
    ///
    /// # Errors
    /// [`EncodeError::Dim`], [`EncodeError::NotFinite`] for a mean that is not finite in `f32`. The history is
    /// unchanged then.
    pub fn observe<R: Real>(&mut self, mean: &[R], survivors: usize) -> Result<(), EncodeError> {
        let powers = self.powers(mean, |_, of_tensor| {
            Some(survivors as f64 * sum_of_squares(of_tensor) / of_tensor.len() as f64)
        })?;
        self.average(&powers);
        Ok(())
    }

    /// Adds a finished sparse round: `mean[d]` is the mean over `counts[d]` parties, and is ignored where these are
    /// fewer than `minimum`. The power of a tensor is the average of count * u^2 over its other coordinates, added in
    /// order; a tensor without any keeps its average.
    ///
    /// # Errors
    /// As for [`UpdateHistory::observe`].
    pub fn observe_sparse<R: Real>(
        &mut self,
        mean: &[R],
        counts: &[u32],
        minimum: u32,
    ) -> Result<(), EncodeError> {
        let (got, dim) = (counts.len(), self.dim());
        if got != dim {
            return Err(EncodeError::Dim { got, dim });
        }
        let powers = self.powers(mean, |first, of_tensor| {
            let (mut sum, mut present) = (0.0, 0_u64);
            for (value, &count) in of_tensor.iter().zip(&counts[first..]) {
                if count >= minimum.max(1) {
                    sum += f64::from(count) * (value.to_f64() * value.to_f64());
                    present += 1;
                }
            }
            (present > 0).then(|| sum / present as f64)
        })?;
        self.average(&powers);
        Ok(())
    }

    /// The clipping bound of every tensor in the next round, for [`Encoding::with_clips`]; a single bound if the job
    /// lists no tensors.
    pub fn clips(&self) -> Vec<f64> {
        let clip = |tensor: &Tensor| match tensor.power {
            0.0 => tensor.clip,
            power => {
                let best = self.factor * power.sqrt();
                best.clamp(tensor.clip * NARROWEST, tensor.clip)
            }
        };
        self.tensors.iter().map(clip).collect()
    }

    /// Bytes of [`UpdateHistory::to_bytes`].
    pub fn encoded_len(&self) -> usize {
        5 + 8 * self.tensors.len()
    }

    /// The encoded history: a version byte (1), the number of tensors (4 bytes, big-endian), and the
    /// average power of each (IEEE 754 double precision, big-endian).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        bytes.push(VERSION);
        bytes.extend((self.tensors.len() as u32).to_be_bytes());
        for tensor in &self.tensors {
            bytes.extend(tensor.power.to_be_bytes());
        }
        bytes
    }

    /// Reads the history of a job with this encoding.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] as for [`UpdateHistory::new`]; [`EncodeError::State`] for bytes that are no history of
    /// such a job.
    pub fn from_bytes(encoding: &Encoding, bytes: &[u8]) -> Result<Self, EncodeError> {
        let mut history = Self::new(encoding)?;
        let (got, expected) = (bytes.len(), history.encoded_len());
        let refused = |rule: String| EncodeError::State {
            of: "update history",
            rule,
        };
        if got != expected {
            return Err(refused(format!("{got} bytes must be {expected}")));
        }
        let empty = history.to_bytes();
        let (head, powers) = bytes.split_at(5);
        if !empty.starts_with(head) {
            return Err(refused("it is of another version or job".into()));
        }
        let (powers, _) = powers.as_chunks::<8>();
        for (tensor, power) in history.tensors.iter_mut().zip(powers) {
            tensor.power = f64::from_be_bytes(*power);
            if !tensor.power.is_finite() || tensor.power.is_sign_negative() {
                return Err(refused("a power must be finite and not below 0".into()));
            }
        }
        Ok(history)
    }

    fn dim(&self) -> usize {
        self.tensors.iter().map(|tensor| tensor.len).sum()
    }

    /// The power of each tensor of a mean, by a function of its first coordinate and its values.
    fn powers<R: Real>(
        &self,
        mean: &[R],
        power: impl Fn(usize, &[R]) -> Option<f64>,
    ) -> Result<Vec<Option<f64>>, EncodeError> {
        let (got, dim) = (mean.len(), self.dim());
        if got != dim {
            return Err(EncodeError::Dim { got, dim });
        }
        let is_single = |value: &R| (value.to_f64() as f32).is_finite();
        if let Some(index) = mean.iter().position(|value| !is_single(value)) {
            return Err(EncodeError::NotFinite { index });
        }
        let (mut first, mut powers) = (0, Vec::with_capacity(self.tensors.len()));
        for tensor in &self.tensors {
            powers.push(power(first, &mean[first..first + tensor.len]));
            first += tensor.len;
        }
        Ok(powers)
    }

    fn average(&mut self, powers: &[Option<f64>]) {
        for (tensor, power) in self.tensors.iter_mut().zip(powers) {
            tensor.power = match (tensor.power, *power) {
                (before, None) => before,
                (0.0, Some(power)) => power,
                (before, Some(power)) => (before + power) / 2.0,
            };
        }
    }
}

/// The clipping bound, in standard deviations, with which a Gaussian loses least when it is clipped and then
/// rounded to 2^bits levels: the alpha that minimises ACIQ's mean square error
///
/// ```text
/// 2 * ∫_alpha^∞ (x - alpha)^2 phi(x) dx  +  alpha^2 / (3 * 4^bits)
/// ```
///
/// rounded to a multiple of 2^-20, so that it does not depend on how it is computed. `bits` is 1 to 32.
pub fn gaussian_factor(bits: u32) -> f64 {
    // Where the derivative is 0: excess(alpha) = alpha / (6 * 4^bits). The left falls, the right rises.
    let slope = f64::powi(0.25, bits as i32) / 6.0;
    let (mut low, mut high) = (1.0, 16.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if excess(middle) > slope * middle {
            low = middle;
        } else {
            high = middle;
        }
    }
    let unit = (1 << 20) as f64;
    (low * unit).round_ties_even() / unit
}

/// ∫_a^∞ (x - a) phi(x) dx = phi(a) - a * (1 - Phi(a)), for a >= 1.
///
/// 1 - Phi(a) = phi(a) / (a + 1 / (a + 2 / (a + 3 / …))), of which 400 levels are more than enough from 1 on.
fn excess(a: f64) -> f64 {
    let tail = (1..=400).rev().fold(a, |below, n| a + f64::from(n) / below);
    density(a) * (1.0 - a / tail)
}

/// The standard normal density, by additions, multiplications and divisions only: e^-t is the 1024th power
/// of a Taylor series at t / 1024.
fn density(x: f64) -> f64 {
    const INVERSE_SQRT_TAU: f64 = 0.398_942_280_401_432_7;
    let t = x * x / 2048.0;
    let root = (1..=20)
        .rev()
        .fold(1.0, |sum, n| 1.0 - t * sum / f64::from(n));
    let power = (0..10).fold(root, |power, _| power * power);
    INVERSE_SQRT_TAU * power
}
