//! The metrics of training that the parties of a job report.

use std::collections::BTreeMap;

use blindsum_encode::{MAX_METRICS, MetricRange};

use super::SpecError;
use super::entries::{fields_of, part};
use crate::core::options::{Kind, Setting, Value, expected};

/// A metric that every party may report in a round, such as the accuracy of the model on its data.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Its name, `[a-z0-9_.-]{1,64}`: no two metrics of a job have the same one.
    pub name: String,
    /// The least value: what is below counts as this.
    pub low: f64,
    /// The greatest value: what is above counts as this.
    pub high: f64,
}

impl Metric {
    /// The values that it can have.
    pub(crate) fn range(&self) -> MetricRange {
        MetricRange {
            low: self.low,
            high: self.high,
        }
    }
}

/// Checks the rules of every metric.
pub(crate) fn check_metrics(metrics: &[Metric]) -> Result<(), SpecError> {
    let count = metrics.len();
    if count > MAX_METRICS {
        let rule = format!("{count} metrics, but there may be at most {MAX_METRICS}");
        return Err(SpecError::new("metrics", rule));
    }
    let mut first = BTreeMap::new();
    for (index, Metric { name, low, high }) in metrics.iter().enumerate() {
        let refused = |field: &str, rule: String| {
            let field = format!("metrics.{index}.{field}");
            Err(SpecError::new(field, rule))
        };
        if !is_name(name) {
            let rule = format!("is {name:?}, but a name is 1 to 64 of a-z 0-9 _ . -");
            return refused("name", rule);
        }
        if let Some(other) = first.insert(name, index) {
            let rule = format!(
                "is {name:?}, which is the name of metrics.{other} too: choose another one"
            );
            return refused("name", rule);
        }
        if !low.is_finite() {
            return refused("low", format!("is {low}, but it must be a finite number"));
        }
        if !high.is_finite() || !(high - low).is_finite() {
            let rule = format!("is {high}, but it and high - low must be finite numbers");
            return refused("high", rule);
        }
        if low >= high {
            let rule = format!("low = {low} < high = {high} must hold");
            return refused("high", rule);
        }
    }
    Ok(())
}

fn is_name(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.-".contains(&b);
    (1..=64).contains(&text.len()) && text.bytes().all(allowed)
}

impl Setting for Vec<Metric> {
    const KIND: Kind = Kind::Metrics;

    fn read(value: &Value) -> Result<Self, SpecError> {
        let Value::List(items) = value else {
            return Err(expected("a list of metrics", value));
        };
        let metrics = items.iter().enumerate();
        metrics
            .map(|(index, item)| metric(item).map_err(|error| error.within(&index.to_string())))
            .collect()
    }

    fn write(&self) -> Value {
        let metrics = self.iter().map(|metric| {
            Value::Table(vec![
                ("name".into(), metric.name.write()),
                ("low".into(), metric.low.write()),
                ("high".into(), metric.high.write()),
            ])
        });
        Value::List(metrics.collect())
    }
}

fn metric(item: &Value) -> Result<Metric, SpecError> {
    let entries = fields_of(item, "a metric", ["name", "low", "high"])?;
    Ok(Metric {
        name: part(entries, "name")?,
        low: part(entries, "low")?,
        high: part(entries, "high")?,
    })
}
