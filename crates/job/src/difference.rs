//! In which fields two specifications of one job differ, for operators.

use std::collections::BTreeMap;
use std::fmt;

use blindsum_protocol::JobSpec;
use serde_json::Value;

use crate::orders::Terms;

/// Most differences of an error: a layout may differ in each of its entries.
const MAX_SHOWN: usize = 8;

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

/// Every value by its path; those of a list by their place.
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
        Value::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                flatten(&format!("{path}.{place}"), item, into);
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
    let shown = differences.iter().map(Difference::to_string);
    let (may, may_not): (Vec<_>, Vec<_>) = differences.iter().partition(|it| it.may_change());
    let names = |of: &[&Difference]| {
        let names = of.iter().map(|it| it.field.clone());
        listed(names, ", ")
    };
    let mut advice = listed(shown, "; ");
    if !may.is_empty() {
        advice += &format!(
            "; start with the stored value of {} (with --stay and --admin, also where the job is done) and change it with \
             `blindsum admin extend`",
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

/// The first of them, and how many there are besides.
fn listed(all: impl ExactSizeIterator<Item = String>, between: &str) -> String {
    let more = all.len().saturating_sub(MAX_SHOWN);
    let mut list = all.take(MAX_SHOWN).collect::<Vec<_>>().join(between);
    if more > 0 {
        list += &format!("{between}and {more} more");
    }
    list
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
            "stored value of rounds (with --stay and --admin, also where the job is done) and change it with `blindsum admin extend`",
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

    #[test]
    fn entries_of_a_layout_and_hyperparameters_are_named_one_by_one() {
        let stored = r#"{"layout": ["a float32 3", "b float32 2"], "parameters": {"epochs": 2}}"#;
        let given = r#"{"layout": ["a float32 3"], "parameters": {"epochs": 3, "betas": [0.9]}}"#;
        let value = |json: &str| serde_json::from_str::<Value>(json).unwrap();
        let found = of_values(&value(stored), &value(given));
        let found: Vec<String> = found.iter().map(Difference::to_string).collect();
        let all = [
            "layout.1: b float32 2 → none",
            "parameters.betas.0: none → 0.9",
            "parameters.epochs: 2 → 3",
        ];
        assert_eq!(found, all);
    }

    #[test]
    fn of_many_differences_the_first_are_shown() {
        let layout = |name: &str| JobSpec {
            layout: (0..10)
                .map(|place| format!("{name}{place} float32 1"))
                .collect(),
            dim: 10,
            ..JobSpec::default()
        };
        let error = advice(&differences(&layout("a"), &layout("b")));
        assert!(
            error.contains("layout.7: a7 float32 1 → b7 float32 1; and 2 more"),
            "{error}"
        );
        assert!(!error.contains("layout.8"), "{error}");
    }
}
