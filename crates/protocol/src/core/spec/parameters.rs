//! The hyperparameters of a job: a free table, which the parties' programs read.

use std::collections::BTreeMap;

use super::SpecError;
use crate::core::options::{Kind, Setting, Value, expected};

/// Most names of the table.
pub const MAX_PARAMETERS: usize = 256;
/// Most lists within each other.
pub const MAX_DEPTH: usize = 4;
/// Most values of the table, those of lists included.
pub const MAX_VALUES: usize = 4096;
/// Most bytes of all names and texts together.
pub const MAX_TEXT: usize = 1 << 16;
/// The whole numbers that a value may be: those of TOML.
const WHOLE: std::ops::RangeInclusive<i128> = i64::MIN as i128..=i64::MAX as i128;

/// The hyperparameters of a job, by name: numbers, text, truth values, and lists of these. Blindsum does not read them.
/// They are in the hash of the job, so that all parties have the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(BTreeMap<String, Value>);

impl Parameters {
    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl Setting for Parameters {
    const KIND: Kind = Kind::Parameters;

    fn read(value: &Value) -> Result<Self, SpecError> {
        let Value::Table(entries) = value else {
            return Err(expected("a table of names and values", value));
        };
        if entries.len() > MAX_PARAMETERS {
            let rule = format!("{} names <= {MAX_PARAMETERS} must hold", entries.len());
            return Err(SpecError::new("", rule));
        }
        let mut size = Size::default();
        for (name, value) in entries {
            let checked = check_name(name).and_then(|()| size.count(value, 0));
            checked.map_err(|error| error.within(name))?;
            size.text += name.len();
        }
        size.check()?;
        Ok(Self(entries.iter().cloned().collect()))
    }

    fn write(&self) -> Value {
        let entries = self.0.iter();
        Value::Table(
            entries
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        )
    }
}

/// How much a table holds.
#[derive(Default)]
struct Size {
    values: usize,
    text: usize,
}

impl Size {
    /// Counts a value that stands in `depth` lists.
    fn count(&mut self, value: &Value, depth: usize) -> Result<(), SpecError> {
        self.values += 1;
        match value {
            Value::Bool(_) => Ok(()),
            Value::Text(text) => {
                self.text += text.len();
                Ok(())
            }
            // guard: parameters-are-finite
            Value::Real(number) if number.is_finite() => Ok(()),
            Value::Real(_) => Err(expected("a finite number", value)),
            Value::Whole(number) if WHOLE.contains(number) => Ok(()),
            Value::Whole(_) => Err(expected("a whole number from -2^63 to 2^63 - 1", value)),
            Value::List(_) if depth == MAX_DEPTH => Err(SpecError::new(
                "",
                format!("lists must be nested at most {MAX_DEPTH} deep"),
            )),
            Value::List(items) => {
                let mut items = items.iter().enumerate();
                items.try_for_each(|(place, item)| {
                    self.count(item, depth + 1)
                        .map_err(|error| error.within(&place.to_string()))
                })
            }
            Value::Null | Value::Table(_) => Err(expected(
                "a number, text, true, false, or a list of these",
                value,
            )),
        }
    }

    fn check(&self) -> Result<(), SpecError> {
        for (what, have, most) in [
            ("values", self.values, MAX_VALUES),
            ("bytes of names and text", self.text, MAX_TEXT),
        ] {
            // guard: parameters-are-bounded
            if have > most {
                let rule = format!(
                    "{have} {what} <= {most} must hold: store large data outside of the job"
                );
                return Err(SpecError::new("", rule));
            }
        }
        Ok(())
    }
}

/// A name that every language can have as that of an argument.
fn check_name(name: &str) -> Result<(), SpecError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let fits = (1..=64).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with(|c: char| c.is_ascii_digit());
    match fits {
        true => Ok(()),
        false => Err(SpecError::new(
            "",
            "a name is 1 to 64 of a-z A-Z 0-9 _, and begins with no digit",
        )),
    }
}

/// The value that a word of the command line stands for.
pub(super) fn value_of(text: &str) -> Value {
    match (text, text.parse::<i64>(), text.parse::<f64>()) {
        ("true", ..) => Value::Bool(true),
        ("false", ..) => Value::Bool(false),
        (_, Ok(number), _) => Value::Whole(number.into()),
        (_, _, Ok(number)) if number.is_finite() => Value::Real(number),
        _ => Value::Text(text.into()),
    }
}
