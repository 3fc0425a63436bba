//! Noise that the servers add to each component of what is shown: what a job may ask for, and how much it is.
//!
//! A job says it as a multiple of the longest vector, by the option `noise`; or it asks for a guarantee, by the table
//! `privacy`, from which the noise follows.

use blindsum_encode::{Precision, measured_by_norm};
use blindsum_mpc::rules::clipped_norm;
use blindsum_mpc::{FRACTION, Gaussian, MpcError};
use blindsum_privacy::{Mechanism, PrivacyError, ServerNoise};

use super::lengths::Lengths;
use super::options::{Mpc3, RuleName};
use crate::core::noise_rule::{NoiseRule, Sensitivity};
use crate::{Job, JobSpec, SpecError};

/// Standard deviations of one component within which the noise of all three lies.
const NOISE_ROOM: f64 = 64.0;

/// By what factor rounding may lift the norm of a vector.
const MOST_GROWTH: f64 = 1.1;

/// Noise of each component.
pub(super) struct Noise {
    amount: Amount,
    /// The longest vector in units of what is shown.
    longest: f64,
    /// Bits behind the point of what is shown.
    fraction: u32,
}

/// How much it is.
enum Amount {
    /// This multiple of the longest vector.
    Multiple(f64),
    /// As much as a guarantee asks for.
    Accounted(ServerNoise),
}

impl Noise {
    /// None where the job has none.
    pub fn of(job: &Job, lengths: &Lengths) -> Option<Self> {
        let options = Mpc3::of(job.spec());
        let accounted = job.privacy().and_then(|privacy| privacy.of_servers());
        let amount = match (accounted, options.noise) {
            (Some(noise), _) => Amount::Accounted(*noise),
            (None, 0.0) => return None,
            (None, multiple) => Amount::Multiple(multiple),
        };
        let (longest, fraction) = match options.rule {
            // Weights have bits behind the point.
            RuleName::Clipped => (lengths.clip() << FRACTION, FRACTION),
            _ => (lengths.longest(), 0),
        };
        Some(Self {
            amount,
            longest: longest as f64,
            fraction,
        })
    }

    /// Noise that can be drawn.
    pub fn gaussian(&self) -> Result<Gaussian, MpcError> {
        match &self.amount {
            Amount::Multiple(_) => Gaussian::of_deviation(self.deviation()),
            Amount::Accounted(noise) => Ok(Gaussian::accounted(noise)),
        }
    }

    /// The standard deviation of one component, in units of what is shown.
    fn deviation(&self) -> f64 {
        match &self.amount {
            Amount::Multiple(multiple) => multiple * self.longest,
            Amount::Accounted(noise) => {
                let variance = noise.variance();
                let steps = variance.numerator() as f64 / variance.denominator() as f64;
                steps.sqrt() * (1_u64 << noise.shift()) as f64
            }
        }
    }

    /// The same in units of what is shared.
    pub fn deviation_of_shared(&self) -> f64 {
        self.deviation() / (1_u64 << self.fraction) as f64
    }

    /// Leaves room for noise beside the sum. `metrics` says whether the job has any.
    pub fn check(&self, job: &Job, lengths: &Lengths, metrics: bool) -> Result<(), SpecError> {
        let spec = job.spec();
        let (field, amount) = match &self.amount {
            Amount::Multiple(multiple) => ("noise", *multiple),
            Amount::Accounted(noise) => ("noise_multiplier", noise.spec().multiplier.value()),
        };
        let refused =
            |what: String| Err(SpecError::new(field, format!("{field} = {amount}{what}")));
        // guard: no-metrics-beside-noise
        if metrics {
            let what = format!(
                "must be empty with {field} = {amount} of rule = {}: sums of metrics are exact, and would reveal \
                 what the noise hides",
                Mpc3::of(spec).rule
            );
            return Err(SpecError::new("metrics", what));
        }
        if !spec.encoding.tensors().is_empty() {
            let what = "must be empty with noise, which is as large for all coordinates";
            return Err(SpecError::new("tensors", what));
        }
        let deviation = self.deviation();
        if self.gaussian().is_err() {
            return refused(format!(
                ", which is a standard deviation of {deviation:.3e} in shared units, but it must be from 1 to 2^56"
            ));
        }
        // Noise beyond 64 standard deviations, of three components, has a probability below 2^-1000.
        let most = self.longest * f64::from(spec.parties) + NOISE_ROOM * deviation;
        // guard: noise-has-room
        if most >= 2f64.powi(62) {
            return refused(format!(
                ": the sum with its noise is up to {most:.3e}, but it must be below 2^62: choose fewer bits"
            ));
        }
        let of_mean = self.longest + NOISE_ROOM * deviation / job.min_parties() as f64;
        let unit = 1.0 / (1_u64 << self.fraction) as f64 / lengths.top() as f64 * lengths.bound();
        let (mean, largest) = (of_mean * unit, f64::from(f32::MAX));
        // guard: means-with-noise-are-singles
        match job.encoding().precision() == Precision::Single && mean > largest {
            true => refused(format!(
                ": a mean with its noise is up to {mean:.3e}, but it must be at most {largest:.3e}, which is the largest \
                 float32: choose a smaller clip or less noise"
            )),
            false => Ok(()),
        }
    }
}

/// Whose noise a job may have.
pub(super) fn rule(spec: &JobSpec) -> NoiseRule {
    let options = Mpc3::of(spec);
    let rule = options.rule;
    if !matches!(rule, RuleName::FedAvg | RuleName::Clipped) {
        let why = format!("rule {rule} has no noise; choose rule = fedavg or clipped");
        return NoiseRule::Refused(why);
    }
    // guard: noise-is-asked-for-once
    if options.noise > 0.0 {
        let why = format!(
            "protocol.noise = {} asks for noise of the servers, and privacy does too; say either noise or privacy",
            options.noise
        );
        return NoiseRule::Refused(why);
    }
    let mechanism = spec.privacy.noise().map(|noise| noise.mechanism);
    if mechanism == Some(Mechanism::Skellam) {
        let why = "must be discrete-gaussian with mpc3, is skellam: its servers draw no other noise; choose discrete-gaussian";
        return NoiseRule::Refused(why.into());
    }
    NoiseRule::OfServers(sensitivity)
}

/// How far the vector of a party moves what is shown.
fn sensitivity(spec: &JobSpec) -> Result<Sensitivity, SpecError> {
    let (bits, _) = measured_by_norm(spec.encoding.kind(), spec.encoding.max_weight())?;
    let lengths = Lengths::of(spec);
    let lengths = lengths.ok_or_else(|| SpecError::new("encoding", "must be quantised"))?;
    let (norm, top) = (Mpc3::of(spec).norm, lengths.top() as f64);
    let unit = lengths.bound() / top;
    let is_gated = Mpc3::of(spec).rule == RuleName::Clipped;
    // guard: vectors-move-the-sum-by-their-own-norm
    let longest = lengths.longest_of_party();
    let shortened = match is_gated {
        true => clipped_norm(lengths.clip(), longest),
        false => longest,
    };
    // The servers shorten to a norm that does not depend on rounding.
    let clip = if norm > 0.0 { norm } else { lengths.bound() };
    let fraction = if is_gated { FRACTION } else { 0 };
    let growth = shortened as f64 / (1_u64 << fraction) as f64 / (clip / unit);
    // guard: rounding-of-levels-lifts-a-norm-by-a-tenth-at-most
    if growth > MOST_GROWTH {
        let enough = (bits..=32).find(|&bits| lengths.with_bits(bits).growth() <= MOST_GROWTH);
        let advice = match enough {
            Some(bits) => format!("bits >= {bits} would do"),
            None => "dim is too large for any bits".into(),
        };
        return Err(PrivacyError::Growth { growth, advice }.into());
    }
    Ok(Sensitivity {
        norm: shortened,
        growth,
        clip,
        unit: unit / (1_u64 << fraction) as f64,
        even: fraction,
        is_gated,
    })
}
