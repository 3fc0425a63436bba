//! The job's model: a vector with a version and a hash that everybody compares.

use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_crypto::seal::STORAGE_OVERHEAD;
use blindsum_encode::{EncodeError, Precision, Reach, Reals, StepState, UpdateHistory};
use blindsum_protocol::{Fault, InitialModel, Job, JobSpec, ModelUpdate, Round};
use bytes::Bytes;

use crate::{JobError, pb};

/// One version of a job's model. A job begins with version 0; in a job that changes its model each finished round adds one.
/// The values have the precision of the job ([`Encoding::precision`](blindsum_encode::Encoding::precision)), and all of
/// them are finite.
///
/// If clipping bounds follow from earlier rounds, the history of updates that decides them is part of the model: of its
/// bytes, after the values, and of its hash. So everybody who gets the model gets the history. The state of the server
/// step of the job is part of the model in the same way, after the history.
///
/// If only the parties learn sums, the coordinator knows the first model and of those after it only a name. The hash is
/// then `H("blindsum hidden model"; hash before, message)`, over the message that told the survivors their encrypted
/// sum. It reveals nothing about the values. Every finished round gives a new name, even if the values stay the same:
/// parties that were told different sums have different names, and cannot take part in the next round together.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    version: u64,
    hash: [u8; 32],
    dim: u64,
    values: Arc<Reals>,
    carried: Carried,
    hidden: bool,
}

/// What a model has beside its values, where its job needs it.
#[derive(Clone, Debug, Default, PartialEq)]
struct Carried {
    /// Apart from the rest, as most models have none.
    history: Option<Box<UpdateHistory>>,
    /// The state of the server step; empty where the step has none.
    step: Arc<StepState>,
}

impl Carried {
    /// Before the first round.
    fn first(job: &Job, dim: usize) -> Self {
        let precision = job.encoding().precision();
        Self {
            history: job.new_history().map(Box::new),
            step: job.server_step().new_state(precision, dim).into(),
        }
    }

    /// The parts that there are, in bytes.
    fn to_bytes(&self) -> Vec<Vec<u8>> {
        let history = self.history.iter().map(|history| history.to_bytes());
        let step = Some(self.step.to_bytes()).filter(|bytes| !bytes.is_empty());
        history.chain(step).collect()
    }
}

impl Model {
    /// A model without a history and without the state of a step, of the precision of these values; its hash is `H("blindsum model"; values)`, the values as
    /// little-endian IEEE 754 numbers.
    pub fn new(version: u64, values: impl Into<Reals>) -> Self {
        Self::with(version, values.into(), Carried::default())
    }

    /// A model with what its job needs beside the values. Each part of that is one more part of the hash.
    fn with(version: u64, values: Reals, carried: Carried) -> Self {
        let (bytes, state) = (values.to_bytes(), carried.to_bytes());
        let parts: Vec<&[u8]> = [&bytes].into_iter().chain(&state).map(|b| &b[..]).collect();
        Self {
            version,
            hash: kdf::hash("blindsum model", &parts),
            dim: values.len() as u64,
            values: Arc::new(values),
            carried,
            hidden: false,
        }
    }

    /// The first model of a job that was given these values, rounded to the precision of the job.
    ///
    /// # Errors
    /// [`EncodeError::Dim`] for another number of values than the job's `dim`; [`EncodeError::NotFinite`] for NaN,
    /// infinities and values beyond the precision of the job.
    pub fn first(job: &Job, values: impl Into<Reals>) -> Result<Self, EncodeError> {
        let values = values.into().in_precision(job.encoding().precision());
        let (got, dim) = (values.len(), job.spec().dim as usize);
        if got != dim {
            return Err(EncodeError::Dim { got, dim });
        }
        values.check_finite()?;
        Ok(Self::with(0, values, Carried::first(job, dim)))
    }

    /// The model that a host starts a round from: these values in the place of those of `before`. It keeps its version, which
    /// counts sums, and what the job has beside the values.
    ///
    /// # Errors
    /// A job that keeps no model, whose coordinator does not know it, or that says what it begins with; values that
    /// [`first`](Self::first) refuses.
    pub fn given(job: &Job, before: &Self, values: Reals) -> Result<Self, String> {
        let spec = job.spec();
        if spec.model_update == ModelUpdate::Nothing {
            return Err("the job keeps no model (model_update = none): give none".into());
        }
        if job.hides_sum() {
            return Err("only the parties of this job have its model: give none".into());
        }
        if before.version == 0 && spec.initial != InitialModel::Coordinator {
            let initial = spec.initial;
            return Err(format!(
                "the job says initial = {initial}: give no model before its first sum"
            ));
        }
        let values = Self::first(job, values).map_err(|error| error.to_string())?;
        let carried = before.carried.clone();
        Ok(Self::with(
            before.version,
            (*values.values).clone(),
            carried,
        ))
    }

    /// The first model of a job, from the bytes of its values: `dim` little-endian numbers of the precision of the job.
    ///
    /// # Errors
    /// Another length, or a value that is not finite.
    pub fn first_from_bytes(job: &Job, bytes: &[u8]) -> Result<Self, String> {
        let values = Reals::from_bytes(job.encoding().precision(), bytes);
        let values = values.ok_or_else(|| format!("{} bytes are no vector", bytes.len()))?;
        Self::first(job, values).map_err(|error| error.to_string())
    }

    /// What stands for the first model before a party has given it. It has a hash of its own, `H("blindsum awaited
    /// model"; job hash)`, and no values.
    pub fn awaited(job: &Job) -> Self {
        let hash = kdf::hash("blindsum awaited model", &[job.hash()]);
        Self::hidden(0, hash, job.spec().dim)
    }

    /// Whether the first model is not here yet.
    pub fn is_awaited(&self) -> bool {
        self.hidden && self.version == 0
    }

    /// The first model of a job that was given none: zeros, or no values if the job keeps no model.
    pub fn initial(job: &Job) -> Self {
        let dim = match job.spec().model_update {
            ModelUpdate::Nothing => 0,
            ModelUpdate::Add | ModelUpdate::Replace => job.spec().dim as usize,
        };
        let zeros = Reals::zeros(job.encoding().precision(), dim);
        Self::with(0, zeros, Carried::first(job, dim))
    }

    /// Reads a model of this job from bytes.
    ///
    /// # Errors
    /// A length that no model of the job has, a value that is not finite, a history or state that cannot be read, or a hash that is
    /// not `expected`.
    pub fn from_bytes(
        job: &Job,
        version: u64,
        bytes: &[u8],
        expected: &[u8],
    ) -> Result<Self, JobError> {
        let refused = |rule| Err(JobError::Coordinator(rule));
        let (values, carried) = match Self::parse(job, bytes) {
            Ok(parsed) => parsed,
            Err(rule) => return refused(format!("model version {version}: {rule}")),
        };
        let model = Self::with(version, values, carried);
        // guard: a-model-of-its-hash
        match model.hash == expected {
            true => Ok(model),
            false => refused(format!(
                "model version {version}: its hash is not the one announced"
            )),
        }
    }

    /// A model from bytes that nobody else has had meanwhile.
    ///
    /// # Errors
    /// Bytes that are no model of the job.
    pub fn restored(job: &Job, version: u64, bytes: &[u8]) -> Result<Self, String> {
        let (values, carried) = Self::parse(job, bytes)?;
        Ok(Self::with(version, values, carried))
    }

    /// Values, and what comes after them, out of the bytes of a model.
    fn parse(job: &Job, bytes: &[u8]) -> Result<(Reals, Carried), String> {
        let (behind, precision) = (carried_len(job), job.encoding().precision());
        let Some((values, state)) = bytes
            .len()
            .checked_sub(behind)
            .and_then(|at| bytes.split_at_checked(at))
            .and_then(|(values, state)| Some((Reals::from_bytes(precision, values)?, state)))
        else {
            let number = match precision {
                Precision::Single => "f32",
                Precision::Double => "f64",
            };
            let rule = match behind {
                0 => format!("no vector of {number}"),
                _ => format!("no vector of {number} and {behind} bytes of history and state"),
            };
            return Err(format!("a model of {} bytes is {rule}", bytes.len()));
        };
        values.check_finite().map_err(|error| error.to_string())?;
        let (history, step) = state.split_at_checked(history_len(job)).unwrap_or_default();
        let history = match job.new_history() {
            None => None,
            Some(_) => {
                let history = UpdateHistory::from_bytes(job.encoding(), history);
                Some(Box::new(history.map_err(|error| error.to_string())?))
            }
        };
        let step = job.server_step().read_state(precision, values.len(), step);
        let step = step.map_err(|error| error.to_string())?.into();
        Ok((values, Carried { history, step }))
    }

    /// A model that another party sent. That party knows only the name of the model, too, and cannot check the values:
    /// they are what a holder of the job's key says.
    ///
    /// # Errors
    /// Bytes that are no model of the job.
    pub fn from_holder(job: &Job, name: &pb::ModelName, bytes: &[u8]) -> Result<Self, String> {
        let (values, carried) = Self::parse(job, bytes)?;
        let hash = name.hash.as_slice().try_into();
        Ok(Self {
            version: name.version,
            hash: hash.map_err(|_| "the hash of the model must have 32 bytes")?,
            dim: values.len() as u64,
            values: Arc::new(values),
            carried,
            hidden: false,
        })
    }

    /// A model of which the name is known only.
    fn hidden(version: u64, hash: [u8; 32], dim: u64) -> Self {
        Self {
            version,
            hash,
            dim,
            values: Arc::new(Reals::Single(Vec::new())),
            carried: Carried::default(),
            hidden: true,
        }
    }

    /// Whether only the name of the model is known here, and not its values.
    pub fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// The name of the next model after a round whose sum is hidden, from the message that told the sum.
    pub fn named_after(&self, message: &[u8]) -> Self {
        let hash = kdf::hash("blindsum hidden model", &[&self.hash, message]);
        Self::hidden(self.version + 1, hash, self.dim)
    }

    /// The content of this model under the name of another.
    pub fn under_name_of(self, name: &Self) -> Self {
        Self {
            version: name.version,
            hash: name.hash,
            ..self
        }
    }

    /// The model after a round with this mean, by the job's `model_update` and `step`. `reached` is how far the updates of the parties
    /// went ([`Encoding::reached`](blindsum_encode::Encoding::reached)): of every tensor, where the model has a history.
    ///
    /// # Errors
    /// Another number of tensors than the history has; a mean of another precision or length than the model; and
    /// [`EncodeError::Model`] where the next model would not be finite.
    pub fn after(
        &self,
        mean: &Reals,
        reached: &[Reach],
        spec: &JobSpec,
    ) -> Result<Self, EncodeError> {
        let mut carried = self.carried.clone();
        let values = match spec.model_update {
            ModelUpdate::Nothing => return Ok(self.clone()),
            ModelUpdate::Replace => mean.clone(),
            ModelUpdate::Add => {
                let (values, state) = spec.step.rule().apply(&self.values, &carried.step, mean)?;
                carried.step = state.into();
                values
            }
        };
        let checked = values.check_finite();
        let checked = checked.and_then(|()| carried.step.check_finite());
        if let Err(EncodeError::NotFinite { index }) = checked {
            let version = self.version + 1;
            return Err(EncodeError::Model { version, index });
        }
        if let Some(history) = &mut carried.history {
            history.observe(reached)?;
        }
        Ok(Self::with(self.version + 1, values, carried))
    }

    /// The model after a round with this mean of updates that were not clipped: what is known of earlier updates stays.
    ///
    /// # Errors
    /// As for [`Model::after`].
    pub fn in_the_clear(&self, mean: &Reals, spec: &JobSpec) -> Result<Self, EncodeError> {
        let history = self.carried.history.clone();
        let mut without = self.clone();
        without.carried.history = None;
        let next = without.after(mean, &[], spec)?;
        let carried = Carried {
            history,
            ..next.carried
        };
        Ok(Self::with(
            next.version,
            Reals::clone(&next.values),
            carried,
        ))
    }

    /// The round with the clipping bounds that follow from the model's history, after the sums that are in the model.
    ///
    /// # Errors
    /// A history of another job.
    pub fn bind(&self, round: Round) -> Result<Round, Fault> {
        let round = round.after_sums(self.version);
        match &self.carried.history {
            None => Ok(round),
            // guard: campaign-bounds-follow-the-model
            Some(history) => round.with_clips(&history.clips()),
        }
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The hash.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// How far updates of earlier rounds went, where clipping bounds follow from that.
    pub fn history(&self) -> Option<&UpdateHistory> {
        self.carried.history.as_deref()
    }

    /// The values, `[dim]`; empty where the job keeps no model.
    pub fn values(&self) -> &Arc<Reals> {
        &self.values
    }

    /// The values as little-endian IEEE 754 numbers of the job's precision, then the history and the state of the step, if
    /// the job needs them.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = self.values.to_bytes();
        bytes.extend(self.carried.to_bytes().into_iter().flatten());
        bytes.into()
    }

    /// What a store keeps in addition to version and hash: the bytes of the model. If the values are not known, the
    /// number of coordinates as 8 bytes, little-endian.
    pub fn to_stored(&self) -> Bytes {
        match self.hidden {
            true => self.dim.to_le_bytes().to_vec().into(),
            false => self.to_bytes(),
        }
    }

    /// A model of which the store has only the name.
    pub fn hidden_from_stored(version: u64, hash: &[u8], stored: &[u8]) -> Option<Self> {
        let dim = u64::from_le_bytes(stored.try_into().ok()?);
        Some(Self::hidden(version, hash.try_into().ok()?, dim))
    }

    /// The name of the model in messages.
    pub fn name(&self) -> pb::ModelName {
        pb::ModelName {
            version: self.version,
            hash: self.hash.to_vec(),
            dim: self.dim,
        }
    }

    /// Whether a message names this very model.
    pub fn is(&self, name: &pb::ModelName) -> bool {
        self.version == name.version && self.hash[..] == name.hash[..]
    }
}

/// Bytes of a sealed model of `bytes` bytes.
pub fn sealed_len(bytes: u64) -> u64 {
    bytes + STORAGE_OVERHEAD as u64
}

/// Bytes of a model of this job that has so many values.
pub fn model_len(job: &Job, dim: u64) -> u64 {
    dim.saturating_mul(job.encoding().precision().bytes() as u64)
        .saturating_add(carried_len(job) as u64)
}

/// Bytes of a model of this job after its values: of its history and of the state of its step.
pub fn carried_len(job: &Job) -> usize {
    history_len(job).saturating_add(step_len(job))
}

/// Bytes of the history of updates in a model of this job.
fn history_len(job: &Job) -> usize {
    job.new_history().map_or(0, |history| history.encoded_len())
}

/// Bytes of the state of the server step in a model of this job.
fn step_len(job: &Job) -> usize {
    let one = (job.spec().dim as usize).saturating_mul(job.encoding().precision().bytes());
    one.saturating_mul(job.server_step().vectors())
}

#[cfg(test)]
mod tests;
