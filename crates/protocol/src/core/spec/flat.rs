//! A job specification from the settings of a command line, where options are given without their table.

use std::collections::BTreeMap;

use super::encodings::EncodingChoice;
use super::parameters::value_of;
use super::{JobSpec, SpecError, places};
use crate::core::options::{Table, Value};

impl JobSpec {
    /// Reads settings such as `neighbours` = `20`. Each belongs to the job, or to the chosen protocol, encoding,
    /// step or stop, whichever has such an option; `protocol.neighbours` means the same as `neighbours`. Of two settings of
    /// one option the later counts. `parameters.epochs` = `3` sets a hyperparameter. Numbers may be given as text. If no
    /// encoding is named, `bits` above 32 means
    /// integers.
    ///
    /// # Errors
    /// As [`read`](Self::read); a setting that neither the job nor its chosen tables have. The error says where
    /// it belongs.
    pub fn read_flat(settings: &[(String, Value)]) -> Result<Self, SpecError> {
        let setting = |name: &str| {
            let mut latest = settings.iter().rev();
            latest.find(|(given, _)| bare(given) == name)
        };
        // The choice of a table, by its name or by one of its options.
        let named = |field: &str| match (setting(field), places::usual(field)) {
            (Some((_, value)), _) => Some(value.clone()),
            (None, Some(usual))
                if settings
                    .iter()
                    .any(|(name, _)| placed(name).0 == Some(field)) =>
            {
                Some(Value::Text(usual.into()))
            }
            (None, _) => None,
        };
        let mut spec = Self {
            encoding: EncodingChoice::unnamed(setting("bits").map(|(_, value)| value)),
            ..Self::default()
        };
        for field in places::choices().map(|(field, _)| field) {
            let Some(value) = named(field) else {
                continue;
            };
            if let Value::Table(_) = value {
                let rule = format!("must be a name; give options beside it, as in {field}.OPTION");
                return Err(SpecError::new(field, rule));
            }
            spec.set(field, &value).transpose()?;
        }
        Self::read(&nested(settings, &spec)?)
    }
}

/// The settings with each option in its table. `chosen` says what is chosen.
fn nested(settings: &[(String, Value)], chosen: &JobSpec) -> Result<Value, SpecError> {
    let tables: Vec<_> = chosen.choices().collect();
    let mut fields = BTreeMap::new();
    let mut options = vec![BTreeMap::<String, Value>::new(); tables.len()];
    let mut parameters = BTreeMap::new();
    for (name, value) in settings {
        if let Some((places::PARAMETERS, name)) = name.split_once('.') {
            parameters.insert(name.to_owned(), parameter(value));
            continue;
        }
        let (table, name) = placed(name);
        if table.is_none()
            && let Some(typed) = typed(chosen, name, value)
        {
            fields.insert(name.to_owned(), typed);
            continue;
        }
        if let Some((_, chosen)) = tables.iter().find(|(field, _)| Some(*field) == table)
            && !places::has(*chosen, name)
        {
            return Err(places::foreign(name, *chosen));
        }
        let mut homes = tables.iter().zip(&mut options);
        let home =
            homes.find_map(|((_, table), options)| Some((options, typed(*table, name, value)?)));
        let (home, typed) = home.ok_or_else(|| places::no_field(name, chosen))?;
        home.insert(name.to_owned(), typed);
    }
    for ((field, table), options) in tables.into_iter().zip(options) {
        let name = ("name".to_owned(), Value::Text(table.name().into()));
        let entries = [name].into_iter().chain(options).collect();
        fields.insert(field.into(), Value::Table(entries));
    }
    add_parameters(&mut fields, parameters);
    Ok(Value::Table(fields.into_iter().collect()))
}

/// A hyperparameter as it was given: text becomes a number or a truth value where it reads as one.
fn parameter(value: &Value) -> Value {
    match value {
        Value::Text(text) => value_of(text),
        value => value.clone(),
    }
}

/// Adds single hyperparameters to those of the whole table, where that was given as well.
fn add_parameters(fields: &mut BTreeMap<String, Value>, single: BTreeMap<String, Value>) {
    if single.is_empty() {
        return;
    }
    let whole = fields
        .entry(places::PARAMETERS.into())
        .or_insert_with(|| Value::Table(Vec::new()));
    if let Value::Table(entries) = whole {
        entries.retain(|(name, _)| !single.contains_key(name));
        entries.extend(single);
    }
}

/// The table that a name may have before it, and the name alone.
fn placed(name: &str) -> (Option<&str>, &str) {
    match name.split_once('.') {
        Some((table, option)) if places::is_choice(table) => (Some(table), option),
        _ => (None, name),
    }
}

/// A name without its table.
fn bare(name: &str) -> &str {
    placed(name).1
}

/// The value for an option of the table, if it has it: text becomes a number where that is the option's type.
fn typed(table: &dyn Table, name: &str, value: &Value) -> Option<Value> {
    let options = table.options();
    let (option, _) = options.iter().find(|(option, _)| option.name == name)?;
    Some(match value {
        Value::Text(text) => option.kind.value_of(text),
        value => value.clone(),
    })
}
