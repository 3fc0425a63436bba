//! How the values of each type of option are read and written.

use super::{Bounds, Edge, Kind, OptionInfo, Rule, SpecError, Table, Value};

/// A type that an option can have.
pub(crate) trait Setting: Sized {
    /// The type, for everybody who lists options.
    const KIND: Kind;

    /// Reads a value. The field of an error is where in the value it is, empty for all of it.
    fn read(value: &Value) -> Result<Self, SpecError>;

    /// The value as it is written.
    fn write(&self) -> Value;

    /// The chosen table, where the option chooses one.
    fn table(&self) -> Option<&dyn Table> {
        None
    }
}

/// What a value should have been.
pub(crate) fn expected(what: &str, found: &Value) -> SpecError {
    SpecError::new("", format!("must be {what}, not {found}"))
}

/// The error about a value that an option could not read: of a whole number it names the range of the option, not that
/// of the type.
pub(crate) fn in_range(option: &OptionInfo, error: SpecError, value: &Value) -> SpecError {
    let Kind::Whole(largest) = option.kind else {
        return error;
    };
    let edge = |edge| match edge {
        Edge::At(number) => Some(number as u64),
        Edge::Open | Edge::Beyond(_) => None,
    };
    let (least, most) = match option.rule {
        Rule::Within(Bounds { least, most }) => (edge(least), edge(most)),
        Rule::Any | Rule::Fits { .. } => (None, None),
    };
    let (least, most) = (least.unwrap_or(0), most.unwrap_or(largest));
    let range = format!("a whole number from {least} to {most}");
    match value {
        Value::Real(number) if number.fract() == 0.0 && (0.0..1e15).contains(number) => {
            let error = expected(&range, value);
            SpecError::new(error.field, format!("{}: write {number}", error.rule))
        }
        _ => expected(&range, value),
    }
}

/// Names as a sentence lists them: `a`, `a and b`, `a, b and c`.
pub(crate) fn listing(names: &[&str]) -> String {
    match names {
        [] => "none".into(),
        [one] => (*one).into(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn whole(value: &Value, most: u64) -> Result<u64, SpecError> {
    match value {
        Value::Whole(number) => u64::try_from(*number).ok().filter(|number| *number <= most),
        _ => None,
    }
    .ok_or_else(|| expected(&format!("a whole number from 0 to {most}"), value))
}

impl Setting for u32 {
    const KIND: Kind = Kind::Whole(u32::MAX as u64);

    fn read(value: &Value) -> Result<Self, SpecError> {
        Ok(whole(value, u32::MAX.into())? as u32)
    }

    fn write(&self) -> Value {
        Value::Whole((*self).into())
    }
}

impl Setting for u64 {
    const KIND: Kind = Kind::Whole(u64::MAX);

    fn read(value: &Value) -> Result<Self, SpecError> {
        whole(value, u64::MAX)
    }

    fn write(&self) -> Value {
        Value::Whole((*self).into())
    }
}

impl Setting for f64 {
    const KIND: Kind = Kind::Real;

    fn read(value: &Value) -> Result<Self, SpecError> {
        match value {
            Value::Real(number) => Ok(*number),
            Value::Whole(number) => Ok(*number as f64),
            _ => Err(expected("a number", value)),
        }
    }

    fn write(&self) -> Value {
        Value::Real(*self)
    }
}

impl Setting for String {
    const KIND: Kind = Kind::Text;

    fn read(value: &Value) -> Result<Self, SpecError> {
        match value {
            Value::Text(text) => Ok(text.clone()),
            _ => Err(expected("text", value)),
        }
    }

    fn write(&self) -> Value {
        Value::Text(self.clone())
    }
}
