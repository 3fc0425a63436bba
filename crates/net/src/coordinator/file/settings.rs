//! Settings of a command line that override a configuration file, `key.key=value` each.

use toml::{Table, Value};

use super::ConfigFile;
use crate::NetError;
use crate::plain::toml_words;

/// The error of the first setting with which a table that can be used is none any more, if it is one of these.
pub(super) fn blame(mut table: Table, settings: &[String]) -> Option<NetError> {
    let is_configuration = |table: &Table| table.clone().try_into::<ConfigFile>();
    is_configuration(&table).ok()?;
    for setting in settings {
        set(&mut table, setting).ok()?;
        if let Err(error) = is_configuration(&table) {
            let key = setting.split('=').next().unwrap_or_default();
            return Some(NetError::config(
                format!("setting {key}"),
                toml_words(&error, ""),
            ));
        }
    }
    None
}

/// Sets one value by its dotted path.
pub(super) fn set(table: &mut Table, setting: &str) -> Result<(), NetError> {
    let wrong = |rule: &str| NetError::config(format!("setting {setting:?}"), rule);
    let (path, text) = setting
        .split_once('=')
        .ok_or_else(|| wrong("must be KEY=VALUE"))?;
    // What is no TOML value is taken as a string, so that paths and names need no quotes.
    let value = format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()));
    let mut keys = path.split('.').map(str::trim).peekable();
    let first = keys.next().unwrap_or_default();
    if keys.peek().is_none() {
        table.insert(first.into(), value);
        return Ok(());
    }
    let mut place = table
        .entry(first)
        .or_insert_with(|| Value::Table(Table::new()));
    let mut above = first;
    for key in keys {
        if ["protocol", "encoding"].contains(&above) {
            name_to_table(place);
        }
        above = key;
        place = match place {
            Value::Table(table) => table
                .entry(key)
                .or_insert_with(|| Value::Table(Table::new())),
            Value::Array(items) => key
                .parse::<usize>()
                .ok()
                .and_then(|i| items.get_mut(i))
                .ok_or_else(|| wrong("there is no such item"))?,
            _ => return Err(wrong("names a field of something that has none")),
        };
    }
    *place = value;
    Ok(())
}

/// `protocol = "plain"` is the table with that name and no options.
fn name_to_table(place: &mut Value) {
    if let Value::String(name) = place {
        let name = Value::String(std::mem::take(name));
        *place = Value::Table(Table::from_iter([("name".to_owned(), name)]));
    }
}
