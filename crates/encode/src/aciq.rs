//! Clipping bounds from the updates of earlier rounds: analytical clipping for integer quantisation (ACIQ) on
//! what everybody knows, as FLASHE §5.2 proposes.
//!
//! A party that chose its bound by its own values would tell something about them, and everybody needs the
//! same one. So the spread of a tensor is estimated from the means that earlier rounds opened. The bound is the one
//! that loses least of a Gaussian with that spread ([`gaussian_factor`]), and wider where a single party may have
//! larger values. The bounds are part of what the parties of a round must agree on, to the last bit: nothing here uses a
//! function that two machines may round differently.

use crate::clip::NARROWEST;
use crate::norm_rule::NormRule;
use crate::spec::Kind;
use crate::values::{Real, sum_of_squares};
use crate::{Divisor, EncodeError, Encoding, Rounding};

/// What the rounds so far tell about each tensor's updates.
///
/// Of a round with n survivors and mean u it takes, for a tensor of L coordinates, the power of one update and the
/// largest coordinate that one party may have:
///
/// ```text
/// p  =  n * (u_1^2 + … + u_L^2) / L
/// s  =  S * max |u_d|               S = n without weights, else W / max(1, W - (n - 1) * max_weight)
/// ```
///
/// W is the total weight. The bound of the next round is
///
/// ```text
/// c  =  min(C, max(C / 2^20, gaussian_factor(bits) * sqrt(power), 2 * peak))
/// ```
///
/// where C is the bound in the job. `power` is a decaying average, p of the first round and then (power + p) / 2. `peak`
/// is s of the first round and then max(s, peak / 2). c = C before the first round, and after a round with s >= 3/4 * c:
/// somebody may have been cut off in it, so that it tells nothing, and both begin anew.
///
/// Where c was below C, and rounding alone does not explain s, the same may follow from the same updates again: after the
/// kth such round the bound is C for 8 * 4^k rounds. Rounding adds to s at most S steps, or S half steps where it is to
/// nearest; in a sparse round, as many as parties sent a coordinate.
///
/// A tensor whose mean is all 0 keeps both with stochastic rounding. With rounding to nearest such a mean says that no
/// value was above half a level, which is c / 2 at most: the next bound is c / 2, so that small updates are seen in the
/// end however wide C is.
///
/// **The law**: updates that do not grow are not cut off, and after a jump one round is cut off at most; no bound follows
/// from values that were. Updates that cancel in the sum, as those of parties with different data do near the optimum, are
/// cut off in a round now and then, and more seldom each time.
///
/// Why the peak: nobody sees from a mean whether n parties have a coordinate in common or one party has it alone, whose
/// value is up to S times that of the mean. A bound below it would cut the party off, the next mean would be smaller for
/// it, and so would the next bound, until nothing is left. Twice, because a coordinate can meet values of other sign, and
/// grow.
///
/// The limits of the law: values that cancel almost exactly in the sum once they are cut off are not seen. With weights S
/// is that of the lightest party there can be. It is n where all have the largest weight, and up to W otherwise: then
/// bounds are wide, up to C.
///
/// What it costs: dense updates that have nothing in common get a bound of about 2 * sqrt(n) times their largest
/// coordinate, where the factor would do. That is log2 of it in bits.
#[derive(Clone, Debug, PartialEq)]
pub struct UpdateHistory {
    rule: Rule,
    max_weight: u32,
    tensors: Vec<Tensor>,
}

/// What the bounds of all tensors of a job follow from.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rule {
    factor: f64,
    rounding: Rounding,
    /// The most that rounding adds to a coordinate, as a part of its bound.
    rounds_up: f64,
}

/// One tensor of the history.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Tensor {
    len: usize,
    /// The job's bound C.
    clip: f64,
    /// Average power of a single update; 0 where nothing is known.
    power: f64,
    /// Largest coordinate that a party may have; 0 where nothing is known.
    peak: f64,
    /// How many bounds below C were too small.
    reached: u32,
    /// For so many more rounds the bound is C because of that.
    rest: u32,
}

/// What a round tells about one tensor.
#[derive(Clone, Copy)]
struct Observed {
    power: f64,
    peak: f64,
    /// How many times the most that rounding adds to a coordinate may be in the peak.
    roundings: f64,
}

/// What a round's mean is the mean of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Averaged {
    /// The parties whose updates are in it.
    pub survivors: usize,
    /// The sum of their weights, which is their number in a job without weights.
    pub total_weight: u64,
}

/// What a mean is the sum of, coordinate by coordinate, in a sparse round.
#[derive(Clone, Copy, Debug)]
pub struct Sparse<'a> {
    /// How many parties sent each coordinate, `[dim]`.
    pub counts: &'a [u32],
    /// The mean is 0 where fewer parties than this sent a coordinate.
    pub minimum: u32,
    /// What the sum of each coordinate was divided by.
    pub divisor: Divisor,
}

/// A peak from this part of its bound on says that somebody may have been cut off: the sum of others, and rounding, may
/// have taken a little from it.
const REACHED: f64 = 0.75;

/// First byte of a history.
const VERSION: u8 = 2;

impl UpdateHistory {
    /// The history before the first round of a job with this encoding.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] for an encoding that is not quantised with a bound per coordinate.
    pub fn new(encoding: &Encoding) -> Result<Self, EncodeError> {
        let Kind::Quantised {
            bits,
            rounding,
            norm: NormRule::Free,
        } = encoding.kind()
        else {
            let rule =
                "bounds from earlier rounds need quantised coordinates with a bound for each";
            return Err(EncodeError::spec("clipping", rule));
        };
        let mut tensors = Vec::new();
        for (run, clip) in encoding.tensors() {
            tensors.push(Tensor {
                len: run.len(),
                clip,
                power: 0.0,
                peak: 0.0,
                reached: 0,
                rest: 0,
            });
        }
        Ok(Self {
            rule: Rule {
                factor: gaussian_factor(bits),
                rounding,
                rounds_up: rounds_up(bits, rounding),
            },
            max_weight: encoding.max_weight(),
            tensors,
        })
    }

    /// Adds a finished round: `mean`, `[dim]`, is the mean of the updates of these parties. All parties must call
    /// this with the same numbers: a mean decoded to `f32` differs from one decoded to `f64`.
    ///
    /// # Errors
    /// [`EncodeError::Dim`], [`EncodeError::NotFinite`] for a mean that is not finite in `f32`. The history is
    /// unchanged then.
    pub fn observe<R: Real>(&mut self, mean: &[R], of: Averaged) -> Result<(), EncodeError> {
        let scale = self.scale(of);
        let observed = self.each(mean, |_, values| {
            let largest = values
                .iter()
                .fold(0.0, |most: f64, u| most.max(u.to_f64().abs()));
            Some(Observed {
                power: of.survivors as f64 * sum_of_squares(values) / values.len() as f64,
                peak: scale * largest,
                roundings: scale,
            })
        })?;
        self.add(&observed);
        Ok(())
    }

    /// Adds a finished sparse round. With s the sum of a coordinate, which is its mean times what it was divided by, the
    /// power of a tensor is the average of s^2 / count over the coordinates that have a mean, added in order, and the
    /// peak the largest |s|. A tensor without any keeps both.
    ///
    /// # Errors
    /// As for [`UpdateHistory::observe`].
    pub fn observe_sparse<R: Real>(
        &mut self,
        mean: &[R],
        of: Sparse<'_>,
    ) -> Result<(), EncodeError> {
        let (got, dim) = (of.counts.len(), self.dim());
        if got != dim {
            return Err(EncodeError::Dim { got, dim });
        }
        let observed = self.each(mean, |first, values| {
            let (mut squares, mut peak, mut present, mut most) = (0.0, 0.0_f64, 0_u64, 0);
            for (value, &count) in values.iter().zip(&of.counts[first..]) {
                if count >= of.minimum.max(1) {
                    let sum = f64::from(of.divisor.of(count)) * value.to_f64();
                    squares += sum * sum / f64::from(count);
                    peak = peak.max(sum.abs());
                    present += 1;
                    most = most.max(count);
                }
            }
            let power = squares / present as f64;
            let roundings = f64::from(most);
            (present > 0).then_some(Observed {
                power,
                peak,
                roundings,
            })
        })?;
        self.add(&observed);
        Ok(())
    }

    /// The clipping bound of every tensor in the next round, for [`Encoding::with_clips`]; a single bound if the job
    /// lists no tensors.
    pub fn clips(&self) -> Vec<f64> {
        let bound = |tensor: &Tensor| tensor.bound(self.rule);
        self.tensors.iter().map(bound).collect()
    }

    /// Bytes of [`UpdateHistory::to_bytes`].
    pub fn encoded_len(&self) -> usize {
        5 + 24 * self.tensors.len()
    }

    /// The encoded history: a version byte (2), the number of tensors (4 bytes, big-endian), and of each
    /// its average power and its peak (IEEE 754 double precision, big-endian), how many bounds were too small, and for how
    /// many more rounds its bound is that of the job because of that (4 bytes each, big-endian).
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        bytes.push(VERSION);
        bytes.extend((self.tensors.len() as u32).to_be_bytes());
        for tensor in &self.tensors {
            bytes.extend(tensor.power.to_be_bytes());
            bytes.extend(tensor.peak.to_be_bytes());
            bytes.extend(tensor.reached.to_be_bytes());
            bytes.extend(tensor.rest.to_be_bytes());
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
        let (head, numbers) = bytes.split_at(5);
        if !empty.starts_with(head) {
            return Err(refused("it is of another version or job".into()));
        }
        let (numbers, _) = numbers.as_chunks::<8>();
        let mut numbers = numbers.iter().copied();
        for tensor in &mut history.tensors {
            for part in [&mut tensor.power, &mut tensor.peak] {
                *part = numbers.next().map_or(f64::NAN, f64::from_be_bytes);
                if !part.is_finite() || part.is_sign_negative() {
                    return Err(refused("a number must be finite and not below 0".into()));
                }
            }
            let counts = u64::from_be_bytes(numbers.next().unwrap_or_default());
            (tensor.reached, tensor.rest) = ((counts >> 32) as u32, counts as u32);
            if tensor.rest > rest_after(tensor.reached) {
                return Err(refused(format!(
                    "after {} bounds that were too small the bound is the job's for {} rounds at most",
                    tensor.reached,
                    rest_after(tensor.reached)
                )));
            }
            if tensor.power > 0.0 && tensor.peak == 0.0 {
                return Err(refused(
                    "a peak must not be 0 where the power is not".into(),
                ));
            }
        }
        Ok(history)
    }

    fn dim(&self) -> usize {
        self.tensors.iter().map(|tensor| tensor.len).sum()
    }

    /// The largest that a party's coordinate may be, over that of the mean.
    fn scale(&self, of: Averaged) -> f64 {
        let others = (of.survivors as u64).saturating_sub(1);
        let heaviest = others.saturating_mul(self.max_weight.into());
        let lightest = of.total_weight.saturating_sub(heaviest).max(1);
        of.total_weight as f64 / lightest as f64
    }

    /// What a mean tells of each tensor, by a function of its first coordinate and its values.
    fn each<R: Real>(
        &self,
        mean: &[R],
        observe: impl Fn(usize, &[R]) -> Option<Observed>,
    ) -> Result<Vec<Option<Observed>>, EncodeError> {
        let (got, dim) = (mean.len(), self.dim());
        if got != dim {
            return Err(EncodeError::Dim { got, dim });
        }
        let is_single = |value: &R| (value.to_f64() as f32).is_finite();
        if let Some(index) = mean.iter().position(|value| !is_single(value)) {
            return Err(EncodeError::NotFinite { index });
        }
        let (mut first, mut observed) = (0, Vec::with_capacity(self.tensors.len()));
        for tensor in &self.tensors {
            observed.push(observe(first, &mean[first..first + tensor.len]));
            first += tensor.len;
        }
        Ok(observed)
    }

    fn add(&mut self, observed: &[Option<Observed>]) {
        for (tensor, observed) in self.tensors.iter_mut().zip(observed) {
            if let Some(observed) = observed {
                tensor.add(*observed, self.rule);
            }
        }
    }
}

impl Tensor {
    /// The bound of the next round.
    fn bound(&self, rule: Rule) -> f64 {
        if self.peak == 0.0 || self.rest > 0 {
            return self.clip;
        }
        let wanted = (rule.factor * self.power.sqrt()).max(2.0 * self.peak);
        wanted.clamp(self.clip * NARROWEST, self.clip)
    }

    /// Adds a round.
    fn add(&mut self, observed: Observed, rule: Rule) {
        let Observed { power, peak, .. } = observed;
        let bound = self.bound(rule);
        let known = if peak == 0.0 {
            match rule.rounding {
                Rounding::Stochastic => (self.power, self.peak),
                Rounding::Nearest => (self.power / 4.0, bound / 4.0),
            }
        } else if peak < REACHED * bound {
            let average = match self.power {
                0.0 => power,
                before => (before + power) / 2.0,
            };
            (average, peak.max(self.peak / 2.0))
        } else {
            let without_rounding = peak - observed.roundings * rule.rounds_up * bound;
            if bound < self.clip && without_rounding >= REACHED * bound {
                self.reached = self.reached.saturating_add(1);
                // This round is taken off below.
                self.rest = rest_after(self.reached) + 1;
            }
            (0.0, 0.0)
        };
        self.rest = self.rest.saturating_sub(1);
        (self.power, self.peak) = known;
    }
}

/// The most that rounding adds to a coordinate, as a part of its bound: a step, or half of one.
fn rounds_up(bits: u32, rounding: Rounding) -> f64 {
    let levels = f64::powi(2.0, bits as i32);
    match rounding {
        Rounding::Stochastic => 2.0 / (levels - 1.0),
        Rounding::Nearest => 1.0 / (levels - 2.0),
    }
}

/// For how many rounds the bound is the job's after this many bounds were too small: 8 * 4^k.
fn rest_after(reached: u32) -> u32 {
    match reached {
        0 => 0,
        k => 8 << (2 * k.min(12)),
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
