//! What follows from a job's rule: what the servers compute of the vectors that are shared, and what a result means.
//!
//! A vector of zeros has no direction. As a root it counts as a vector of equal coordinates with the norm
//! [`SHORTEST_ROOT`].
//!
//! A result has a word for each coordinate, a sum of weights with 28 bits behind the point, the bits of a double by which
//! everything is divided as well, and the words of the metrics.
//!
//! Metrics are no part of what a rule computes. Their words are shared as they are and added up over all survivors, so they
//! neither decide which vectors count, nor show whose do.

use blindsum_encode::ClipSpec;
use blindsum_math::words::{Width, Words};
use blindsum_mpc::rules::{Bounds, Clear, Rule, Trusted, total_of};
use blindsum_mpc::{FRACTION, Gate, MpcError, Vectors};

use super::is_active;
use super::lengths::Lengths;
use super::noise::Noise;
use super::options::{Mpc3, RuleName, TrustName};
use crate::core::round::{InTheClear, Signed};
use crate::{Fault, FaultKind, Job, JobSpec, PartyId, Round, ServerIndex, SpecError};

/// How much shorter than the longest vector a clip may be, so that weights are right to a hundredth of it.
const SHORTEST_CLIP: f64 = 1024.0;
/// The least clip in units of what is shared, so that rounding to whole numbers does not show.
const MIN_CLIP: f64 = 16.0;
/// Standard deviations of one component within which the noise of all three lies where results are compared with the rule in
/// the clear.
const NOISE_SEEN: f64 = 24.0;
/// The norm of a root of zeros, in units of what is shared: so short that nothing is seen of a vector of its length, and
/// not 0, as results are divided by it.
pub(super) const SHORTEST_ROOT: f64 = 1.0 / (1_u64 << 40) as f64;
/// Words of a result behind those of its coordinates.
const TAIL: usize = 2;

/// The rule of a job whose servers do more than add.
pub(super) struct Weighing {
    pub options: Mpc3,
    pub lengths: Lengths,
    /// What is added to each component of what is shown.
    pub noise: Option<Noise>,
    bad: usize,
    dim: usize,
    /// Words of the metrics behind the coordinates.
    metrics: usize,
    verifies: bool,
}

/// The vector that the others are compared with, as a server holds it.
pub(super) struct Root {
    pub unit: Vectors,
    pub norm: f64,
}

impl Weighing {
    /// None where the servers only add.
    pub fn of(job: &Job) -> Option<Self> {
        let spec = job.spec();
        let options = Mpc3::of(spec);
        let lengths = Lengths::of(spec)?;
        (!options.is_sum(spec)).then(|| Self {
            noise: Noise::of(job, &lengths),
            lengths,
            bad: options.bad(spec),
            dim: spec.dim as usize,
            metrics: job.encoding().metric_words(),
            verifies: is_active(job),
            options,
        })
    }

    /// What is shared at a lane: of a coordinate [its number](Lengths::shared), of a metric the word itself.
    pub fn shared_at(&self, lane: usize, word: u64) -> u64 {
        match lane < self.dim {
            true => self.lengths.shared(word),
            false => word,
        }
    }

    /// Takes the words of the metrics from behind those of the coordinates.
    pub fn split_metrics(&self, vector: &mut [Vec<u64>; 2]) -> [Vec<u64>; 2] {
        vector
            .each_mut()
            .map(|part| part.split_off(self.dim.min(part.len())))
    }

    /// Words of an upload: of coordinates and metrics.
    pub fn upload_words(&self) -> usize {
        self.dim + self.metrics
    }

    /// Words of a result.
    pub fn result_words(&self) -> usize {
        self.upload_words() + TAIL
    }

    /// A coordinate of what a root of zeros counts as.
    pub fn zero_root(&self) -> f64 {
        SHORTEST_ROOT / (self.dim as f64).sqrt()
    }

    /// B: the norm that no honest vector exceeds, in units of what is shared.
    pub fn longest(&self) -> u64 {
        self.lengths.longest()
    }

    /// The gate that keeps longer vectors out, with the coin that its rows are drawn from.
    pub fn bounds(&self, coin: [u8; 32]) -> Result<Bounds, MpcError> {
        Ok(Bounds::gated(Gate::new(self.longest(), coin)?))
    }

    /// Whether there is such a gate.
    pub fn is_gated(&self) -> bool {
        !self.options.rule.sorts() && self.options.rule != RuleName::FedAvg
    }

    /// What the servers compute.
    pub fn rule<'a>(&self, root: Option<&'a Root>) -> Rule<'a> {
        let bad = self.bad;
        match self.options.rule {
            RuleName::FlTrust => Rule::FlTrust {
                trusted: match root {
                    Some(Root { unit, norm }) => Trusted::Uploaded { unit, norm: *norm },
                    None => Trusted::Known(&[]),
                },
                hide_total: self.options.trust == TrustName::Hidden,
            },
            RuleName::Krum => Rule::Krum { bad, keep: Some(1) },
            RuleName::MultiKrum => Rule::Krum { bad, keep: None },
            RuleName::Cosine => Rule::Unlike,
            RuleName::Median => Rule::Median {
                bits: self.lengths.bits() as usize,
            },
            RuleName::TrimmedMean => Rule::Trimmed {
                bits: self.lengths.bits() as usize,
                trim: bad,
            },
            RuleName::Clipped => Rule::Clipped {
                clip: self.lengths.clip(),
            },
            RuleName::FedAvg | RuleName::Weighted => Rule::Mean,
        }
    }

    /// Bytes of the largest letter of servers that compute with so many vectors.
    pub fn largest_letter(&self, vectors: usize) -> u64 {
        self.rule(None)
            .largest_letter(vectors, self.upload_words(), self.verifies)
    }

    /// Bytes that a server holds at most with so many vectors.
    pub fn memory(&self, vectors: usize) -> u64 {
        let words = self.upload_words();
        self.rule(None).memory(vectors, words, self.verifies)
    }

    /// The party whose vector is the root, if the rule has one.
    ///
    /// # Errors
    /// [`FaultKind::Parameters`]: it is not in the round.
    pub fn root(&self, round: &Round) -> Result<Option<PartyId>, Fault> {
        if self.options.rule != RuleName::FlTrust {
            return Ok(None);
        }
        let name = &self.options.root;
        let members = round.roster().members();
        match members.iter().position(|member| member.name == *name) {
            Some(rank) => Ok(Some(PartyId(rank as u32))),
            None => {
                let rule =
                    format!("{name}, with whose vector the others are compared, is not in it");
                Err(Fault::nobody(FaultKind::Parameters(rule)))
            }
        }
    }

    /// What stands behind the coordinates: the sum of weights, and what everything is divided by as well.
    fn tail(&self, result: &Words) -> Option<(u64, f64)> {
        (result.len() == self.result_words()).then(|| {
            let divisor = f64::from_bits(result.get(self.dim + 1));
            (result.get(self.dim), divisor)
        })
    }

    /// The result as it is told, from what the servers were shown: coordinates, the sum of weights where there is one, and
    /// metrics.
    pub fn result(&self, shown: Vec<u64>, divisor: f64) -> Result<Words, FaultKind> {
        self.told(shown, 1 << FRACTION, divisor.to_bits())
    }

    /// What was shown with the divisor, and with `one` where there is no sum of weights.
    fn told(&self, mut shown: Vec<u64>, one: u64, divisor: u64) -> Result<Words, FaultKind> {
        if shown.len() == self.dim + self.metrics {
            shown.insert(self.dim, one);
        }
        shown.insert(self.dim + 1, divisor);
        let malformed = |e: blindsum_math::MathError| FaultKind::malformed("sum", e.to_string());
        Words::from_values(Width::WIDEST, &shown).map_err(malformed)
    }

    /// The components of the result that server `me` has, as parties are told them: what is known is in component 0.
    pub fn components(
        &self,
        me: ServerIndex,
        [own, next]: [Vec<u64>; 2],
        divisor: f64,
    ) -> Result<[Words; 2], FaultKind> {
        let component = |words: Vec<u64>, number: u8| {
            let known = |word: u64| if number == 0 { word } else { 0 };
            self.told(words, known(1 << FRACTION), known(divisor.to_bits()))
        };
        Ok([
            component(own, me.number())?,
            component(next, me.next().number())?,
        ])
    }

    /// Refuses what the servers cannot compute for every number of parties that a round may have.
    pub fn check(&self, job: &Job) -> Result<(), SpecError> {
        let spec = job.spec();
        let rule = self.options.rule;
        let needs = |field, what: String| Err(SpecError::new(field, what));
        if spec.encoding.max_weight() > 1 {
            let what =
                format!("max_weight must be 1 with rule = {rule}: the servers find the weights");
            return needs("max_weight", what);
        }
        let bounds = match self.is_gated() {
            true => self.gated(spec)?,
            // Nothing is asked of norms.
            false => Bounds::new(15).map_err(|e| SpecError::new("rule", e.to_string()))?,
        };
        if let Some(noise) = &self.noise {
            noise.check(job, &self.lengths, self.metrics > 0)?;
        }
        for count in [job.min_parties(), spec.parties as usize] {
            let vectors = count - usize::from(rule == RuleName::FlTrust);
            let checked = self
                .rule(None)
                .check((vectors, self.dim), bounds, self.verifies);
            checked.map_err(|error| {
                let field = match rule {
                    RuleName::Krum | RuleName::MultiKrum => "parties",
                    _ => "rule",
                };
                let what = format!("{rule} of {vectors} vectors: {error}");
                SpecError::new(field, what)
            })?;
        }
        Ok(())
    }

    /// How long vectors are where the rule looks at norms.
    fn gated(&self, spec: &JobSpec) -> Result<Bounds, SpecError> {
        let rule = self.options.rule;
        if !spec.encoding.tensors().is_empty() {
            let what = format!("must be empty with rule = {rule}, which looks at norms");
            return Err(SpecError::new("tensors", what));
        }
        let (norm, longest) = (self.options.norm, self.longest());
        let least = (longest as f64 / SHORTEST_CLIP).max(MIN_CLIP) / self.lengths.top() as f64
            * self.lengths.bound();
        if norm > 0.0 && norm < least {
            let what = format!("{least} <= norm = {norm} must hold: weights are no finer");
            return Err(SpecError::new("norm", what));
        }
        if norm > 0.0 && norm / self.lengths.bound() * self.lengths.top() as f64 > longest as f64 {
            let most = longest as f64 / self.lengths.top() as f64 * self.lengths.bound();
            let what = format!("norm = {norm} <= {most} must hold: no vector is longer");
            return Err(SpecError::new("norm", what));
        }
        self.bounds([0; 32]).map_err(|_| {
            let (what, way_out) = match self.lengths.bound_of_vectors() {
                ClipSpec::L2(_) => ("2^bits + 2 * sqrt(dim)", ""),
                ClipSpec::Sent { .. } => (
                    "2^bits * min(sqrt(dim), max_norm / clip)",
                    ", or a smaller max_norm",
                ),
                ClipSpec::Tensor(_) => ("2^bits * sqrt(dim)", ", or clipping = l2"),
            };
            let what = format!(
                "{what} = {longest} <= 2^24 must hold with rule = {rule}: choose fewer bits{way_out}"
            );
            SpecError::new("bits", what)
        })
    }
}

/// What the words of a job's result mean; none where they are sums as the encoding makes them.
pub(super) fn signed(job: &Job, result: &Words) -> Option<Signed> {
    let weighing = Weighing::of(job)?;
    let (total, divisor) = weighing.tail(result).unwrap_or((1 << FRACTION, f64::NAN));
    let Signed { factor, offset } = weighing.lengths.scale();
    let factor = match total_of(total) {
        Some(total) => factor / (total * divisor),
        None => 0.0,
    };
    Some(Signed { factor, offset })
}

/// Refuses a result that no honest servers come to.
pub(super) fn check_result(job: &Job, result: &Words) -> Result<(), FaultKind> {
    let Some(weighing) = Weighing::of(job) else {
        return Ok(());
    };
    let divisor = weighing.tail(result).map(|(_, divisor)| divisor);
    match divisor.is_some_and(|divisor| divisor.is_normal() && divisor > 0.0) {
        true => Ok(()),
        false => {
            let rule = format!("is {divisor:?}, but it must be a number above 0");
            Err(FaultKind::malformed("divisor", rule))
        }
    }
}

/// Whether results are sums of what parties encode.
pub(super) fn is_sum(job: &Job) -> bool {
    Weighing::of(job).is_none()
}

/// What the rule makes of vectors that are known.
pub(super) fn in_the_clear(round: &Round, encoded: &[(PartyId, Words)]) -> Option<InTheClear> {
    let weighing = Weighing::of(round.job())?;
    let root = weighing.root(round).ok()?;
    let numbers = |words: &Words| -> Vec<i64> {
        let words = words.iter().take(weighing.dim);
        words
            .map(|level| weighing.lengths.shared(level).cast_signed())
            .collect()
    };
    let is_root = |party: &PartyId| Some(*party) == root;
    let others = encoded.iter().filter(|(party, _)| !is_root(party));
    let vectors: Vec<Vec<i64>> = others.map(|(_, words)| numbers(words)).collect();
    let root = encoded.iter().find(|(party, _)| is_root(party));
    let root: Vec<f64> = root.map_or_else(Vec::new, |(_, words)| {
        let root: Vec<f64> = numbers(words).into_iter().map(|it| it as f64).collect();
        match root.iter().any(|it| *it != 0.0) {
            true => root,
            false => vec![weighing.zero_root(); weighing.dim],
        }
    });
    let rule = match weighing.rule(None) {
        Rule::FlTrust { hide_total, .. } => Rule::FlTrust {
            trusted: Trusted::Known(&root),
            hide_total,
        },
        rule => rule,
    };
    let Clear { mean, mut error } = rule.in_the_clear(&vectors);
    if let Some(noise) = &weighing.noise {
        error += NOISE_SEEN * noise.deviation_of_shared() / vectors.len().max(1) as f64;
    }
    let Signed { factor, offset } = weighing.lengths.scale();
    let mut scaled = InTheClear { mean, error: 0.0 };
    for (run, clip) in round.encoding().tensors() {
        for mean in scaled.mean.get_mut(run).unwrap_or_default() {
            *mean = clip * (*mean * factor + offset);
        }
        scaled.error = scaled
            .error
            .max(clip * (error * factor + 16.0 * f64::EPSILON));
    }
    Some(scaled)
}
