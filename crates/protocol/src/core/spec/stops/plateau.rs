//! `plateau`: the job ends once a metric has not become better for some rounds. The model with the best value is kept.
//!
//! Parties measure the model that they all have, and then train. So the metric of a round is of the model *from which the
//! round started*, and never of the one that the round makes.

use serde::{Deserialize, Serialize};

use super::StopTable;
use crate::core::options::{at_least, choice, table};
use crate::core::spec::SpecError;
use crate::{JobSpec, ModelUpdate};

choice! {
    /// Which values of a metric are better.
    Better {
        /// Greater values, for an accuracy.
        Higher = "higher",
        /// Smaller values, for a loss.
        Lower = "lower",
    }
}

table! {
    /// The job ends after a metric has not improved for some rounds. The model with its best value is stored.
    Plateau = "plateau";
    options {
        /// The metric: the name of one of the job's `metrics`.
        metric: String = String::new();
        /// The direction of improvement.
        better: Better = Better::Higher;
        /// Rounds with a value of the metric, and without a better one, after which the job ends; 0 never ends it,
        /// and only stores the best model.
        patience: u32 = 5;
        /// The least improvement over the best value; exactly as much is not enough.
        least_gain: f64 = 0.0, at_least(0.0);
    }
}

impl StopTable for Plateau {
    fn plateau(&self) -> Option<&Plateau> {
        Some(self)
    }
}

/// The best value of a metric so far, and the model that it is of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// The metric.
    pub metric: String,
    /// The round in which parties measured it.
    pub round: u64,
    /// The version of that model, which is the one from which the round started.
    pub version: u64,
    /// The value.
    pub value: f64,
    /// Rounds since then that had a value, none of which was better.
    pub without_gain: u32,
}

impl Plateau {
    /// The best value after a round with a sum that started from the model `version`. A round without a `value`, in
    /// which no party reported the metric, changes nothing.
    pub fn after(
        &self,
        best: Option<Best>,
        round: u64,
        version: u64,
        value: Option<f64>,
    ) -> Option<Best> {
        let Some(value) = value.filter(|value| value.is_finite()) else {
            return best;
        };
        Some(match best {
            Some(best) if !self.is_gain(best.value, value) => Best {
                without_gain: best.without_gain.saturating_add(1),
                ..best
            },
            _ => Best {
                metric: self.metric.clone(),
                round,
                version,
                value,
                without_gain: 0,
            },
        })
    }

    /// Whether a value is better than the best one before. The same value is not.
    fn is_gain(&self, best: f64, value: f64) -> bool {
        match self.better {
            Better::Higher => value - best > self.least_gain,
            Better::Lower => best - value > self.least_gain,
        }
    }

    /// Whether the job ends: the metric has not become better for `patience` rounds.
    pub fn is_over(&self, best: Option<&Best>) -> bool {
        self.patience > 0 && best.is_some_and(|best| best.without_gain >= self.patience)
    }

    /// Why the job ends, for people.
    pub fn reason(&self, best: &Best) -> String {
        let (metric, count) = (&self.metric, best.without_gain);
        let (value, version) = (best.value, best.version);
        let moved = match self.better {
            Better::Higher => "risen",
            Better::Lower => "fallen",
        };
        let by = match self.least_gain > 0.0 {
            true => format!(" by more than {}", self.least_gain),
            false => String::new(),
        };
        let rounds = if count == 1 { "round" } else { "rounds" };
        let value = shown(value);
        format!(
            "{metric} has not {moved}{by} for {count} {rounds}; the best is {value}, of model version {version}"
        )
    }
}

/// A value with as many digits as a reader needs.
fn shown(value: f64) -> String {
    let size = value.abs();
    match size == 0.0 || (1e-3..1e6).contains(&size) {
        true => format!("{}", (value * 1e6).round() / 1e6),
        false => format!("{value:.5e}"),
    }
}

impl JobSpec {
    /// The rule is about a metric that the job has, that its coordinator learns (unless the job `hides_sum`), and about
    /// models that it keeps.
    pub(crate) fn check_stop(&self, hides_sum: bool) -> Result<(), SpecError> {
        let Some(plateau) = self.stop.plateau() else {
            return Ok(());
        };
        let metric = &plateau.metric;
        let names: Vec<&str> = self.metrics.iter().map(|metric| &*metric.name).collect();
        let refused = |field: &str, rule: String| Err(SpecError::new(field, rule));
        if names.is_empty() {
            let rule = format!(
                "metric is {metric:?} and must be one of the job's metrics, of which it has none: declare it in metrics, or \
                 leave stop out"
            );
            return refused("stop.metric", rule);
        }
        if !names.contains(&&**metric) {
            let rule = format!(
                "metric is {metric:?} and must be one of the job's metrics: {}",
                names.join(", ")
            );
            return refused("stop.metric", rule);
        }
        if !plateau.least_gain.is_finite() {
            let rule = format!("least_gain is {} and must be finite", plateau.least_gain);
            return refused("stop.least_gain", rule);
        }
        if self.model_update == ModelUpdate::Nothing {
            let rule = "stop = plateau needs model_update = add or replace (is none): a job without a model has \
                no best one; leave stop out";
            return refused("stop", rule.into());
        }
        if hides_sum {
            let rule = format!(
                "stop = plateau needs a coordinator that learns the metrics; with protocol = {} as it is set here the \
                 parties alone do: leave stop out, or choose another protocol",
                self.protocol
            );
            return refused("stop", rule);
        }
        Ok(())
    }
}
