//! The error about a job specification.

use blindsum_encode::EncodeError;

/// A field of a job specification, and the rule that it breaks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("job specification: {field}: {rule}")]
pub struct SpecError {
    /// The field, dotted where it is an option of a table: `protocol.neighbours`.
    pub field: String,
    /// The rule, as an inequality where it is one, with the values that break it.
    pub rule: String,
}

impl SpecError {
    pub(crate) fn new(field: impl Into<String>, rule: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            rule: rule.into(),
        }
    }

    /// The same of a value that is part of `field`.
    pub(crate) fn within(self, field: &str) -> Self {
        let field = match self.field.as_str() {
            "" => field.into(),
            inner => format!("{field}.{inner}"),
        };
        Self { field, ..self }
    }
}

/// The fields of an encoding have the names that they have in the job.
impl From<EncodeError> for SpecError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Spec { field, rule } => Self::new(field, rule),
            other => Self::new("encoding", other.to_string()),
        }
    }
}
