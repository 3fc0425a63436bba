//! Clipping bounds per tensor.

use std::collections::BTreeMap;

use super::SpecError;
use super::entries::{fields_of, part};
use crate::core::options::{Kind, Setting, Value, expected};

/// A run of coordinates with its own clipping bound.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorLayout {
    /// Name, for reports and warnings: no two tensors of a job have the same one. Several may have an empty one.
    pub name: String,
    /// Number of coordinates.
    pub len: u64,
    /// Bound on the absolute value of a coordinate.
    pub clip: f64,
}

/// Refuses a name that two tensors have.
pub(crate) fn check_names(tensors: &[TensorLayout]) -> Result<(), SpecError> {
    let mut first = BTreeMap::new();
    for (index, TensorLayout { name, .. }) in tensors.iter().enumerate() {
        if name.is_empty() {
            continue;
        }
        if let Some(other) = first.insert(name, index) {
            let rule = format!(
                "tensors.{index}.name = {name:?} must not be the name of tensors.{other} too: give each tensor a name of its \
                 own, or an empty one"
            );
            return Err(SpecError::new("tensors", rule));
        }
    }
    Ok(())
}

impl Setting for Vec<TensorLayout> {
    const KIND: Kind = Kind::Tensors;

    fn read(value: &Value) -> Result<Self, SpecError> {
        let Value::List(items) = value else {
            return Err(expected("a list of tensors", value));
        };
        let tensors = items.iter().enumerate();
        tensors
            .map(|(index, item)| tensor(item).map_err(|error| error.within(&index.to_string())))
            .collect()
    }

    fn write(&self) -> Value {
        let tensors = self.iter().map(|tensor| {
            Value::Table(vec![
                ("name".into(), tensor.name.write()),
                ("len".into(), tensor.len.write()),
                ("clip".into(), tensor.clip.write()),
            ])
        });
        Value::List(tensors.collect())
    }
}

fn tensor(item: &Value) -> Result<TensorLayout, SpecError> {
    let entries = fields_of(item, "a tensor", ["name", "len", "clip"])?;
    Ok(TensorLayout {
        name: part(entries, "name")?,
        len: part(entries, "len")?,
        clip: part(entries, "clip")?,
    })
}
