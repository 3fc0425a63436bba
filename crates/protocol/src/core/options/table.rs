//! Tables of options and their types, for programs that list options.

use super::{Rule, SpecError, Value};

/// A name with one line about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
}

/// The type of an option.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A whole number from 0 to this one.
    Whole(u64),
    /// A number.
    Real,
    /// Text.
    Text,
    /// One of these names.
    OneOf(&'static [Named]),
    /// A list of tables with `name`, `len` and `clip`: the bounds of tensors.
    Tensors,
    /// A list of tables with `name`, `low` and `high`: the metrics of training.
    Metrics,
    /// A list of lines with a name, an element type and a shape: the layout of a model.
    Layout,
    /// A free table of numbers, text, truth values and lists of these.
    Parameters,
    /// One of these tables, chosen by its name.
    Tables(fn() -> Vec<Box<dyn Table>>),
}

/// The declaration of an option.
#[derive(Clone, Copy)]
pub struct OptionInfo {
    /// Its name.
    pub name: &'static str,
    /// One line about it.
    pub doc: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Which values of that type it may have.
    pub rule: Rule,
}

/// A table of options with their values.
pub trait Table {
    /// The name by which the table is chosen, as in `secagg+`.
    fn name(&self) -> &'static str;

    /// The name of the table in programs, as in `SecAggPlus`.
    fn title(&self) -> &'static str;

    /// One line about what is chosen.
    fn doc(&self) -> &'static str;

    /// Every option with its value, in the order of its declaration.
    fn options(&self) -> Vec<(&'static OptionInfo, Value)>;

    /// Every option with its default.
    fn defaults(&self) -> Vec<(&'static OptionInfo, Value)>;

    /// Sets an option. `None` if the table has none of this name.
    fn set(&mut self, name: &str, value: &Value) -> Option<Result<(), SpecError>>;
}

impl Kind {
    /// The value that a word of the command line stands for: whole numbers may be written like 1e6. What is not
    /// of this type stays text, for the one who reads it to refuse.
    pub(crate) fn value_of(self, text: &str) -> Value {
        let text_as_it_is = || Value::Text(text.into());
        match self {
            Self::Whole(_) => match (text.parse::<i128>(), text.parse::<f64>()) {
                (Ok(number), _) => Value::Whole(number),
                (_, Ok(number)) if number.fract() == 0.0 && number.abs() < 1e30 => {
                    Value::Whole(number as i128)
                }
                _ => text_as_it_is(),
            },
            Self::Real => text.parse().map_or_else(|_| text_as_it_is(), Value::Real),
            Self::Text
            | Self::OneOf(_)
            | Self::Tensors
            | Self::Metrics
            | Self::Layout
            | Self::Parameters
            | Self::Tables(_) => text_as_it_is(),
        }
    }
}
