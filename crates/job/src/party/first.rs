//! The first model, where this party can give it: it is checked before anything is said in the job.

use std::sync::Arc;

use blindsum_encode::Reals;
use blindsum_protocol::{InitialModel, Job};
use tracing::info;

use super::exchange::Say;
use super::member::Member;
use crate::pb;
use crate::{JobError, Model};

/// Whether a party can give this first model in this job.
pub(super) fn check_initial(initial: Option<&Arc<Reals>>, job: &Job) -> Result<(), JobError> {
    let Some(values) = initial else {
        return Ok(());
    };
    let kind = job.spec().initial;
    if kind != InitialModel::FirstParty {
        return Err(JobError::Initial(format!(
            "the job does not take its first model from a party (initial = {kind}): leave initial out"
        )));
    }
    let first = Model::first(job, Reals::clone(values));
    let first = first.map_err(|error| JobError::Initial(error.to_string()));
    first.map(|_| ())
}

impl Member {
    /// Whether this version of the model is one that this party may be asked to give the job to begin with.
    pub(super) fn may_give(&self, version: u64) -> bool {
        let takes = |job: &Arc<Job>| job.spec().initial == InitialModel::FirstParty;
        version == 0 && self.job.as_ref().is_some_and(takes)
    }

    /// The coordinator asks for the first model.
    pub(super) async fn give_first(&mut self) -> Result<(), JobError> {
        let (Some(values), Some(job)) = (self.settings.initial.clone(), self.job.clone()) else {
            self.send(pb::ModelRefused { version: 0 });
            return Ok(());
        };
        let precision = job.encoding().precision();
        let write = move || Reals::clone(&values).in_precision(precision).to_bytes();
        let values = self.hand.work(write).await?;
        info!(party = %self.identity.name, job = %self.settings.job, bytes = values.len(),
            "this party gives the first model: the coordinator and all parties learn it");
        self.say(Say::Model {
            version: 0,
            values: values.into(),
        });
        Ok(())
    }
}
