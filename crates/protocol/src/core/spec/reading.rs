//! A job specification from a file, a message or arguments.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::layout::elements;
use super::{JobSpec, SpecError, places, whole_table};
use crate::core::options::{Table, Value, expected};

/// What a job must say: there is no default that could be meant. `dim` may be left out where there is a layout.
pub(super) const REQUIRED: [&str; 3] = [places::PROTOCOL, "parties", DIM];
/// The number of coordinates.
pub(super) const DIM: &str = "dim";

impl JobSpec {
    /// Reads a job specification, with its fields in any order. Fields that are left out have their defaults.
    ///
    /// # Errors
    /// A field or option that is unknown or belongs elsewhere, a required field that is missing, or a value of another
    /// type. Rules are checked by [`validate`](Self::validate).
    pub fn read(written: &Value) -> Result<Self, SpecError> {
        let Value::Table(entries) = written else {
            return Err(expected("a table of fields", written).within("job"));
        };
        let mut spec = Self::default();
        // The choices come first: they say where the others belong.
        let (choices, others): (Vec<_>, Vec<_>) = entries
            .iter()
            .partition(|(name, _)| places::is_choice(name));
        for (name, value) in choices.into_iter().chain(others) {
            let value = match places::usual(name) {
                Some(usual) => &named(value, usual),
                None => value,
            };
            match spec.set(name, value) {
                Some(set) => set?,
                // guard: unknown-fields
                None => return Err(places::no_field(name, &spec)),
            }
        }
        let given = |name: &str| entries.iter().any(|(field, _)| field == name);
        let follows = !given(DIM) && !spec.layout.is_empty();
        if follows {
            spec.dim = elements(&spec.layout)?;
        }
        let mut required = REQUIRED.iter().filter(|name| !(follows && **name == DIM));
        if let Some(missing) = required.find(|name| !given(name)) {
            return Err(SpecError::new(*missing, "must be given"));
        }
        if !given(places::MODEL_UPDATE) {
            spec.model_update = spec.encoding.view().model_update();
        }
        Ok(spec)
    }

    /// Every field and option with its value.
    pub fn whole(&self) -> Value {
        match whole_table(self) {
            Value::Table(entries) => Value::Table(
                entries
                    .into_iter()
                    .filter(|(name, _)| name != "name")
                    .collect(),
            ),
            other => other,
        }
    }
}

/// A chosen table; one without a name is that of `usual`.
fn named(value: &Value, usual: &str) -> Value {
    match value {
        Value::Table(entries) if entries.iter().all(|(name, _)| name != "name") => {
            let name = ("name".to_owned(), Value::Text(usual.into()));
            Value::Table([name].into_iter().chain(entries.iter().cloned()).collect())
        }
        other => other.clone(),
    }
}

impl<'de> Deserialize<'de> for JobSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Value::deserialize(deserializer)?;
        Self::read(&written)
            .map_err(|error| D::Error::custom(format!("{}: {}", error.field, error.rule)))
    }
}
