//! In which fields two specifications of one job differ, for operators.

use std::collections::BTreeMap;
use std::fmt;

use blindsum_protocol::JobSpec;
use serde_json::Value;

use crate::orders::Terms;

/// A field of a job specification with two values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field, as in `rounds` or `protocol.neighbours`.
    pub field: String,
    /// Its value in the store; `none` if it has none.
    pub stored: String,
    /// Its value in the specification that was given.
    pub given: String,
}

impl Difference {
    /// Whether the field may change in a running job, by the order `extend`.
    pub fn may_change(&self) -> bool {
        Terms::FIELDS.contains(&&*self.field)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} → {}", self.field, self.stored, self.given)
    }
}

/// The fields in which two specifications differ, those that have their defaults included.
pub fn differences(stored: &JobSpec, given: &JobSpec) -> Vec<Difference> {
    let whole = |spec: &JobSpec| serde_json::to_value(spec.whole()).unwrap_or_default();
    of_values(&whole(stored), &whole(given))
}

fn of_values(stored: &Value, given: &Value) -> Vec<Difference> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    flatten("", stored, &mut before);
    flatten("", given, &mut after);
    let fields: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let value = |of: &BTreeMap<String, String>, field: &String| {
        of.get(field).cloned().unwrap_or_else(|| "none".into())
    };
    let differs = fields.into_iter().map(|field| Difference {
        field: field.clone(),
        stored: value(&before, field),
        given: value(&after, field),
    });
    differs.filter(|it| it.stored != it.given).collect()
}

/// Every value by its path.
fn flatten(path: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                flatten(&path, value, into);
            }
        }
        Value::String(text) => drop(into.insert(path.into(), text.clone())),
        value => drop(into.insert(path.into(), value.to_string())),
    }
}

/// All of them for people, and what to do.
pub(crate) fn advice(differences: &[Difference]) -> String {
    if differences.is_empty() {
        return "give the job a new name or use another store".into();
    }
    let shown: Vec<String> = differences.iter().map(Difference::to_string).collect();
    let (may, may_not): (Vec<_>, Vec<_>) = differences.iter().partition(|it| it.may_change());
    let names = |of: &[&Difference]| {
        let names: Vec<&str> = of.iter().map(|it| &*it.field).collect();
        names.join(", ")
    };
    let mut advice = shown.join("; ");
    if !may.is_empty() {
        advice += &format!(
            "; start with the stored value of {} and change it with `blindsum admin extend`",
            names(&may)
        );
    }
    if !may_not.is_empty() {
        advice += &format!(
            "; {} cannot change in a job: give the job a new name or use another store",
            names(&may_not)
        );
    }
    advice
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::ProtocolName;

    use super::*;

    #[test]
    fn every_field_that_differs_is_named_with_both_values() {
        let stored = JobSpec {
            protocol: ProtocolName::SecAgg.into(),
            parties: 4,
            rounds: 8,
            dim: 4,
            ..JobSpec::default()
        };
        let given = JobSpec {
            rounds: 10,
            dim: 5,
            ..stored.clone()
        };
        let error = advice(&differences(&stored, &given));
        for part in [
            "rounds: 8 → 10",
            "dim: 4 → 5",
            "stored value of rounds and change it with `blindsum admin extend`",
            "dim cannot change",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn a_field_of_one_protocol_alone_is_named_too() {
        let spec = |protocol: &str| {
            let json = format!(r#"{{"protocol": {protocol}, "parties": 4}}"#);
            serde_json::from_str::<Value>(&json).unwrap()
        };
        let found = of_values(
            &spec(r#""plain""#),
            &spec(r#"{"name": "pss", "packing": 2}"#),
        );
        let found: Vec<String> = found.iter().map(Difference::to_string).collect();
        let all = [
            "protocol: plain → none",
            "protocol.name: none → pss",
            "protocol.packing: none → 2",
        ];
        assert_eq!(found, all);
    }
}
