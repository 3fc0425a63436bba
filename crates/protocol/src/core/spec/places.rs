//! Where an option belongs: the errors about an option in the wrong table, or in none.

use super::{JobSpec, SpecError};
use crate::core::options::{Declares, Kind, Table, listing};

/// Fields that this module's callers name.
pub(super) const PROTOCOL: &str = "protocol";
pub(super) const ENCODING: &str = "encoding";
/// The free table of hyperparameters.
pub(super) const PARAMETERS: &str = "parameters";
/// The field that `dim` follows from where it is not given.
pub(super) const LAYOUT: &str = "layout";
pub(super) const STOP: &str = "stop";
/// The one field whose default follows from another.
pub(super) const MODEL_UPDATE: &str = "model_update";

/// Whether a table has an option of this name.
pub(super) fn has(table: &dyn Table, name: &str) -> bool {
    table
        .options()
        .iter()
        .any(|(option, _)| option.name == name)
}

/// Whether every job has it.
pub(super) fn is_common(name: &str) -> bool {
    JobSpec::OPTIONS
        .iter()
        .any(|option| option.info.name == name)
}

/// The tables that may be chosen for a field, with the default of every option.
type Every = fn() -> Vec<Box<dyn Table>>;

/// The fields that choose a table, each with the tables that may be chosen.
pub(super) fn choices() -> impl Iterator<Item = (&'static str, Every)> {
    let fields = JobSpec::OPTIONS.iter().map(|option| &option.info);
    fields.filter_map(|info| match info.kind {
        Kind::Tables(every) => Some((info.name, every)),
        _ => None,
    })
}

/// The table that options without a name belong to: where the default has none, the first one that has.
pub(super) fn usual(field: &str) -> Option<&'static str> {
    let job = JobSpec::default();
    let (_, default) = job.choices().find(|(name, _)| *name == field)?;
    let mut tables = tables(field)
        .into_iter()
        .filter(|_| default.options().is_empty());
    tables
        .find(|table| !table.options().is_empty())
        .map(|table| table.name())
}

/// Whether a field chooses a table.
pub(super) fn is_choice(name: &str) -> bool {
    choices().any(|(field, _)| field == name)
}

/// The tables that may be chosen for a field, with the default of every option.
fn tables(field: &str) -> Vec<Box<dyn Table>> {
    let every = choices().find(|(name, _)| *name == field);
    every.map_or_else(Vec::new, |(_, every)| every())
}

/// The tables that may be chosen for a field and have the option.
fn owners(field: &str, name: &str) -> Vec<&'static str> {
    let tables = tables(field).into_iter();
    tables
        .filter(|table| has(&**table, name))
        .map(|table| table.name())
        .collect()
}

/// The options of all tables that may be chosen, each name once.
fn options() -> Vec<&'static str> {
    let tables = choices().flat_map(|(_, every)| every());
    let mut all: Vec<&str> = Vec::new();
    for name in tables.flat_map(|table| names(&*table)) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

fn names(table: &dyn Table) -> Vec<&'static str> {
    let options = table.options().into_iter();
    options.map(|(option, _)| option.name).collect()
}

/// What is said of a name that the table called `chosen` does not have.
pub(crate) fn foreign(name: &str, chosen: &dyn Table) -> SpecError {
    let owners: Vec<&str> = choices()
        .flat_map(|(field, _)| owners(field, name))
        .collect();
    let rule = if is_common(name) {
        format!(
            "is a field of the job itself, not an option of {}",
            chosen.name()
        )
    } else if owners.is_empty() {
        format!(
            "is unknown: the options of {} are {}",
            chosen.name(),
            listing(&names(chosen))
        )
    } else {
        format!(
            "is an option of {}, not of {}",
            listing(&owners),
            chosen.name()
        )
    };
    SpecError::new(name, rule)
}

/// What is said of a name that no field of a job has.
pub(super) fn no_field(name: &str, spec: &JobSpec) -> SpecError {
    for (field, chosen) in spec.choices() {
        let owners = owners(field, name);
        if has(chosen, name) {
            let (all, owner, class) = (listing(&owners), chosen.name(), chosen.title());
            let rule = format!(
                "is an option of {all}, not a field of the job itself: write it beside the name, in a file as in \
                 {field} = {{ name = \"{owner}\", {name} = … }}, in Python as in {field}={class}({name}=…)"
            );
            return SpecError::new(name, rule);
        }
        if !owners.is_empty() {
            return foreign(name, chosen);
        }
    }
    let fields: Vec<&str> = JobSpec::OPTIONS
        .iter()
        .map(|option| option.info.name)
        .collect();
    let rule = format!(
        "is unknown: the fields of a job are {}, the options of {} {}",
        listing(&fields),
        listing(&choices().map(|(field, _)| field).collect::<Vec<_>>()),
        listing(&options())
    );
    SpecError::new(name, rule)
}

/// The same error with the table of its field before its name.
pub(crate) fn located(error: SpecError, spec: &JobSpec) -> SpecError {
    let home = spec.choices().find(|(_, table)| has(*table, &error.field));
    match home {
        Some((field, _)) if !is_common(&error.field) => error.within(field),
        _ => error,
    }
}
