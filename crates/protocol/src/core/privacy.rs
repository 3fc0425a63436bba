//! The differential privacy of a job: how much noise its updates have, and what that guarantees.

use blindsum_encode::{Encoding, NoiseShare};
use blindsum_privacy::accounting::check_draws;
use blindsum_privacy::{
    Adjacency, Mechanism, Multiplier, PrivacyError, RenyiCurve, Sizes, Spent, SquaredMu,
    least_multiplier,
};

use crate::core::spec::privacy::NoiseOptions;
use crate::{JobSpec, SpecError};

/// A target that the found multiplier may miss by this: functions of doubles differ a little among machines.
const SLACK: f64 = 1e-6;

/// The differential privacy of a checked job.
#[derive(Clone, Debug, PartialEq)]
pub struct Privacy {
    sizes: Sizes,
    delta: f64,
    target: Option<f64>,
    releases: Option<u64>,
}

impl From<PrivacyError> for SpecError {
    fn from(error: PrivacyError) -> Self {
        Self::new(error.field(), error.to_string())
    }
}

impl JobSpec {
    /// m: the survivors of a round that are sure to be honest, and give noise that nobody else knows. 1 if a party has only
    /// its own noise to rely on.
    fn noisy_survivors(&self) -> usize {
        match (self.info().noise)(self) {
            NoiseRule::OfAll => self
                .least_survivors()
                .saturating_sub(self.corrupt_parties()),
            NoiseRule::OfOne | NoiseRule::Refused(_) => 1,
        }
    }

    /// Rounds whose sums the target has room for: all of the job, and some that fail. `None` in a job without an end.
    fn releases(&self, noise: &NoiseOptions) -> Option<u64> {
        let spare = (noise.spare * f64::from(self.rounds) - 1e-9)
            .ceil()
            .max(0.0);
        (self.rounds > 0).then(|| u64::from(self.rounds) + spare as u64)
    }

    /// Checks the options of noise, and finds the multiplier where it follows from a target. What is sent to others has it:
    /// functions of doubles differ a little among machines.
    pub(crate) fn resolve_privacy(&mut self) -> Result<(), SpecError> {
        let Some(noise) = self.privacy.noise() else {
            return Ok(());
        };
        if let NoiseRule::Refused(why) = (self.info().noise)(self) {
            return Err(SpecError::new("privacy", why));
        }
        if noise.delta == 0.0 {
            let rule = "must be given and above 0, as in delta = 1e-5; choose it below 1 / parties";
            return Err(SpecError::new("delta", rule));
        }
        if self.is_sparse() {
            let rule = "needs density = 1: sparse rounds tell which coordinates a party sends";
            return Err(SpecError::new("privacy", rule));
        }
        let releases = self.releases(&noise);
        if noise.epsilon > 0.0 && releases.is_none() {
            let rule = "needs a number of rounds: rounds >= 1 must hold";
            return Err(SpecError::new("epsilon", rule));
        }
        match (noise.multiplier > 0.0, releases) {
            (true, _) => {}
            (false, Some(releases)) if noise.epsilon > 0.0 => {
                let found = self.multiplier_for(&noise, releases)?;
                self.privacy.set_multiplier(found.value());
            }
            (false, _) => {
                let rule = "must be above 0 if there is no epsilon";
                return Err(SpecError::new("noise_multiplier", rule));
            }
        }
        Ok(())
    }

    /// The least multiplier that meets the target after so many releases.
    fn multiplier_for(&self, noise: &NoiseOptions, releases: u64) -> Result<Multiplier, SpecError> {
        let (epsilon, delta) = (noise.epsilon, noise.delta);
        let least = least_multiplier(epsilon, delta, releases, noise.adjacency.into())?;
        if noise.mechanism == Mechanism::DiscreteGaussian {
            return Ok(least);
        }
        // The bound of Skellam noise is that of the Gaussian mechanism, and a little more.
        let meets = |units: u32| {
            let multiplier = Multiplier::of_units(units)?;
            let mut spec = self.clone();
            spec.privacy.set_multiplier(multiplier.value());
            let encoding = spec.encoding_spec()?.validate()?;
            let Some(sizes) = encoding.noise() else {
                return Ok(true);
            };
            let curve = RenyiCurve::of_sizes(&sizes, sizes.spec().honest)?;
            Ok::<_, SpecError>(curve.times(releases).epsilon(delta)? <= epsilon)
        };
        let (mut low, mut high) = (least.units(), least.units());
        while !meets(high)? {
            (low, high) = (high, high + high / 8);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match meets(middle)? {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Ok(Multiplier::of_units(high)?)
    }

    /// The share of noise of each update; `None` in a job without noise.
    pub(crate) fn noise_share(&self) -> Result<Option<NoiseShare>, SpecError> {
        let Some(noise) = self.privacy.noise() else {
            return Ok(None);
        };
        Ok(Some(NoiseShare {
            honest: self.noisy_survivors(),
            mechanism: noise.mechanism,
            adjacency: noise.adjacency.into(),
            multiplier: Multiplier::at_least(noise.multiplier)?,
            wraps: self.info().wraps,
        }))
    }
}

/// Whose noise hides a party in a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoiseRule {
    /// That of all honest survivors: nobody sees less than the sum of all.
    OfAll,
    /// That of the party itself: others may see its update, or the sum of a few, if they work together.
    OfOne,
    /// The protocol can have none, for this reason.
    Refused(&'static str),
}

impl Privacy {
    /// The privacy of a job whose encoding has this noise.
    ///
    /// # Errors
    /// The target is missed, or δ is too small for so many draws.
    pub(crate) fn of(spec: &JobSpec, encoding: &Encoding) -> Result<Option<Self>, SpecError> {
        let (Some(noise), Some(sizes)) = (spec.privacy.noise(), encoding.noise()) else {
            return Ok(None);
        };
        let releases = spec.releases(&noise);
        let (parties, dim) = (spec.parties as usize, spec.dim as usize);
        check_draws(noise.delta, releases.unwrap_or(1), parties, dim)?;
        let privacy = Self {
            sizes,
            delta: noise.delta,
            target: (noise.epsilon > 0.0).then_some(noise.epsilon),
            releases,
        };
        if let (Some(target), Some(releases)) = (privacy.target, releases) {
            let reached = privacy.epsilon(releases)?;
            if reached > target * (1.0 + SLACK) {
                let rule = format!(
                    "the noise gives epsilon = {reached:.4} after {releases} releases, and epsilon = {target} was asked \
                     for; leave noise_multiplier out, or raise it"
                );
                return Err(SpecError::new("noise_multiplier", rule));
            }
        }
        Ok(Some(privacy))
    }

    /// How much noise a share has, and how wide words are.
    pub fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// The δ of the guarantee.
    pub fn delta(&self) -> f64 {
        self.delta
    }

    /// The largest ε that the job may come to, where it says one.
    pub fn target(&self) -> Option<f64> {
        self.target
    }

    /// Rounds with or without a result that the job may have; `None` in a job without an end.
    pub fn releases(&self) -> Option<u64> {
        self.releases
    }

    /// m: shares of noise that the claim counts on.
    pub fn honest(&self) -> usize {
        self.sizes.spec().honest
    }

    /// The claim: ε after so many releases, not below. Of Skellam noise it is a bound by Rényi divergences.
    ///
    /// # Errors
    /// Noise that hides nobody.
    pub fn epsilon(&self, releases: u64) -> Result<f64, PrivacyError> {
        self.epsilon_with(self.honest(), releases)
    }

    /// ε after so many releases if only `honest` shares of noise are sure.
    ///
    /// # Errors
    /// Noise of so few parties that it hides nobody.
    pub fn epsilon_with(&self, honest: usize, releases: u64) -> Result<f64, PrivacyError> {
        match self.sizes.spec().mechanism {
            Mechanism::DiscreteGaussian => SquaredMu::of_sizes(&self.sizes, honest)?
                .times(releases)
                .epsilon(self.delta),
            Mechanism::Skellam => self.by_renyi(honest, releases),
        }
    }

    /// What one release costs if only `honest` shares of noise are sure, for a ledger over several jobs.
    ///
    /// # Errors
    /// Noise of so few parties that it hides nobody.
    pub fn release(&self, honest: usize) -> Result<Spent, PrivacyError> {
        Spent::of_sizes(&self.sizes, honest)
    }

    /// ε after so many releases by Rényi divergences, for comparison with other accountants.
    ///
    /// # Errors
    /// Noise that hides nobody.
    pub fn epsilon_by_renyi(&self, releases: u64) -> Result<f64, PrivacyError> {
        self.by_renyi(self.honest(), releases)
    }

    /// ε after so many releases where a party's update is replaced by any other one, whatever the job's adjacency.
    ///
    /// # Errors
    /// Noise that hides nobody.
    pub fn epsilon_of_replacing(&self, releases: u64) -> Result<f64, PrivacyError> {
        // Twice as far is as four times as often: μ² grows fourfold.
        let times = match self.sizes.spec().adjacency {
            Adjacency::ZeroOut => 4,
            Adjacency::Replace => 1,
        };
        self.epsilon(releases.saturating_mul(times))
    }

    fn by_renyi(&self, honest: usize, releases: u64) -> Result<f64, PrivacyError> {
        RenyiCurve::of_sizes(&self.sizes, honest)?
            .times(releases)
            .epsilon(self.delta)
    }
}
