//! A round in the clear: what one vector adds to the sum, and what the sum must be.

use std::collections::BTreeMap;

use blindsum_encode::{
    EncodeError, EncodeReport, Encoder, Encoding, EncodingKind, Reals, Rounding, UpdateHistory,
};
use blindsum_job::Model;
use blindsum_job::party::RoundResult;
use blindsum_job::report::MetricReport;
use blindsum_job::results::LearntResult;
use blindsum_math::words::Words;
use blindsum_protocol::{InTheClear, Job, JobSpec, PartyId, ProtocolChoice, Round, RuleName};

use super::leftovers::Choice;
use super::steps::state_of;
use super::updates::{Gift, other_seed};
use crate::metrics::MetricTotals;
use crate::weighted::Weighted;
use crate::words::words_of;

/// What a caller gave, as it goes into a sum.
pub(super) struct Share {
    /// Its words, `[lanes]`.
    words: Vec<u64>,
    weight: u64,
    metrics: MetricTotals,
    /// The update itself, where rounds are dense.
    plain: Option<Weighted>,
    /// What clipping did to it.
    pub report: EncodeReport,
    /// Which coordinates of it were sent, where rounds are sparse.
    pub choice: Option<Choice>,
}

impl Share {
    /// Of a dense round.
    pub fn dense(
        job: &Job,
        encoding: &Encoding,
        gift: &Gift,
        metrics: &[Option<f64>],
    ) -> Result<Self, EncodeError> {
        let (values, weight) = (gift.update.values(), gift.weight);
        let encoder = Encoder::new(encoding, values, weight, other_seed())?;
        let encoder = encoder.with_metrics(&encoding.metric_levels(metrics)?);
        let mut plain = Weighted::nothing(job.spec());
        plain.add(encoding, values, weight, None);
        Ok(Self {
            words: words_of(encoding, &encoder)?,
            weight: weight.into(),
            metrics: MetricTotals::of(job, metrics, weight.into()),
            plain: Some(plain),
            report: encoder.report(),
            choice: None,
        })
    }

    /// Of a sparse round: what is chosen of an update and of what was left before it.
    pub fn sparse(job: &Job, choice: Choice, metrics: &[Option<f64>]) -> Self {
        let mut words = vec![0; job.encoding().lanes()];
        for (place, word) in choice.places.iter().zip(&choice.words) {
            words[*place as usize] = *word;
        }
        Self {
            words,
            weight: 1,
            metrics: MetricTotals::of(job, metrics, 1),
            plain: None,
            report: choice.report,
            choice: Some(choice),
        }
    }
}

/// The sum of some shares.
#[derive(Clone)]
pub(super) struct Total {
    words: Vec<u64>,
    counts: Vec<u32>,
    plain: Option<Weighted>,
    weight: u64,
    metrics: MetricTotals,
    survivors: usize,
    /// The words of each, where the result is no sum.
    vectors: Option<Vec<Vec<u64>>>,
    /// Which of its shares each survivor added.
    pub picks: Vec<usize>,
}

impl Total {
    pub fn nothing(job: &Job) -> Self {
        Self {
            words: vec![0; job.lanes()],
            counts: vec![0; job.lanes()],
            plain: job
                .density()
                .is_none()
                .then(|| Weighted::nothing(job.spec())),
            weight: 0,
            metrics: MetricTotals::default(),
            survivors: 0,
            vectors: is_ruled(job.spec()).then(Vec::new),
            picks: Vec::new(),
        }
    }

    /// The same with one survivor more.
    pub fn with(&self, share: &Share, pick: usize, mask: u64) -> Self {
        let mut total = self.clone();
        for (sum, word) in total.words.iter_mut().zip(&share.words) {
            *sum = sum.wrapping_add(*word) & mask;
        }
        let sent = share.choice.iter().flat_map(|choice| &choice.places);
        for d in sent {
            total.counts[*d as usize] += 1;
        }
        if let (Some(sum), Some(plain)) = (&mut total.plain, &share.plain) {
            sum.merge(plain);
        }
        if let Some(vectors) = &mut total.vectors {
            vectors.push(share.words.clone());
        }
        total.weight += share.weight;
        total.metrics.add(&share.metrics);
        total.survivors += 1;
        total.picks.push(pick);
        total
    }

    /// Whether these are the metrics of its shares.
    pub fn has_metrics(&self, job: &Job, told: &BTreeMap<String, MetricReport>) -> bool {
        let least = job.spec().least_contributors() as usize;
        let metrics = match job.density().is_some() && self.survivors < least {
            true => self.metrics.closed(),
            false => self.metrics.clone(),
        };
        metrics.told(job, self.weight) == *told
    }

    /// Whether this mean is what the rule of a job makes of these shares, in a round of their parties alone. Where rounding
    /// is random nothing is known of that.
    pub fn is_ruled(&self, round: &Round, mean: impl Iterator<Item = f64>) -> bool {
        let encoding = round.encoding();
        let pack = |(rank, words): (u32, &Vec<u64>)| {
            let words = Words::from_values(encoding.width(), words).ok()?;
            Some((PartyId(rank), words))
        };
        let vectors = (0..).zip(self.vectors.iter().flatten());
        let encoded: Vec<_> = vectors.filter_map(pack).collect();
        let Some(InTheClear {
            mean: expected,
            error,
        }) = round.in_the_clear(&encoded)
        else {
            return false;
        };
        let clips = encoding.tensors().map(|(_, clip)| clip);
        let off = error + clips.fold(0.0, f64::max) * f64::powi(2.0, -24);
        let mut pairs = expected.iter().zip(mean);
        tolerance(round.job(), encoding) > 0.0 || pairs.all(|(a, b)| (a - b).abs() <= off)
    }

    /// Whether this is what a party was told.
    pub fn is_told_by(&self, job: &Job, encoding: &Encoding, result: &RoundResult) -> bool {
        let Ok(words) = Words::from_values(encoding.width(), &self.words) else {
            return false;
        };
        let (dim, mut mean) = (encoding.dim(), vec![0.0; encoding.dim()]);
        let decoded = match job.density() {
            None => encoding
                .decode_mean(&words, self.survivors, &mut mean)
                .is_ok(),
            Some(_) => {
                let least = job.spec().least_contributors();
                let of = (least, job.spec().divisor(self.survivors));
                let decoded = encoding.decode_sparse_mean(&words, &self.counts, of, &mut mean);
                let counts = result.contributors.as_deref();
                decoded.is_ok() && counts == Some(&self.counts[..dim])
            }
        };
        let mut sums = vec![0; dim];
        let exact = match &result.sums {
            None => job.spec().encoding.integer_bits().is_none(),
            Some(told) => {
                let decoded = encoding.decode_sums(&words, self.survivors, &mut sums);
                decoded.is_ok() && *told == sums
            }
        };
        let off = tolerance(job, encoding);
        let mean = Reals::Double(mean).in_precision(encoding.precision());
        let mut pairs = mean.iter().zip(result.mean.iter());
        let near = |(a, b): (f64, f64)| (a - b).abs() <= off;
        let same = mean.len() == result.mean.len() && pairs.all(near);
        // What is summed up here rounds, too.
        let off = encoding.rounding_error() * (1.0 + 1e-9);
        let weight = self.weight as f64;
        let plain = self.plain.as_ref().is_none_or(|plain| match plain {
            Weighted::Integers(sums) => result.sums.as_ref() == Some(sums),
            Weighted::Reals(sums) => {
                let mut means = sums.iter().zip(result.mean.iter());
                means.all(|(sum, mean)| (sum / weight - mean).abs() <= off)
            }
        });
        decoded && exact && plain && same && self.weight == result.total_weight
    }

    /// Whether the model after the round that started from another one has the history that follows from these words.
    pub fn leads_to(&self, job: &Job, (start, after): (&Model, &Model)) -> Result<bool, String> {
        let Some(mut history) = history_of(job, start)? else {
            return Ok(true);
        };
        let encoding = encoding_of(job, start)?;
        let words = Words::from_values(encoding.width(), &self.words).map_err(|e| e.to_string())?;
        let least = job.spec().least_contributors();
        let is_open = |word: usize| job.density().is_none() || self.counts[word] >= least;
        let reached = encoding
            .reached(&words, is_open)
            .map_err(|e| e.to_string())?;
        history.observe(&reached).map_err(|e| e.to_string())?;
        Ok(history_of(job, after)? == Some(history))
    }

    /// Whether this is what a server learnt of a dense round.
    pub fn is_learnt_by(&self, job: &Job, encoding: &Encoding, learnt: &LearntResult) -> bool {
        let Ok(words) = Words::from_values(encoding.width(), &self.words) else {
            return false;
        };
        let (mut mean, mut sums) = (vec![0.0f64; encoding.dim()], vec![0; encoding.dim()]);
        let decoded = encoding.decode_mean(&words, self.survivors, &mut mean);
        let exact = learnt.sums.as_ref().is_none_or(|told| {
            let decoded = encoding.decode_sums(&words, self.survivors, &mut sums);
            decoded.is_ok() && *told == sums
        });
        let off = tolerance(job, encoding);
        let mut pairs = mean.iter().zip(&learnt.mean);
        let same = mean.len() == learnt.mean.len() && pairs.all(|(a, b)| (a - b).abs() <= off);
        decoded.is_ok() && exact && same
    }
}

/// Whether the servers of a job make something else than the sum of its vectors.
pub(super) fn is_ruled(spec: &JobSpec) -> bool {
    match &spec.protocol {
        ProtocolChoice::Mpc3(options) => {
            let adds = matches!(options.rule, RuleName::FedAvg | RuleName::Weighted);
            !adds || options.noise > 0.0
        }
        _ => false,
    }
}

/// How far a mean may be off: not at all, but for the random bits of rounding that are not known here.
fn tolerance(job: &Job, encoding: &Encoding) -> f64 {
    match job.spec().encoding.kind() {
        EncodingKind::Quantised {
            rounding: Rounding::Stochastic,
            ..
        } => 2.0 * encoding.rounding_error(),
        _ => 0.0,
    }
}

/// The encoding of a round that starts from a model.
pub(super) fn encoding_of(job: &Job, model: &Model) -> Result<Encoding, String> {
    match history_of(job, model)? {
        None => Ok(Encoding::clone(job.encoding())),
        Some(history) => {
            let bound = job.encoding().with_clips(&history.clips());
            bound.map_err(|e| e.to_string())
        }
    }
}

/// What earlier rounds told of updates, where the job's bounds follow from that.
fn history_of(job: &Job, model: &Model) -> Result<Option<UpdateHistory>, String> {
    if job.new_history().is_none() {
        return Ok(None);
    }
    let bytes = model.to_bytes();
    let from = model.values().len() * job.encoding().precision().bytes();
    let state = state_of(job, model).len() * job.encoding().precision().bytes();
    let history = &bytes[from..bytes.len() - state];
    let history = UpdateHistory::from_bytes(job.encoding(), history);
    history.map(Some).map_err(|e| e.to_string())
}
