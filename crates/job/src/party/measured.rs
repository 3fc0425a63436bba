//! What a party remembers of the metrics that it reported: of which models, and which in the round under way.
//!
//! A party reports metrics of one model once. Two sums over the same model are of the same values: if a party is missing in
//! one of them, the difference is exactly the value of that party. The difference of two sums of updates is not, since the
//! updates of a further training differ. A round that is repeated from the same model is no proof of an attack, so the party
//! takes part, without metrics.
//!
//! The record is sealed: the weight in it is as private as the update.

use blindsum_encode::Judged;
use blindsum_protocol::ModelUpdate;
use prost::Message as _;
use tracing::warn;

use super::member::Member;
use super::metrics::Reported;
use crate::{JobError, Model};

/// The record.
const RECORD: &str = "metrics";
/// What is authenticated with it.
const HEADER: &[u8] = b"blindsum reported metrics";
/// Bytes of the hash of a model that are remembered.
const OF_HASH: usize = 16;

/// What is remembered.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub(super) struct Measured {
    /// The models of which this party has reported metrics: the first 16 bytes of the hash of each, one after the other.
    #[prost(bytes = "vec", tag = "1")]
    models: Vec<u8>,
    /// The latest round in which it reported some; 0 before the first.
    #[prost(uint64, tag = "2")]
    round: u64,
    /// What it reported there.
    #[prost(string, repeated, tag = "3")]
    names: Vec<String>,
    #[prost(uint32, tag = "4")]
    weight: u32,
}

impl Measured {
    fn has(&self, model: &Model) -> bool {
        let (models, _) = self.models.as_chunks::<OF_HASH>();
        models.iter().any(|known| model.hash().starts_with(known))
    }

    fn add(&mut self, model: &Model, round: u64, reported: &Reported) {
        if !self.has(model) {
            let (begin, _) = model.hash().split_at(OF_HASH);
            self.models.extend(begin);
        }
        (self.round, self.weight) = (round, reported.weight);
        self.names.clone_from(&reported.names);
    }

    /// What this party reported in this round, as far as it has left it.
    pub fn reported_in(&self, round: u64) -> Reported {
        match self.round == round {
            true => Reported {
                names: self.names.clone(),
                weight: self.weight,
            },
            false => Reported::default(),
        }
    }
}

impl Member {
    /// What the records have of the metrics of earlier rounds.
    pub(super) async fn kept_measured(&mut self) -> Result<Measured, JobError> {
        let Some(state) = self.state.clone() else {
            return Ok(Measured::default());
        };
        let read = move || {
            let Some(sealed) = state.read(RECORD)? else {
                return Ok(Measured::default());
            };
            let advice =
                "damaged; remove it to go on: the party may then report metrics of one model twice";
            let opened = state.key().open(HEADER, &sealed);
            let opened = opened.map_err(|_| state.failed(RECORD, advice))?;
            Measured::decode(&opened[..]).map_err(|_| state.failed(RECORD, advice))
        };
        self.hand.work(read).await?
    }

    /// The update without metrics where this party has reported some of the model that the round starts from, with a warning
    /// for the caller.
    pub(super) fn measured_once(&self, round: u64, update: Judged) -> (Judged, Option<String>) {
        let (Some(active), Some(job)) = (&self.active, &self.job) else {
            return (update, None);
        };
        let reports = update.metrics().levels().iter().any(Option::is_some);
        let again = active.model.as_ref().is_some_and(|m| self.measured.has(m));
        // Such a job has one model for all rounds, and this party's values change where its own model does. It is the policy
        // that keeps sums apart.
        let keeps_none = job.spec().model_update == ModelUpdate::Nothing;
        let guarded = keeps_none && self.settings.policy.min_cohort_change > 0;
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
    pub(super) async fn keep_measured(&mut self) -> Result<(), JobError> {
        let Some(active) = &self.active else {
            return Ok(());
        };
        let Some(model) = active.model.as_ref() else {
            return Ok(());
        };
        if active.reported.names.is_empty() {
            return Ok(());
        }
        self.measured.add(model, active.number, &active.reported);
        let Some(state) = self.state.clone() else {
            return Ok(());
        };
        let (measured, mut rng) = (self.measured.encode_to_vec(), self.hand.random());
        let write = move || {
            let sealed = state.key().seal(HEADER, &measured, &mut rng);
            state.replace(RECORD, &[&sealed])
        };
        self.hand.work(write).await?
    }
}
