//! Clipping bounds per tensor.

use super::SpecError;
use crate::core::options::{Kind, Setting, Value, expected};

/// A run of coordinates with its own clipping bound.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorLayout {
    /// Name, for reports.
    pub name: String,
    /// Number of coordinates.
    pub len: u64,
    /// Bound on the absolute value of a coordinate.
    pub clip: f64,
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
    let fields = "a table with name, len and clip";
    let Value::Table(entries) = item else {
        return Err(expected(fields, item));
    };
    if let Some((name, _)) = entries
        .iter()
        .find(|(name, _)| !["name", "len", "clip"].contains(&name.as_str()))
    {
        return Err(SpecError::new(
            name,
            format!("is unknown: a tensor is {fields}"),
        ));
    }
    Ok(TensorLayout {
        name: part(entries, "name")?,
        len: part(entries, "len")?,
        clip: part(entries, "clip")?,
    })
}

fn part<T: Setting>(entries: &[(String, Value)], name: &str) -> Result<T, SpecError> {
    let given = entries.iter().find(|(given, _)| given == name);
    let (_, value) = given.ok_or_else(|| SpecError::new(name, "must be given"))?;
    T::read(value).map_err(|error| error.within(name))
}
