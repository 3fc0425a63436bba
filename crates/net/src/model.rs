//! The job's model: a vector with a version and a hash that everybody compares.

use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_protocol::{Job, ModelUpdate};
use bytes::Bytes;

use crate::NetError;
use crate::pb;

/// One version of a job's model. Version 0 is where the job begins; each finished round of a job that
/// changes its model adds 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    version: u64,
    hash: [u8; 32],
    values: Arc<[f32]>,
}

impl Model {
    /// A model; its hash is `H("blindsum model"; values)`, the values as little-endian IEEE 754 single
    /// precision numbers.
    pub fn new(version: u64, values: impl Into<Arc<[f32]>>) -> Self {
        let values = values.into();
        let hash = kdf::hash("blindsum model", &[&to_bytes(&values)]);
        Self {
            version,
            hash,
            values,
        }
    }

    /// Where a job begins that was given no model: zeros, or nothing at all where the job keeps no
    /// model.
    pub fn initial(job: &Job) -> Self {
        let dim = match job.spec().model_update {
            ModelUpdate::Nothing => 0,
            ModelUpdate::Add | ModelUpdate::Replace => job.spec().dim as usize,
        };
        Self::new(0, vec![0.0; dim])
    }

    /// Reads a model from bytes.
    ///
    /// # Errors
    /// A length that is no multiple of 4, or a hash that is not `expected`.
    pub fn from_bytes(version: u64, bytes: &[u8], expected: &[u8]) -> Result<Self, NetError> {
        let (values, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            let rule = format!("a model of {} bytes is no vector of f32", bytes.len());
            return Err(NetError::Coordinator(rule));
        }
        let values: Arc<[f32]> = values.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let model = Self::new(version, values);
        match model.hash == expected {
            true => Ok(model),
            false => Err(NetError::Coordinator(format!(
                "model version {version}: its hash is not the one announced"
            ))),
        }
    }

    /// The model after a round with this mean, by the job's `model_update`.
    pub fn after(&self, mean: &[f32], update: ModelUpdate) -> Self {
        let values: Arc<[f32]> = match update {
            ModelUpdate::Nothing => return self.clone(),
            ModelUpdate::Replace => mean.into(),
            ModelUpdate::Add => self.values.iter().zip(mean).map(|(m, d)| m + d).collect(),
        };
        Self::new(self.version + 1, values)
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The hash.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// The values, `[dim]`; empty where the job keeps no model.
    pub fn values(&self) -> &Arc<[f32]> {
        &self.values
    }

    /// The values as little-endian IEEE 754 single precision numbers.
    pub fn to_bytes(&self) -> Bytes {
        to_bytes(&self.values).into()
    }

    pub(crate) fn name(&self) -> pb::ModelName {
        pb::ModelName {
            version: self.version,
            hash: self.hash.to_vec(),
            dim: self.values.len() as u64,
        }
    }

    /// Whether a message names this very model.
    pub(crate) fn is(&self, name: &pb::ModelName) -> bool {
        self.version == name.version && self.hash[..] == name.hash[..]
    }
}

fn to_bytes(values: &[f32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4 * values.len());
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        let model = Model::new(3, vec![1.0, -0.0, f32::MIN_POSITIVE]);
        let again = Model::from_bytes(3, &model.to_bytes(), model.hash()).unwrap();
        assert_eq!(model, again);
        assert!(Model::from_bytes(3, &model.to_bytes()[1..], model.hash()).is_err());
        assert!(Model::from_bytes(3, &model.to_bytes(), &[0; 32]).is_err());
    }

    #[test]
    fn updates_count_versions() {
        let model = Model::new(0, vec![1.0, 2.0]);
        let added = model.after(&[0.5, -1.0], ModelUpdate::Add);
        assert_eq!((added.version(), &added.values()[..]), (1, &[1.5, 1.0][..]));
        let replaced = added.after(&[9.0, 8.0], ModelUpdate::Replace);
        assert_eq!(replaced.values()[..], [9.0, 8.0]);
        assert_eq!(replaced.version(), 2);
        assert_eq!(replaced.after(&[1.0, 1.0], ModelUpdate::Nothing), replaced);
        assert_ne!(model.hash(), added.hash());
    }
}
