//! The terms of a job: the fields of its specification that may change while it runs. The specification itself never
//! changes, because its hash is part of every key and signature.

use std::fmt;

use blindsum_protocol::{JobSpec, MAX_SECONDS, Step};
use serde::{Deserialize, Serialize};

use crate::pb;

/// What may change in a running job. Deadlines are in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Number of rounds; 0 goes on until the job is stopped.
    pub rounds: u32,
    /// How long a round waits for parties to join.
    pub join_deadline: f64,
    /// How long a stage waits for answers.
    pub stage_deadline: f64,
    /// How long the input stage waits: training happens in it.
    pub input_deadline: f64,
}

impl Terms {
    /// The names of its fields, as in a specification.
    pub const FIELDS: [&str; 4] = [
        "rounds",
        "join_deadline",
        "stage_deadline",
        "input_deadline",
    ];

    /// Those of a specification.
    pub fn of(spec: &JobSpec) -> Self {
        Self {
            rounds: spec.rounds,
            join_deadline: spec.join_deadline,
            stage_deadline: spec.stage_deadline,
            input_deadline: spec.input_deadline,
        }
    }

    /// Seconds for a step of a round.
    pub fn deadline(&self, step: Option<&Step>) -> f64 {
        match step.is_some_and(|step| step.input) {
            true => self.input_deadline,
            false => self.stage_deadline,
        }
    }

    /// Whether so many rounds with a result are all of them.
    pub fn are_met_by(&self, rounds_done: u64) -> bool {
        // guard: campaign-jobs-have-so-many-rounds
        self.rounds != 0 && rounds_done >= u64::from(self.rounds)
    }

    /// What parties are told; nothing where the terms are those of the specification.
    pub fn told(&self, spec: &JobSpec) -> Option<pb::Terms> {
        (*self != Self::of(spec)).then(|| pb::Terms {
            rounds: self.rounds,
            stage_deadline_ms: millis(self.stage_deadline),
            input_deadline_ms: millis(self.input_deadline),
        })
    }

    /// The terms that a party was told with the beginning of a round.
    ///
    /// # Errors
    /// A deadline that no job may have; the text names it.
    pub fn heard(told: Option<&pb::Terms>, spec: &JobSpec) -> Result<Self, String> {
        let terms = Self::of(spec);
        let Some(told) = told else {
            return Ok(terms);
        };
        let deadline = |field: &str, ms: u64| {
            let seconds = ms as f64 / 1000.0;
            match seconds > 0.0 && seconds <= MAX_SECONDS {
                true => Ok(seconds),
                false => Err(format!(
                    "terms: 0 < {field} = {seconds} <= {MAX_SECONDS} seconds"
                )),
            }
        };
        Ok(Self {
            rounds: told.rounds,
            stage_deadline: deadline("stage_deadline", told.stage_deadline_ms)?,
            input_deadline: deadline("input_deadline", told.input_deadline_ms)?,
            ..terms
        })
    }
}

/// What an operator has changed, with the values before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Changed {
    /// The terms before.
    pub before: Terms,
    /// The terms from now on.
    pub after: Terms,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rounds = |rounds: u32| match rounds {
            0 => "without end".to_owned(),
            rounds => rounds.to_string(),
        };
        let seconds = |seconds: f64| format!("{seconds} s");
        let (before, after) = (&self.before, &self.after);
        let pairs = [
            ("rounds", rounds(before.rounds), rounds(after.rounds)),
            (
                "join_deadline",
                seconds(before.join_deadline),
                seconds(after.join_deadline),
            ),
            (
                "stage_deadline",
                seconds(before.stage_deadline),
                seconds(after.stage_deadline),
            ),
            (
                "input_deadline",
                seconds(before.input_deadline),
                seconds(after.input_deadline),
            ),
        ];
        let changed = pairs.iter().filter(|(_, before, after)| before != after);
        let changed: Vec<String> = changed
            .map(|(field, before, after)| format!("{field}: {before} → {after}"))
            .collect();
        match changed.is_empty() {
            true => f.write_str("the job goes on"),
            false => f.write_str(&changed.join(", ")),
        }
    }
}

/// Whole milliseconds, at least one.
fn millis(seconds: f64) -> u64 {
    ((seconds * 1000.0) as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_hear_the_terms_that_differ_from_the_specification() {
        let spec = JobSpec::default();
        let terms = Terms::of(&spec);
        assert_eq!(terms.told(&spec), None);
        assert_eq!(Terms::heard(None, &spec), Ok(terms));
        let longer = Terms {
            rounds: 9,
            input_deadline: 7200.0,
            ..terms
        };
        let told = longer.told(&spec).unwrap();
        assert_eq!(Terms::heard(Some(&told), &spec), Ok(longer));
    }

    #[test]
    fn deadlines_of_no_job_are_refused() {
        let spec = JobSpec::default();
        let told = Terms {
            rounds: 9,
            ..Terms::of(&spec)
        };
        let told = told.told(&spec).unwrap();
        for wrong in [0, u64::MAX] {
            let told = pb::Terms {
                input_deadline_ms: wrong,
                ..told
            };
            let error = Terms::heard(Some(&told), &spec).unwrap_err();
            assert!(error.contains("input_deadline"), "{error}");
        }
    }

    #[test]
    fn a_job_without_end_is_never_met() {
        let terms = |rounds| Terms {
            rounds,
            ..Terms::of(&JobSpec::default())
        };
        assert!(terms(3).are_met_by(3) && !terms(3).are_met_by(2));
        assert!(!terms(0).are_met_by(u64::MAX));
    }
}
