//! The differential privacy of a job: how much noise its updates have, and what that guarantees.

use blindsum_encode::{Encoding, NoiseShare};
use blindsum_privacy::accounting::check_draws;
use blindsum_privacy::{
    Adjacency, COMPONENTS, Mechanism, Multiplier, PrivacyError, RenyiCurve, ServerNoise,
    ServerNoiseSpec, Sizes, Spent, SquaredMu, least_multiplier,
};

use crate::core::noise_rule::{NoiseRule, Sensitivity};
use crate::core::spec::privacy::NoiseOptions;
use crate::{JobSpec, SpecError};

/// A target that the found multiplier may miss by this: functions of doubles differ a little among machines.
const SLACK: f64 = 1e-6;

/// Of δ, in a ledger, at most this part is for what one release may tell beside its sum.
const LEDGER_SHARE: f64 = (1_u64 << 20) as f64;

/// The differential privacy of a checked job.
#[derive(Clone, Debug, PartialEq)]
pub struct Privacy {
    noise: Noise,
    /// Numbers of noise in a round: for how many vectors or components, of how many coordinates.
    drawn: (usize, usize),
    delta: f64,
    target: Option<f64>,
    releases: Option<u64>,
}

/// Who adds how much noise.
#[derive(Clone, Debug, PartialEq)]
enum Noise {
    /// Each party, to its vector.
    OfParties(Sizes),
    /// The servers, to each component of the sum.
    OfServers(ServerNoise, Sensitivity),
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
            NoiseRule::OfOne | NoiseRule::OfServers(_) | NoiseRule::Refused(_) => 1,
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
        let fails = match (self.info().noise)(self) {
            NoiseRule::Refused(why) => return Err(SpecError::new("privacy", why)),
            NoiseRule::OfServers(sensitivity) => sensitivity(self)?.fails(),
            NoiseRule::OfAll | NoiseRule::OfOne => 0.0,
        };
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
                let found = self.multiplier_for(&noise, releases, fails)?;
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
    fn multiplier_for(
        &self,
        noise: &NoiseOptions,
        releases: u64,
        fails: f64,
    ) -> Result<Multiplier, SpecError> {
        let epsilon = noise.epsilon;
        let delta = left_of(noise.delta, releases, fails)?;
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
        if (self.info().noise)(self).is_of_servers() {
            return Ok(None);
        }
        Ok(Some(NoiseShare {
            honest: self.noisy_survivors(),
            mechanism: noise.mechanism,
            adjacency: noise.adjacency.into(),
            multiplier: Multiplier::at_least(noise.multiplier)?,
            wraps: self.info().wraps,
        }))
    }
}

/// What is left of δ for noise where each release may fail by itself, with this chance.
fn left_of(delta: f64, releases: u64, fails: f64) -> Result<f64, PrivacyError> {
    // guard: what-a-gate-may-tell-is-part-of-delta
    let left = delta - releases as f64 * fails;
    if left > 0.0 || fails == 0.0 {
        return Ok(left);
    }
    Err(PrivacyError::Failures { delta, releases })
}

impl Privacy {
    /// The privacy of a job whose encoding has this noise.
    ///
    /// # Errors
    /// The target is missed, or δ is too small for so many draws.
    pub(crate) fn of(spec: &JobSpec, encoding: &Encoding) -> Result<Option<Self>, SpecError> {
        let Some(options) = spec.privacy.noise() else {
            return Ok(None);
        };
        let (releases, dim) = (spec.releases(&options), spec.dim as usize);
        let (noise, drawn) = match (encoding.noise(), (spec.info().noise)(spec)) {
            (Some(sizes), _) => (Noise::OfParties(sizes), spec.parties as usize),
            (None, NoiseRule::OfServers(sensitivity)) => {
                let sensitivity = sensitivity(spec)?;
                let noise = ServerNoiseSpec {
                    dim,
                    sensitivity: sensitivity.norm,
                    adjacency: options.adjacency.into(),
                    multiplier: Multiplier::at_least(options.multiplier)?,
                };
                let noise = Noise::OfServers(noise.validate()?, sensitivity);
                (noise, COMPONENTS)
            }
            (None, _) => return Ok(None),
        };
        check_draws(options.delta, releases.unwrap_or(1), drawn, dim)?;
        let privacy = Self {
            noise,
            drawn: (drawn, dim),
            delta: options.delta,
            target: (options.epsilon > 0.0).then_some(options.epsilon),
            releases,
        };
        let reached = privacy.epsilon(releases.unwrap_or(1))?;
        match (privacy.target, releases) {
            (Some(target), Some(releases)) if reached > target * (1.0 + SLACK) => {
                let rule = format!(
                    "the noise gives epsilon = {reached:.4} after {releases} releases, and epsilon = {target} was asked \
                     for; leave noise_multiplier out, or raise it"
                );
                Err(SpecError::new("noise_multiplier", rule))
            }
            _ => Ok(Some(privacy)),
        }
    }

    /// How much noise a party's share has, and how wide words are; `None` where the servers add the noise.
    pub fn sizes(&self) -> Option<&Sizes> {
        match &self.noise {
            Noise::OfParties(sizes) => Some(sizes),
            Noise::OfServers(..) => None,
        }
    }

    /// How much noise the servers add to each component of the sum; `None` where the parties add the noise.
    pub fn of_servers(&self) -> Option<&ServerNoise> {
        match &self.noise {
            Noise::OfParties(_) => None,
            Noise::OfServers(noise, _) => Some(noise),
        }
    }

    /// z: the standard deviation of the noise that hides a party, by the largest norm that it moves the sum by.
    pub fn multiplier(&self) -> Multiplier {
        match &self.noise {
            Noise::OfParties(sizes) => sizes.spec().multiplier,
            Noise::OfServers(noise, _) => noise.spec().multiplier,
        }
    }

    /// Which two jobs must not be told apart.
    pub fn adjacency(&self) -> Adjacency {
        match &self.noise {
            Noise::OfParties(sizes) => sizes.spec().adjacency,
            Noise::OfServers(noise, _) => noise.spec().adjacency,
        }
    }

    /// By what factor rounding lifts the norm that updates are clipped to: the noise counts it.
    pub fn growth(&self) -> f64 {
        match &self.noise {
            Noise::OfParties(sizes) => sizes.growth(),
            Noise::OfServers(noise, sensitivity) => noise.step_growth() * sensitivity.growth,
        }
    }

    /// The norm that updates are clipped to, by the parties or the servers, where it is another one than that of the encoding.
    pub fn clip(&self) -> Option<f64> {
        match &self.noise {
            Noise::OfParties(_) => None,
            Noise::OfServers(_, sensitivity) => Some(sensitivity.clip),
        }
    }

    /// The standard deviation of the noise in a coordinate of the mean of so many survivors; `None` where the parties add
    /// it, as their encoding says.
    pub fn noise_deviation(&self, survivors: usize) -> Option<f64> {
        match &self.noise {
            Noise::OfParties(_) => None,
            Noise::OfServers(noise, sensitivity) => {
                let of_sum = noise.deviation(sensitivity.even) * sensitivity.unit;
                Some(of_sum / survivors.max(1) as f64)
            }
        }
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

    /// m: shares of noise of parties that the claim counts on; `None` where the servers add the noise.
    pub fn honest(&self) -> Option<usize> {
        self.sizes().map(|sizes| sizes.spec().honest)
    }

    /// The claim: ε after so many releases, not below. Where the servers add the noise it is against who works with one of
    /// them. Of Skellam noise it is a bound by Rényi divergences.
    ///
    /// # Errors
    /// Noise that hides nobody, or more releases than δ has room for.
    pub fn epsilon(&self, releases: u64) -> Result<f64, PrivacyError> {
        self.epsilon_of(self.counted(), releases, 1)
    }

    /// ε after so many releases against who sees the vector of a single party, which has the noise of that party alone; `None`
    /// where that hides nobody, and where the servers add the noise.
    ///
    /// # Errors
    /// δ out of its range.
    pub fn epsilon_alone(&self, releases: u64) -> Result<Option<f64>, PrivacyError> {
        if self.sizes().is_none() {
            return Ok(None);
        }
        match self.epsilon_of(1, releases, 1) {
            Err(PrivacyError::Hides { .. }) => Ok(None),
            other => other.map(Some),
        }
    }

    /// ε after so many releases against who works with no server; `None` where the parties add the noise.
    ///
    /// # Errors
    /// More releases than δ has room for.
    pub fn epsilon_outside(&self, releases: u64) -> Result<Option<f64>, PrivacyError> {
        match self.noise {
            Noise::OfParties(_) => Ok(None),
            Noise::OfServers(..) => self.epsilon_of(COMPONENTS, releases, 1).map(Some),
        }
    }

    /// What one release costs if only `honest` parties' shares of noise are sure, for a ledger over several jobs. Where the
    /// servers add the noise it is the same for any number of parties.
    ///
    /// # Errors
    /// Noise of so few parties that it hides nobody.
    pub fn release(&self, honest: usize) -> Result<Spent, PrivacyError> {
        match &self.noise {
            Noise::OfParties(sizes) => Spent::of_sizes(sizes, honest),
            Noise::OfServers(noise, _) => Spent::of_servers(noise),
        }
    }

    /// Checks that a ledger's δ hides what one release may tell beside its sum with noise: how far its numbers are off, and
    /// that a gate may fail. Both are at most 2^-20 of δ.
    ///
    /// # Errors
    /// [`PrivacyError::Draws`] and [`PrivacyError::Failures`], or δ out of its range.
    pub fn check_delta(&self, delta: f64) -> Result<(), PrivacyError> {
        let (drawn, dim) = self.drawn;
        check_draws(delta, 1, drawn, dim)?;
        match &self.noise {
            // guard: a-ledgers-delta-is-for-the-gate
            Noise::OfServers(_, sensitivity) if sensitivity.fails() > delta / LEDGER_SHARE => {
                let releases = 1;
                Err(PrivacyError::Failures { delta, releases })
            }
            _ => Ok(()),
        }
    }

    /// ε after so many releases by Rényi divergences, for comparison with other accountants.
    ///
    /// # Errors
    /// As [`Privacy::epsilon`].
    pub fn epsilon_by_renyi(&self, releases: u64) -> Result<f64, PrivacyError> {
        let curve = match &self.noise {
            Noise::OfParties(sizes) => RenyiCurve::of_sizes(sizes, self.counted())?,
            Noise::OfServers(noise, _) => {
                RenyiCurve::of_gaussian(SquaredMu::of_servers(noise, self.counted())?)
            }
        };
        curve.times(releases).epsilon(self.left(releases)?)
    }

    /// ε after so many releases where a party's update is replaced by any other one, whatever the job's adjacency.
    ///
    /// # Errors
    /// As [`Privacy::epsilon`].
    pub fn epsilon_of_replacing(&self, releases: u64) -> Result<f64, PrivacyError> {
        // Twice as far is as four times as often: μ² grows fourfold.
        let times = match self.adjacency() {
            Adjacency::ZeroOut => 4,
            Adjacency::Replace => 1,
        };
        self.epsilon_of(self.counted(), releases, times)
    }

    /// The shares or components of noise that the claim counts on.
    fn counted(&self) -> usize {
        match &self.noise {
            Noise::OfParties(sizes) => sizes.spec().honest,
            // guard: one-server-lacks-one-component
            Noise::OfServers(..) => 1,
        }
    }

    /// ε after so many releases if the noise of only so many shares or components is sure, where each release counts `times`
    /// times.
    fn epsilon_of(&self, sure: usize, releases: u64, times: u64) -> Result<f64, PrivacyError> {
        let (delta, counted) = (self.left(releases)?, releases.saturating_mul(times));
        let squared = match &self.noise {
            Noise::OfParties(sizes) if sizes.spec().mechanism == Mechanism::Skellam => {
                let curve = RenyiCurve::of_sizes(sizes, sure)?;
                return curve.times(counted).epsilon(delta);
            }
            Noise::OfParties(sizes) => SquaredMu::of_sizes(sizes, sure)?,
            Noise::OfServers(noise, _) => SquaredMu::of_servers(noise, sure)?,
        };
        squared.times(counted).epsilon(delta)
    }

    /// What is left of δ for noise after so many releases.
    fn left(&self, releases: u64) -> Result<f64, PrivacyError> {
        let fails = match &self.noise {
            Noise::OfParties(_) => 0.0,
            Noise::OfServers(_, sensitivity) => sensitivity.fails(),
        };
        left_of(self.delta, releases, fails)
    }
}
