//! `integers`: whole numbers as they are, neither clipped nor rounded.

use blindsum_encode::EncodingKind;

use super::EncodingTable;
use crate::core::names::ModelUpdate;
use crate::core::options::{at_least, table, within};
use crate::core::spec::{JobSpec, SpecError};

table! {
    /// Unsigned integers without quantisation, with exact sums.
    Integers = "integers";
    options {
        /// Bits of an integer.
        bits: u32 = 16, within(1.0, 64.0);
        /// Largest weight of an update; 1 gives every party the same weight.
        max_weight: u32 = 1, at_least(1.0);
    }
}

impl EncodingTable for Integers {
    fn kind(&self) -> EncodingKind {
        EncodingKind::Integers { bits: self.bits }
    }

    fn max_weight(&self) -> u32 {
        self.max_weight
    }

    /// No model is made of integers.
    fn model_update(&self) -> ModelUpdate {
        ModelUpdate::Nothing
    }

    fn check(&self, spec: &JobSpec) -> Result<(), SpecError> {
        if spec.model_update == ModelUpdate::Nothing {
            return Ok(());
        }
        let rule = format!(
            "model_update = {} must be none where encoding is integers: no model is made of them",
            spec.model_update
        );
        Err(SpecError::new("model_update", rule))
    }
}
