//! The page of metrics in the format of OpenMetrics, made anew for each scrape.

use std::collections::HashMap;
use std::fmt;

use blindsum_net::totals::Histogram;
use blindsum_net::watched::Watched;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;

use crate::{now, process, totals};

/// Labels of a value, each with its name.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// What a server shows, as numbers.
pub(crate) struct Numbers {
    registry: Registry,
    watched: Watched,
}

impl Numbers {
    pub fn new(watched: Watched) -> Self {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(All(watched.clone())));
        Self { registry, watched }
    }

    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    /// The page as it is now.
    ///
    /// # Errors
    /// A metric that cannot be written, which is a mistake of this crate.
    pub fn page(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        encode(&mut page, &self.registry)?;
        Ok(page)
    }
}

/// Everything, at each scrape.
struct All(Watched);

impl fmt::Debug for All {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "All")
    }
}

impl Collector for All {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        totals::write(&self.0, &mut page)?;
        now::write(&self.0, &mut page)?;
        process::write(&mut page)
    }
}

/// The page while it is written.
pub(crate) struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    /// A counter: `name` without `_total`, which the format adds.
    pub fn counters<V: Into<f64>>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result {
        let rows = rows.into_iter();
        let rows = rows.map(|(labels, value)| (labels, value.into()));
        self.family(
            name,
            help,
            MetricType::Counter,
            rows,
            |mut metric, value: f64| metric.encode_counter::<NoLabelSet, _, f64>(&value, None),
        )
    }

    /// A gauge.
    pub fn gauges(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels, f64)>,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, rows, |mut metric, value| {
            metric.encode_gauge(&value)
        })
    }

    /// A histogram.
    pub fn histograms(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels, Histogram)>,
    ) -> fmt::Result {
        self.family(
            name,
            help,
            MetricType::Histogram,
            rows,
            |mut metric, value: Histogram| {
                let none = None::<&HashMap<usize, Exemplar<NoLabelSet, f64>>>;
                metric.encode_histogram(value.sum(), value.count(), &value.ranges(), none)
            },
        )
    }

    fn family<V>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        rows: impl IntoIterator<Item = (Labels, V)>,
        write: impl Fn(MetricEncoder<'_>, V) -> fmt::Result,
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, value) in rows {
            write(metric.encode_family(&labels)?, value)?;
        }
        Ok(())
    }
}

/// The labels of a value of a job, which comes first, and its other labels.
pub(crate) fn of_job<const N: usize>(job: &str, others: [(&'static str, &str); N]) -> Labels {
    labels([("job", job)].into_iter().chain(others))
}

/// Labels.
pub(crate) fn labels<'a>(all: impl IntoIterator<Item = (&'static str, &'a str)>) -> Labels {
    let all = all.into_iter();
    all.map(|(name, value)| (name, value.to_owned())).collect()
}
