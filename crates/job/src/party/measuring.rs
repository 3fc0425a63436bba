//! A party reports metrics of one model once, and remembers that before they leave it (`measured`).
//!
//! The record is sealed: the weight in it is as private as the update.

use blindsum_encode::Judged;
use blindsum_protocol::{Job, ModelUpdate};
use prost::Message as _;
use tracing::warn;

use super::context::Context;
use super::measured::Measured;
use super::metrics::{Reported, warnings};
use super::records::JobRecords;
use crate::{JobError, Model};

/// The record.
const RECORD: &str = "metrics";
/// What is authenticated with it.
const HEADER: &[u8] = b"blindsum reported metrics";

/// What the records have of the metrics of earlier rounds.
pub(super) fn kept_measured(state: &JobRecords) -> Result<Measured, JobError> {
    let Some(sealed) = state.read(RECORD)? else {
        return Ok(Measured::default());
    };
    let advice =
        "damaged; remove it to go on: the party may then report metrics of one model twice";
    let opened = state.key().open(HEADER, &sealed);
    let opened = opened.map_err(|_| state.failed(RECORD, advice))?;
    Measured::decode(&opened[..]).map_err(|_| state.failed(RECORD, advice))
}

impl Context {
    /// The update as the round takes it, the metrics that it reports, and what the caller is warned of.
    pub(super) fn reported(
        &self,
        round: u64,
        model: Option<&Model>,
        update: Judged,
    ) -> (Judged, Reported, Vec<String>) {
        let Some(job) = &self.job else {
            return (update, Reported::default(), Vec::new());
        };
        let mut warnings = warnings(job, &update);
        for warning in &warnings {
            warn!(party = %self.identity.name, round, "{warning}");
        }
        let (update, again) = self.measured_once(job, round, model, update);
        warnings.extend(again);
        let reported = Reported::of(job, &update);
        (update, reported, warnings)
    }

    /// The update without metrics where this party has reported some of the model that the round starts from, with a warning
    /// for the caller.
    fn measured_once(
        &self,
        job: &Job,
        round: u64,
        model: Option<&Model>,
        update: Judged,
    ) -> (Judged, Option<String>) {
        let reports = update.metrics().levels().iter().any(Option::is_some);
        let again = model.is_some_and(|m| self.given.measured.has(m));
        // Such a job has one model for all rounds, and this party's values change where its own model does. It is the policy
        // that keeps sums apart.
        let keeps_none = job.spec().model_update == ModelUpdate::Nothing;
        let guarded = keeps_none && self.settings.policy.min_cohort_change > 0;
        // guard: metrics-once-for-each-model
        if !reports || !again || guarded {
            return (update, None);
        }
        let none = vec![None; job.spec().metrics.len()];
        let Ok(missing) = job.encoding().metric_levels(&none) else {
            return (update, None);
        };
        let advice = match keeps_none {
            true => {
                "in a job with model_update = none all rounds start from the same model: set min_cohort_change in this party's \
                 policy to report metrics in every round"
            }
            false => {
                "the round before it had no result, or the coordinator went back: metrics come again with the next model"
            }
        };
        let warning = format!(
            "metrics were not reported in round {round}: this party has reported metrics of the model that the round starts from, \
             and two sums over the same model tell the values of single parties; {advice}"
        );
        warn!(party = %self.identity.name, "{warning}");
        (update.with_metrics(missing), Some(warning))
    }

    /// Remembers what is reported in this round, before it leaves this party.
    pub(super) async fn keep_measured(
        &mut self,
        round: u64,
        model: Option<&Model>,
        reported: &Reported,
    ) -> Result<(), JobError> {
        let Some(model) = model.filter(|_| !reported.names.is_empty()) else {
            return Ok(());
        };
        self.given.measured.add(model, round, reported);
        if self.store.state.is_none() {
            return Ok(());
        }
        let (measured, mut rng) = (self.given.measured.encode_to_vec(), self.hand.random());
        let write = move |state: &JobRecords| {
            let sealed = state.key().seal(HEADER, &measured, &mut rng);
            // guard: metrics-once-across-processes
            state.replace(RECORD, &[&sealed])
        };
        self.store.with(write).await.map(drop)
    }
}
