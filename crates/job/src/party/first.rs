//! The first model, where this party can give it: it is checked before anything is said in the job.

use std::sync::Arc;

use blindsum_encode::{EncodeError, Reals};
use blindsum_protocol::{InitialModel, Job};
use tracing::{debug, info, warn};

use super::context::Context;
use super::records::JobRecords;
use crate::connection::Say;
use crate::error::wrong;
use crate::pb;
use crate::{JobError, Model, foreign, hex};

/// The record of the hashes of the models that this party has given.
const RECORD: &str = "given";

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

/// What this party gave before it was started.
pub(super) fn kept_given(state: &JobRecords) -> Result<Vec<[u8; 32]>, JobError> {
    let bytes = state.read(RECORD)?.unwrap_or_default();
    let (given, _) = bytes.as_chunks::<32>();
    Ok(given.to_vec())
}

/// Checks that version 0 is zeros where the job says so.
pub(super) fn check_zeros(job: Option<&Job>, name: &pb::ModelName) -> Result<(), JobError> {
    let zeros = job.filter(|job| job.spec().initial == InitialModel::Zeros && name.version == 0);
    let own = zeros.map(Model::initial);
    match own.filter(|own| !own.is(name)) {
        None => Ok(()),
        Some(own) => Err(wrong(format!(
            "the first model: version 0 with hash {} is announced, and in a job with initial = zeros it is zeros, with hash \
             {}; do not go on, and start the coordinator without a model or change initial in the job",
            hex(&name.hash),
            hex(own.hash())
        ))),
    }
}

impl Context {
    /// Checks the model that a job begins with against what this party knows of it, before anything is said of it: with
    /// `initial = "zeros"` it is zeros, and of a party that gave one it is what that party gave.
    ///
    /// # Errors
    /// [`JobError::Coordinator`]: another model.
    pub(super) fn check_first(&self, offer: &pb::RoundOffer) -> Result<(), JobError> {
        let (Some(name), Some(job)) = (&offer.model, &self.job) else {
            return Ok(());
        };
        if name.version > 0 || job.spec().initial != InitialModel::FirstParty {
            return Ok(());
        }
        let (from, announced) = (&*offer.model_from, hex(&name.hash));
        if from.is_empty() {
            return Err(wrong(
                "RoundOffer: it must name the party that gave the first model (model_from), in a job with initial = first-party",
            ));
        }
        if from != self.identity.name {
            info!(party = %self.identity.name, from = %foreign(from), hash = %announced, "the first model is from this party");
            return Ok(());
        }
        let gave = |given: &[u8; 32]| name.hash == given;
        if self.given.models.iter().any(gave) {
            return Ok(());
        }
        // The record is of an earlier time, or there was none: what it can give now may be what it gave.
        let gives = self.settings.initial.as_ref().and_then(|values| {
            let first = Model::first(job, Reals::clone(values)).ok()?;
            Some(*first.hash())
        });
        if self.given.models.is_empty() && gives.as_ref().is_some_and(gave) {
            return Ok(());
        }
        if self.given.models.is_empty() && self.store.state.is_none() {
            warn!(party = %self.identity.name, hash = %announced, "the first model is said to be from this party, and it keeps \
                no record of what it gave before it was started: compare the hash with the model that was given");
            return Ok(());
        }
        let given: Vec<String> = self.given.models.iter().map(|hash| hex(hash)).collect();
        let gave = match given.is_empty() {
            true => "none".into(),
            false => given.join(", "),
        };
        Err(wrong(format!(
            "the first model: RoundOffer names version 0 with hash {announced} as given by this party, which gave {gave}; do not \
             go on, and find out at the coordinator who changed it"
        )))
    }

    /// The coordinator asks for the first model. It is given once over a connection, and not once the job has one: whoever
    /// asks on fills this party's memory.
    pub(super) async fn give_first(&mut self, in_round: bool) -> Result<(), JobError> {
        let begins = self.model.as_ref().is_none_or(|own| own.version() == 0);
        // guard: a-giver-gives-once
        if self.connection.own.gave || !begins || in_round {
            debug!(party = %self.identity.name, "asked again for the first model: it was given, or the job has one");
            return Ok(());
        }
        self.connection.own.gave = true;
        let (Some(values), Some(job)) = (self.settings.initial.clone(), self.job.clone()) else {
            self.send(pb::ModelRefused { version: 0 });
            return Ok(());
        };
        let write = move || {
            let first = Model::first(&job, Reals::clone(&values))?;
            Ok::<_, EncodeError>((first.values().to_bytes(), *first.hash()))
        };
        let written = self.hand.work(write).await?;
        let (values, hash) = written.map_err(|error| JobError::Initial(error.to_string()))?;
        if !self.given.models.contains(&hash) {
            self.given.models.push(hash);
            // Before it is given.
            let given = self.given.models.concat();
            let write = move |state: &JobRecords| state.replace(RECORD, &[&given]);
            self.store.with(write).await?;
        }
        info!(party = %self.identity.name, job = %self.settings.job, bytes = values.len(),
            "this party gives the first model: the coordinator and all parties learn it");
        self.say(Say::Model {
            version: 0,
            values: values.into(),
        });
        Ok(())
    }
}
