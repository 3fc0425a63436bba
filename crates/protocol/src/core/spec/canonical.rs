//! The canonical form of a specification: the fields and options that differ from their defaults. Only these are sent and
//! hashed. So a party refuses only options that it does not know and that are used, and a new option changes no job that
//! does not use it.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::{JobSpec, places, reading};
use crate::core::options::{Setting, Table, Value};

impl JobSpec {
    /// The canonical form, as it is sent: a table with sorted names. The names of protocol and encoding, `parties` and
    /// `dim` are always in it, the other fields and options if they differ from their defaults. Another choice of a table,
    /// as of `step`, is in it if its name or one of its options differs.
    pub fn canonical(&self) -> Value {
        let mut form: Vec<(String, Value)> = Vec::new();
        for (dotted, value) in self.dotted() {
            match (dotted.split_once('.'), form.last_mut()) {
                // What is chosen comes before its options, and they come before anything else.
                (Some((table, option)), Some((chosen, options))) if chosen == table => {
                    add_option(options, option, value);
                }
                (Some((table, option)), _) => {
                    form.push((table.into(), Value::Table(vec![(option.into(), value)])));
                }
                _ => form.push((dotted, value)),
            }
        }
        Value::Table(form)
    }

    /// The hash of the canonical form: for each dotted name, in the order of their bytes, the name and then the value.
    /// Each part has its length in front, each value a letter for its type (docs/wire-derivations.md).
    pub fn hash(&self) -> [u8; 32] {
        let mut parts = Vec::new();
        for (name, value) in self.dotted() {
            parts.push(name.into_bytes());
            push_parts(&mut parts, &value);
        }
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        blindsum_crypto::kdf::hash("blindsum job", &parts)
    }

    /// The canonical form by dotted names: `protocol` is the name of the protocol, `protocol.neighbours` its option,
    /// `parameters.epochs` a hyperparameter.
    fn dotted(&self) -> BTreeMap<String, Value> {
        let usual_update = self.encoding.view().model_update().write();
        let mut form = BTreeMap::new();
        for (option, value, default) in with_defaults(self) {
            let default = match option {
                places::MODEL_UPDATE => &usual_update,
                _ => &default,
            };
            if let (places::PARAMETERS, Value::Table(entries)) = (option, &value) {
                let entries = entries.iter();
                form.extend(
                    entries.map(|(name, value)| (format!("{option}.{name}"), value.clone())),
                );
                continue;
            }
            if !places::is_choice(option)
                && (reading::REQUIRED.contains(&option) || !value.is(default))
            {
                form.insert(option.into(), value);
            }
        }
        let usual = Self::default();
        for ((field, table), (_, usual)) in self.choices().zip(usual.choices()) {
            let options = with_defaults(table).filter(|(_, value, default)| !value.is(default));
            let options: Vec<_> = options
                .map(|(option, value, _)| (format!("{field}.{option}"), value))
                .collect();
            // A default choice is left out, as it was in jobs from before this choice.
            let is_usual = table.name() == usual.name() && options.is_empty();
            if !is_usual || [places::PROTOCOL, places::ENCODING].contains(&field) {
                form.insert(field.into(), Value::Text(table.name().into()));
            }
            form.extend(options);
        }
        form
    }
}

/// Serialises the [canonical form](JobSpec::canonical): a reader makes the same specification of it.
impl Serialize for JobSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.canonical().serialize(serializer)
    }
}

/// Every option of a table with its value and its default.
fn with_defaults(table: &dyn Table) -> impl Iterator<Item = (&'static str, Value, Value)> {
    let pairs = table.options().into_iter().zip(table.defaults());
    pairs.map(|((option, value), (_, default))| (option.name, value, default))
}

/// A name becomes a table with its first option.
fn add_option(chosen: &mut Value, option: &str, value: Value) {
    if let Value::Text(name) = chosen {
        *chosen = Value::Table(vec![("name".into(), Value::Text(std::mem::take(name)))]);
    }
    if let Value::Table(options) = chosen {
        options.push((option.into(), value));
    }
}

/// The parts that a value adds to the hash.
fn push_parts(parts: &mut Vec<Vec<u8>>, value: &Value) {
    let led = |letter: u8, bytes: &[u8]| [&[letter], bytes].concat();
    match value {
        Value::Text(text) => parts.push(led(b't', text.as_bytes())),
        Value::Whole(number @ ..0) => parts.push(led(b'i', &(*number as i64).to_be_bytes())),
        Value::Whole(number) => parts.push(led(b'n', &(*number as u64).to_be_bytes())),
        Value::Real(number) => parts.push(led(b'r', &number.to_bits().to_be_bytes())),
        Value::List(items) => {
            parts.push(led(b'l', &(items.len() as u64).to_be_bytes()));
            items.iter().for_each(|item| push_parts(parts, item));
        }
        // The parts of a tensor, in their order.
        Value::Table(entries) => entries
            .iter()
            .for_each(|(_, value)| push_parts(parts, value)),
        Value::Bool(truth) => parts.push(led(b'b', &[u8::from(*truth)])),
        // No option has it.
        Value::Null => {}
    }
}
