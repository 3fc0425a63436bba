//! The rules of a policy on noise: what a round may cost, and what all rounds together may.

use blindsum_protocol::{Job, PrivacyError, Spent, SquaredMu};
use serde::Deserialize;

use super::Policy;
use crate::PolicyError;
use crate::ledger::{Budget, check_unit};

/// What a party asks of the noise of sums.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PrivacyPolicy {
    /// Whether the sums of a job must have noise. By default not.
    pub require_privacy: bool,
    /// The largest ε of this party's data over all jobs and coordinators, at `max_delta`; `None` sets no limit. A job without
    /// noise has no ε and is refused where there is one.
    pub max_epsilon: Option<f64>,
    /// The δ at which ε is measured: from 10⁻³⁰ to 10⁻²; given if `max_epsilon` is.
    pub max_delta: Option<f64>,
    /// The name of the data whose owners are protected; by default `data`. Each name has a ledger of its own: jobs with
    /// different data count for themselves.
    pub privacy_unit: String,
}

impl Default for PrivacyPolicy {
    fn default() -> Self {
        Self {
            require_privacy: false,
            max_epsilon: None,
            max_delta: None,
            privacy_unit: "data".into(),
        }
    }
}

impl PrivacyPolicy {
    /// The most that this party's data may cost; none without a limit.
    pub fn budget(&self) -> Option<Budget> {
        Some(Budget {
            epsilon: self.max_epsilon?,
            delta: self.max_delta?,
        })
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// The first rule that is out of range, and what must hold.
    fn check(&self) -> Result<(), (&'static str, String)> {
        check_unit(&self.privacy_unit).map_err(|rule| ("privacy_unit", rule))?;
        let (epsilon, delta) = match (self.max_epsilon, self.max_delta) {
            (None, None) => return Ok(()),
            (Some(epsilon), Some(delta)) => (epsilon, delta),
            (Some(_), None) => {
                let rule = "is missing, and max_epsilon needs it: epsilon is for a delta, as 1e-5";
                return Err(("max_delta", rule.into()));
            }
            (None, Some(_)) => {
                let rule = "is missing, and max_delta needs it: a delta alone limits nothing";
                return Err(("max_epsilon", rule.into()));
            }
        };
        if !(epsilon > 0.0 && epsilon <= 1e6) {
            let rule = format!("0 < {epsilon} <= 1000000 must hold");
            return Err(("max_epsilon", rule));
        }
        match (1e-30..=1e-2).contains(&delta) {
            true => Ok(()),
            false => Err(("max_delta", format!("1e-30 <= {delta:e} <= 0.01 must hold"))),
        }
    }
}

/// What a round of a job costs this party's data.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundCost {
    /// What it costs.
    pub cost: Spent,
    /// How many parties' noise that counts on; 0 where the servers add the noise.
    pub honest: usize,
}

impl RoundCost {
    /// More than any budget.
    pub fn unbounded() -> Self {
        let squared = SquaredMu::of_units(u128::MAX);
        Self {
            cost: Spent::of_parts(squared, &[]).unwrap_or_default(),
            honest: 0,
        }
    }
}

impl Policy {
    /// Checks the numbers of the policy.
    ///
    /// # Errors
    /// The first rule that is out of range, and what must hold.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let min_corrupt = self.min_corrupt;
        if !(0.0..1.0).contains(&min_corrupt) {
            return Err(("min_corrupt", format!("0 <= {min_corrupt} < 1 must hold")));
        }
        self.privacy.check()
    }

    /// What a round of a job costs this party's data, by the noise of those that this party takes for honest; none in a job
    /// without noise.
    ///
    /// # Errors
    /// Their noise hides nobody.
    pub fn round_cost(&self, job: &Job) -> Result<Option<RoundCost>, PolicyError> {
        let Some(privacy) = job.privacy() else {
            return Ok(None);
        };
        let corrupt = self.corrupt_among(job.spec().parties);
        // guard: noise-of-those-whom-the-party-takes-for-honest
        let left = job.min_parties().saturating_sub(corrupt);
        let honest = privacy.honest().map_or(0, |of_job| of_job.min(left));
        // Where the coordinator and one party see the vector of another one, its own noise alone is sure.
        // guard: whom-one-party-can-betray-has-its-own-noise
        let honest = match job.spec().protocol.name().tolerates_corrupt() {
            true => honest,
            false => honest.min(1),
        };
        let cost = privacy.release(honest);
        let cost = cost.map_err(|_| PolicyError::NoiseHidesNobody { corrupt })?;
        Ok(Some(RoundCost { cost, honest }))
    }

    /// Checks that a job has noise where it must, and that the data can afford one round of it.
    pub(super) fn check_privacy(&self, job: &Job) -> Result<(), PolicyError> {
        let budget = self.privacy.budget();
        let cost = match (self.round_cost(job), budget) {
            (Ok(Some(of_round)), _) => of_round.cost,
            // guard: policy-noise-is-required
            (Ok(None), None) if self.privacy.require_privacy => {
                let rule = "require_privacy";
                return Err(PolicyError::NoNoise { rule });
            }
            // guard: no-noise-has-no-epsilon
            (Ok(None), Some(_)) => {
                let rule = "max_epsilon";
                return Err(PolicyError::NoNoise { rule });
            }
            // guard: policy-noise-must-hide
            (Err(error), budget) if self.privacy.require_privacy || budget.is_some() => {
                return Err(error);
            }
            _ => return Ok(()),
        };
        let Some(Budget {
            epsilon: allowed,
            delta,
        }) = budget
        else {
            return Ok(());
        };
        let max_delta = delta;
        // guard: policy-delta-is-for-the-draws
        let checked = job.privacy().map(|it| it.check_delta(delta));
        if let Some(Err(PrivacyError::Draws { draws, .. })) = checked {
            return Err(PolicyError::TooManyDraws { max_delta, draws });
        }
        if let Some(Err(PrivacyError::Failures { .. })) = checked {
            return Err(PolicyError::GateTells { max_delta });
        }
        let epsilon = cost.epsilon(delta).unwrap_or(f64::INFINITY);
        match epsilon > allowed {
            true => Err(PolicyError::OneRelease {
                epsilon,
                allowed,
                delta,
            }),
            false => Ok(()),
        }
    }
}
