//! The job's model: a vector with a version and a hash that everybody compares.

use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_crypto::seal::STORAGE_OVERHEAD;
use blindsum_encode::{EncodeError, Precision, Reach, Reals, UpdateHistory};
use blindsum_protocol::{Fault, Job, ModelUpdate, Round};
use bytes::Bytes;

use crate::{JobError, pb};

/// One version of a job's model. A job begins with version 0; in a job that changes its model each finished round adds one.
/// The values have the precision of the job ([`Encoding::precision`](blindsum_encode::Encoding::precision)), and all of
/// them are finite.
///
/// If clipping bounds follow from earlier rounds, the history of updates that decides them is part of the model: of its
/// bytes, after the values, and of its hash. So everybody who gets the model gets the history.
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
    /// Apart from the rest, as most models have none.
    history: Option<Box<UpdateHistory>>,
    hidden: bool,
}

/// Values and history.
type Parsed = (Reals, Option<Box<UpdateHistory>>);

impl Model {
    /// A model without a history, of the precision of these values; its hash is `H("blindsum model"; values)`, the values as
    /// little-endian IEEE 754 numbers.
    pub fn new(version: u64, values: impl Into<Reals>) -> Self {
        Self::with_history(version, values.into(), None)
    }

    /// A model with a history, if its job needs one. The hash is then `H("blindsum model"; values, history)`.
    fn with_history(version: u64, values: Reals, history: Option<Box<UpdateHistory>>) -> Self {
        let (bytes, state) = (values.to_bytes(), history.as_ref().map(|h| h.to_bytes()));
        let parts: Vec<&[u8]> = [&bytes].into_iter().chain(&state).map(|b| &b[..]).collect();
        Self {
            version,
            hash: kdf::hash("blindsum model", &parts),
            dim: values.len() as u64,
            values: Arc::new(values),
            history,
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
        Ok(Self::with_history(
            0,
            values,
            job.new_history().map(Box::new),
        ))
    }

    /// The first model of a job that was given none: zeros, or no values if the job keeps no model.
    pub fn initial(job: &Job) -> Self {
        let dim = match job.spec().model_update {
            ModelUpdate::Nothing => 0,
            ModelUpdate::Add | ModelUpdate::Replace => job.spec().dim as usize,
        };
        let zeros = Reals::zeros(job.encoding().precision(), dim);
        Self::with_history(0, zeros, job.new_history().map(Box::new))
    }

    /// Reads a model of this job from bytes.
    ///
    /// # Errors
    /// A length that no model of the job has, a value that is not finite, a history that cannot be read, or a hash that is
    /// not `expected`.
    pub fn from_bytes(
        job: &Job,
        version: u64,
        bytes: &[u8],
        expected: &[u8],
    ) -> Result<Self, JobError> {
        let refused = |rule| Err(JobError::Coordinator(rule));
        let (values, history) = match Self::parse(job, bytes) {
            Ok(parsed) => parsed,
            Err(rule) => return refused(format!("model version {version}: {rule}")),
        };
        let model = Self::with_history(version, values, history);
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
        let (values, history) = Self::parse(job, bytes)?;
        Ok(Self::with_history(version, values, history))
    }

    /// Values and history out of the bytes of a model.
    fn parse(job: &Job, bytes: &[u8]) -> Result<Parsed, String> {
        let (behind, precision) = (history_len(job), job.encoding().precision());
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
                _ => format!("no vector of {number} and {behind} bytes of history"),
            };
            return Err(format!("a model of {} bytes is {rule}", bytes.len()));
        };
        values.check_finite().map_err(|error| error.to_string())?;
        let history = match job.new_history() {
            None => None,
            Some(_) => {
                let history = UpdateHistory::from_bytes(job.encoding(), state);
                Some(Box::new(history.map_err(|error| error.to_string())?))
            }
        };
        Ok((values, history))
    }

    /// A model that another party sent. That party knows only the name of the model, too, and cannot check the values:
    /// they are what a holder of the job's key says.
    ///
    /// # Errors
    /// Bytes that are no model of the job.
    pub fn from_holder(job: &Job, name: &pb::ModelName, bytes: &[u8]) -> Result<Self, String> {
        let (values, history) = Self::parse(job, bytes)?;
        let hash = name.hash.as_slice().try_into();
        Ok(Self {
            version: name.version,
            hash: hash.map_err(|_| "the hash of the model must have 32 bytes")?,
            dim: values.len() as u64,
            values: Arc::new(values),
            history,
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
            history: None,
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

    /// The values and history of this model under the name of another.
    pub fn under_name_of(self, name: &Self) -> Self {
        Self {
            version: name.version,
            hash: name.hash,
            ..self
        }
    }

    /// The model after a round with this mean, by the job's `model_update`. `reached` is how far the updates of the parties
    /// went ([`Encoding::reached`](blindsum_encode::Encoding::reached)): of every tensor, where the model has a history.
    ///
    /// # Errors
    /// Another number of tensors than the history has; a mean of another precision or length than the model; and
    /// [`EncodeError::Model`] where the next model would not be finite.
    pub fn after(
        &self,
        mean: &Reals,
        reached: &[Reach],
        update: ModelUpdate,
    ) -> Result<Self, EncodeError> {
        let values = match update {
            ModelUpdate::Nothing => return Ok(self.clone()),
            ModelUpdate::Replace => mean.clone(),
            ModelUpdate::Add => self.values.plus(mean)?,
        };
        if let Err(EncodeError::NotFinite { index }) = values.check_finite() {
            let version = self.version + 1;
            return Err(EncodeError::Model { version, index });
        }
        let mut history = self.history.clone();
        if let Some(history) = &mut history {
            history.observe(reached)?;
        }
        Ok(Self::with_history(self.version + 1, values, history))
    }

    /// The model after a round with this mean of updates that were not clipped: what is known of earlier updates stays.
    ///
    /// # Errors
    /// As for [`Model::after`].
    pub fn in_the_clear(&self, mean: &Reals, update: ModelUpdate) -> Result<Self, EncodeError> {
        let without = Self {
            history: None,
            ..self.clone()
        };
        let next = without.after(mean, &[], update)?;
        let values = Reals::clone(&next.values);
        Ok(Self::with_history(
            next.version,
            values,
            self.history.clone(),
        ))
    }

    /// The round with the clipping bounds that follow from the model's history, after the sums that are in the model.
    ///
    /// # Errors
    /// A history of another job.
    pub fn bind(&self, round: Round) -> Result<Round, Fault> {
        let round = round.after_sums(self.version);
        match &self.history {
            None => Ok(round),
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
        self.history.as_deref()
    }

    /// The values, `[dim]`; empty where the job keeps no model.
    pub fn values(&self) -> &Arc<Reals> {
        &self.values
    }

    /// The values as little-endian IEEE 754 numbers of the job's precision, then the history if the job needs one.
    pub fn to_bytes(&self) -> Bytes {
        let mut bytes = self.values.to_bytes();
        bytes.extend(self.history.iter().flat_map(|history| history.to_bytes()));
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
        .saturating_add(history_len(job) as u64)
}

/// Bytes of a model of this job after its values.
pub fn history_len(job: &Job) -> usize {
    job.new_history().map_or(0, |history| history.encoded_len())
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::{Clipping, Fixed64, JobSpec, ProtocolName, Quantised};

    use super::*;

    fn job(clipping: Clipping) -> Job {
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            dim: 3,
            encoding: Quantised {
                clipping,
                ..Default::default()
            }
            .into(),
            ..JobSpec::default()
        };
        spec.validate().unwrap()
    }

    fn singles<const N: usize>(values: [f32; N]) -> Reals {
        Reals::Single(values.to_vec())
    }

    #[test]
    fn a_model_is_finite() {
        let job = job(Clipping::Tensor);
        let large = Model::first(&job, vec![0.0, 3e38, 1.0]).unwrap();
        let grown = large.after(&singles([0.0, 1e38, 0.0]), &[], ModelUpdate::Add);
        let (version, index) = (1, 1);
        assert_eq!(grown, Err(EncodeError::Model { version, index }));
        assert!(
            large
                .after(&singles([0.0, f32::NAN, 0.0]), &[], ModelUpdate::Replace)
                .is_err()
        );
        for bad in [f64::NAN, f64::INFINITY, 1e39] {
            let refused = Model::first(&job, vec![0.0, 0.0, bad]);
            assert_eq!(refused, Err(EncodeError::NotFinite { index: 2 }));
            let bytes = singles([0.0, 0.0, bad as f32]).to_bytes();
            let hash = kdf::hash("blindsum model", &[&bytes]);
            let error = Model::from_bytes(&job, 1, &bytes, &hash)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("coordinate 2 is not a finite number"),
                "{error}"
            );
        }
        let short = Model::first(&job, vec![0.0; 2]);
        assert_eq!(short, Err(EncodeError::Dim { got: 2, dim: 3 }));
    }

    #[test]
    fn wide_values_have_a_model_of_doubles() {
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            dim: 2,
            encoding: Fixed64::default().into(),
            ..JobSpec::default()
        };
        let job = spec.validate().unwrap();
        let first = Model::first(&job, vec![0.1_f64, 1e300]).unwrap();
        let mean = Reals::Double(vec![0.25, 1.0]);
        let next = first.after(&mean, &[], ModelUpdate::Add).unwrap();
        assert_eq!(*next.values(), Arc::new(Reals::Double(vec![0.35, 1e300])));
        let bytes = next.to_bytes();
        assert_eq!(bytes.len() as u64, model_len(&job, 2));
        assert_eq!(
            Model::from_bytes(&job, 1, &bytes, next.hash()).unwrap(),
            next
        );
        assert!(Model::from_bytes(&job, 1, &bytes[..12], next.hash()).is_err());
        assert!(
            first
                .after(&singles([0.0; 2]), &[], ModelUpdate::Add)
                .is_err()
        );
        assert_eq!(Model::initial(&job).to_bytes().len(), 16);
    }

    #[test]
    fn bytes_and_back() {
        let job = job(Clipping::Tensor);
        let model = Model::new(3, vec![1.0_f32, -0.0, f32::MIN_POSITIVE]);
        let read = |bytes: &[u8], hash: &[u8]| Model::from_bytes(&job, 3, bytes, hash);
        let bytes = model.to_bytes();
        assert_eq!(model, read(&bytes, model.hash()).unwrap());
        assert!(read(&bytes[1..], model.hash()).is_err());
        assert!(read(&bytes, &[0; 32]).is_err());
    }

    #[test]
    fn updates_count_versions() {
        let model = Model::new(0, vec![1.0_f32, 2.0]);
        let added = model
            .after(&singles([0.5, -1.0]), &[], ModelUpdate::Add)
            .unwrap();
        assert_eq!(
            (added.version(), added.values().to_doubles()),
            (1, vec![1.5, 1.0])
        );
        let replaced = added
            .after(&singles([9.0, 8.0]), &[], ModelUpdate::Replace)
            .unwrap();
        assert_eq!(replaced.values().to_doubles(), [9.0, 8.0]);
        assert_eq!(replaced.version(), 2);
        let same = replaced.after(&singles([1.0, 1.0]), &[], ModelUpdate::Nothing);
        assert_eq!(same.unwrap(), replaced);
        assert_ne!(model.hash(), added.hash());
    }

    #[test]
    fn hidden_models_are_named_after_what_was_told() {
        for dim in [0, 3] {
            let first = Model::new(0, vec![1.0_f32; dim]);
            let (one, other) = (first.named_after(b"one"), first.named_after(b"other"));
            assert_eq!((one.version(), one.is_hidden()), (1, true));
            assert_ne!(one.hash(), other.hash());
            assert_ne!(
                one.named_after(b"one").hash(),
                other.named_after(b"one").hash()
            );
            let stored = one.to_stored();
            let read = |hash: &[u8], bytes: &[u8]| Model::hidden_from_stored(1, hash, bytes);
            assert_eq!(read(one.hash(), &stored), Some(one.clone()));
            assert_eq!(read(&[1; 31], &stored), None);
            assert_eq!(read(one.hash(), &stored[1..]), None);
        }
    }

    #[test]
    fn the_history_travels_with_the_model() {
        let (job, plain) = (job(Clipping::Aciq), job(Clipping::Tensor));
        let model = Model::initial(&job);
        assert_ne!(model.hash(), Model::initial(&plain).hash());
        let after = |far| model.after(&singles([0.1, 0.0, -0.1]), &[far], ModelUpdate::Add);
        let (two, three) = (after(Reach::TINY).unwrap(), after(Reach::SMALL).unwrap());
        assert_eq!(two.values(), three.values());
        assert_ne!(two.hash(), three.hash());
        let bytes = two.to_bytes();
        assert_eq!(bytes.len(), 12 + history_len(&job));
        let read = |job: &Job, bytes: &[u8]| Model::from_bytes(job, 1, bytes, two.hash());
        assert_eq!(read(&job, &bytes).unwrap(), two);
        assert!(read(&plain, &bytes).is_err());
        assert!(read(&job, &bytes[..12]).is_err() && read(&job, &bytes[..5]).is_err());
        let mut damaged = bytes.to_vec();
        damaged[12] ^= 1;
        let error = read(&job, &damaged).unwrap_err().to_string();
        assert!(error.contains("update history"), "{error}");
        assert!(
            model
                .after(&singles([f32::NAN; 3]), &[Reach::TINY], ModelUpdate::Add)
                .is_err()
        );
        let none = model.after(&singles([0.1, 0.0, -0.1]), &[], ModelUpdate::Add);
        assert!(none.is_err());
    }
}
