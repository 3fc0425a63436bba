//! Reading the entries of a list, each of which is a table of fields that all must be given.

use super::SpecError;
use crate::core::options::{Entry, Setting, Value, expected, listing};

/// The fields of an entry, which may have no others than these.
pub(super) fn fields_of<'a, const N: usize>(
    item: &'a Value,
    what: &str,
    fields: [&str; N],
) -> Result<&'a [Entry], SpecError> {
    let table = format!("a table with {}", listing(&fields));
    let Value::Table(entries) = item else {
        return Err(expected(&table, item));
    };
    let unknown = entries.iter().find(|(name, _)| !fields.contains(&&**name));
    match unknown {
        Some((name, _)) => Err(SpecError::new(
            name,
            format!("is unknown: {what} is {table}"),
        )),
        None => Ok(entries),
    }
}

/// A field of an entry.
pub(super) fn part<T: Setting>(entries: &[Entry], name: &str) -> Result<T, SpecError> {
    let given = entries.iter().find(|(given, _)| given == name);
    let (_, value) = given.ok_or_else(|| SpecError::new(name, "must be given"))?;
    T::read(value).map_err(|error| error.within(name))
}
