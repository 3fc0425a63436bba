//! Reads what an operator's program sends: its errors name the field, its value and its rule.

use serde_json::{Map, Value};

use super::{Command, OrderError, Terms};

/// Every command, with the fields that it may have.
const COMMANDS: [(&str, &[&str]); 7] = [
    ("drain", &["within"]),
    ("pause", &[]),
    ("resume", &[]),
    ("extend", &Terms::FIELDS),
    ("end", &[]),
    ("ban", &["party", "for"]),
    ("unban", &["party"]),
];

impl Command {
    /// Reads a command from its JSON, as in `{"command": "extend", "rounds": 80}`.
    ///
    /// # Errors
    /// [`OrderError::Value`]: no such command, a field that it does not have, or a value of another kind. What a value of the
    /// right kind may be, [`Order::check`](super::Order::check) says.
    pub fn read(json: &str) -> Result<Self, OrderError> {
        let fields = match serde_json::from_str(json) {
            Ok(Value::Object(fields)) => fields,
            _ => {
                let rule = "must be a JSON object with the field `command`";
                return Err(wrong("order", "command", rule.into()));
            }
        };
        let named = fields.get("command").unwrap_or(&Value::Null);
        let found = COMMANDS.iter().find(|(name, _)| named == name);
        let Some((name, own)) = found else {
            let names = COMMANDS.map(|(name, _)| name).join(", ");
            let rule = format!("{} must be one of {names}", shown(named));
            return Err(wrong("order", "command", rule));
        };
        check_fields(name, own, &fields)?;
        let read = serde_json::from_value(Value::Object(fields.clone()));
        read.map_err(|error| wrong(name, "values", error.to_string()))
    }
}

fn check_fields(
    name: &'static str,
    own: &[&'static str],
    fields: &Map<String, Value>,
) -> Result<(), OrderError> {
    let is_known = |field: &String| field == "command" || own.contains(&field.as_str());
    if let Some(field) = fields.keys().find(|field| !is_known(field)) {
        let all = match own {
            [] => "it has none".to_owned(),
            own => format!("it has {}", own.join(", ")),
        };
        let field = crate::foreign(field);
        let rule = format!("{field:?} is no value of {name}, {all}: leave it out");
        return Err(wrong(name, "values", rule));
    }
    for field in own {
        let rule = match (*field, fields.get(*field)) {
            ("party", None) => "is missing: name the party, as its certificate does".into(),
            (_, None) => continue,
            ("party", Some(value)) if !value.is_string() => {
                format!("{} must be the name in a party's certificate", shown(value))
            }
            ("rounds", Some(value)) if !is_count(value) => format!(
                "{} must be a whole number from 0 (without end) to {}",
                shown(value),
                u32::MAX
            ),
            (
                "within" | "for" | "join_deadline" | "stage_deadline" | "input_deadline",
                Some(value),
            ) if !value.is_number() => {
                format!("{} must be a number of seconds", shown(value))
            }
            _ => continue,
        };
        return Err(wrong(name, field, rule));
    }
    Ok(())
}

fn is_count(value: &Value) -> bool {
    value
        .as_u64()
        .is_some_and(|value| u32::try_from(value).is_ok())
}

/// A value as JSON, short and without what moves a terminal.
fn shown(value: &Value) -> String {
    crate::foreign(&value.to_string())
}

fn wrong(command: &'static str, field: &'static str, rule: String) -> OrderError {
    OrderError::Value {
        command,
        field,
        rule,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_read_as_it_is_written() {
        for (name, own) in COMMANDS {
            let value = |field: &&str| match *field {
                "party" => "\"party\":\"a\"".to_owned(),
                field => format!("\"{field}\":3"),
            };
            let values = own.iter().map(|field| format!(",{}", value(field)));
            let json = format!("{{\"command\":\"{name}\"{}}}", values.collect::<String>());
            assert_eq!(Command::read(&json).unwrap().name(), name);
        }
    }

    #[test]
    fn an_error_names_the_field_its_value_and_its_rule() {
        for (json, said) in [
            (
                r#"{"command":"extend","rounds":-4}"#,
                "extend: rounds: -4 must be a whole number from 0 (without end) to 4294967295",
            ),
            (
                r#"{"command":"extend","rounds":4294967296}"#,
                "extend: rounds: 4294967296 must be a whole number from 0 (without end) to 4294967295",
            ),
            (
                r#"{"command":"nosuch"}"#,
                "order: command: \"nosuch\" must be one of drain, pause, resume, extend, end, ban, unban",
            ),
            (
                r#"{"command":"ban","party":"a","for":NaN}"#,
                "order: command: must be a JSON object with the field `command`",
            ),
            (
                r#"{"command":"ban","party":"a","for":"long"}"#,
                "ban: for: \"long\" must be a number of seconds",
            ),
            (
                r#"{"command":"ban"}"#,
                "ban: party: is missing: name the party, as its certificate does",
            ),
            (
                r#"{"command":"pause","party":"a"}"#,
                "pause: values: \"party\" is no value of pause, it has none: leave it out",
            ),
            (
                r#"{"command":"drain","rounds":1}"#,
                "drain: values: \"rounds\" is no value of drain, it has within: leave it out",
            ),
        ] {
            assert_eq!(Command::read(json).unwrap_err().to_string(), said);
        }
    }
}
