//! A value of a job specification as it is written in a file, a message or on the command line, before it is known for
//! which option.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value of a job specification, in TOML or JSON, as it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// JSON's null, which no option takes.
    Null,
    /// A truth value, which only hyperparameters take.
    Bool(bool),
    /// A whole number.
    Whole(i128),
    /// Any other number.
    Real(f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// Names and their values, in the order in which they are written. No name stands twice.
    Table(Vec<Entry>),
}

/// A name and its value.
pub(crate) type Entry = (String, Value);

impl Value {
    /// Whether two values are the same to the last bit: 0 is not -0, and NaN is itself.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Real(a), Self::Real(b)) => a.to_bits() == b.to_bits(),
            (Self::List(a), Self::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is(b))
            }
            (Self::Table(a), Self::Table(b)) => {
                let same = |((name, a), (other, b)): (&Entry, &Entry)| name == other && a.is(b);
                a.len() == b.len() && a.iter().zip(b).all(same)
            }
            _ => self == other,
        }
    }
}

impl fmt::Display for Value {
    /// Short, for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Whole(value) => write!(f, "{value}"),
            Self::Real(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "{value:?}"),
            Self::List(_) => f.write_str("a list"),
            Self::Table(_) => f.write_str("a table"),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Whole(value) => match (u64::try_from(*value), i64::try_from(*value)) {
                (_, Ok(value)) => serializer.serialize_i64(value),
                (Ok(value), _) => serializer.serialize_u64(value),
                _ => serializer.serialize_i128(*value),
            },
            Self::Real(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Table(entries) => {
                let mut table = serializer.serialize_map(Some(entries.len()))?;
                for (name, value) in entries {
                    table.serialize_entry(name, value)?;
                }
                table.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, text, a list or a table")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Real(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table: Vec<Entry> = Vec::new();
        let mut names = std::collections::BTreeSet::new();
        while let Some((name, value)) = entries.next_entry::<String, Value>()? {
            if !names.insert(name.clone()) {
                return Err(A::Error::custom(format!("{name}: occurs twice")));
            }
            table.push((name, value));
        }
        Ok(Value::Table(table))
    }
}
