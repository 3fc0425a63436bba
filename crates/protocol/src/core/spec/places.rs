//! Where an option belongs: what is said of one that stands in the wrong place, or in none.

use super::encodings::EncodingChoice;
use super::{JobSpec, SpecError};
use crate::core::options::{Declares, Table, listing};
use crate::protocols::ProtocolChoice;

/// The choices of a job, by the names of their fields.
pub(super) const PROTOCOL: &str = "protocol";
pub(super) const ENCODING: &str = "encoding";
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

/// The protocols and the encodings that have the option.
fn owners(name: &str) -> (Vec<&'static str>, Vec<&'static str>) {
    let protocols = ProtocolChoice::every().filter(|choice| has(choice.table(), name));
    let encodings = EncodingChoice::every().filter(|choice| has(choice.table(), name));
    (
        protocols.map(|choice| choice.name().as_str()).collect(),
        encodings.map(|choice| choice.name().as_str()).collect(),
    )
}

/// The options of all protocols and encodings, each name once.
fn options() -> Vec<&'static str> {
    let protocols = ProtocolChoice::every().flat_map(|choice| names(choice.table()));
    let encodings = EncodingChoice::every().flat_map(|choice| names(choice.table()));
    let mut all: Vec<&str> = Vec::new();
    for name in protocols.chain(encodings) {
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
    let (protocols, encodings) = owners(name);
    let owners = [protocols, encodings].concat();
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
    let (protocols, encodings) = owners(name);
    let homes = [
        (PROTOCOL, spec.protocol.table(), protocols),
        (ENCODING, spec.encoding.table(), encodings),
    ];
    for (field, chosen, owners) in homes {
        if has(chosen, name) {
            let owner = chosen.name();
            let rule = format!(
                "is an option of {owner}: write it beside the name, as in {field} = {{ name = \"{owner}\", {name} = … }}"
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
        "is unknown: the fields of a job are {}, the options of protocols and encodings {}",
        listing(&fields),
        listing(&options())
    );
    SpecError::new(name, rule)
}

/// The same error with the table of its field before its name.
pub(super) fn located(
    error: SpecError,
    protocol: &ProtocolChoice,
    encoding: &EncodingChoice,
) -> SpecError {
    let field = error.field.clone();
    if is_common(&field) {
        error
    } else if has(protocol.table(), &field) {
        SpecError::new(field, error.rule).within(PROTOCOL)
    } else if has(encoding.table(), &field) {
        SpecError::new(field, error.rule).within(ENCODING)
    } else {
        error
    }
}
