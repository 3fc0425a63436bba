//! The encoding of numbers as words: the encodings, each with its own table of options. To add one, add its file and
//! its line here; no other code needs to know it.

mod fixed64;
mod integers;
mod quantised;

pub use quantised::{Clipping, RoundingName};

use blindsum_encode::EncodingKind;

use super::{JobSpec, SpecError, TensorLayout};
use crate::core::names::ModelUpdate;
use crate::core::options::{Setting, Value};
use crate::core::spec::choose_table;

choose_table! {
    /// The encoding of numbers as words, with its options.
    EncodingChoice,
    /// The encoding of numbers as words.
    EncodingName, EncodingTable;
    quantised::Quantised,
    fixed64::Fixed64,
    integers::Integers,
}

/// What the rest of this crate asks an encoding.
pub(crate) trait EncodingTable {
    /// How the encoding makes a word of a coordinate.
    fn kind(&self) -> EncodingKind;

    /// Largest weight of an update.
    fn max_weight(&self) -> u32;

    /// Clipping bounds per tensor; empty for one bound or none.
    fn tensors(&self) -> &[TensorLayout] {
        &[]
    }

    /// Whether the bounds of later rounds are found from earlier ones.
    fn learns_bounds(&self) -> bool {
        false
    }

    /// What the mean does to the job's model if the job does not say it.
    fn model_update(&self) -> ModelUpdate {
        ModelUpdate::Add
    }

    /// The rules that look at more than one option.
    fn check(&self, _spec: &JobSpec) -> Result<(), SpecError> {
        Ok(())
    }
}

impl EncodingChoice {
    /// The encoding of a job on the command line that names none: the default one, or integers if `bits` is more than
    /// any other encoding allows.
    pub(super) fn unnamed(bits: Option<&Value>) -> Self {
        let bits = match bits {
            Some(Value::Text(text)) => u32::KIND.value_of(text),
            Some(value) => value.clone(),
            None => Value::Null,
        };
        match bits {
            Value::Whole(33..) => Integers::default().into(),
            _ => Quantised::default().into(),
        }
    }

    /// Largest weight of an update.
    pub fn max_weight(&self) -> u32 {
        self.view().max_weight()
    }

    /// Clipping bounds per tensor; empty for one bound or none.
    pub fn tensors(&self) -> &[TensorLayout] {
        self.view().tensors()
    }

    /// The bound of a coordinate or of the L2 norm, if there is one.
    pub fn clip(&self) -> Option<f64> {
        match self.kind() {
            EncodingKind::Quantised { clip, .. } => Some(clip.clip()),
            EncodingKind::Fixed64 { clip } => Some(clip),
            EncodingKind::Integers { .. } => None,
        }
    }

    /// Bits of an integer, if coordinates are integers.
    pub fn integer_bits(&self) -> Option<u32> {
        match self.kind() {
            EncodingKind::Integers { bits } => Some(bits),
            EncodingKind::Quantised { .. } | EncodingKind::Fixed64 { .. } => None,
        }
    }

    /// How the encoding makes a word of a coordinate.
    pub fn kind(&self) -> EncodingKind {
        self.view().kind()
    }
}
