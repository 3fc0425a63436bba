//! The results that a server learns, for its operator.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use blindsum_encode::EncodeError;
use blindsum_math::words::Words;
use blindsum_protocol::Round;
use tracing::error;

use crate::decoded::integer_sums;
use crate::report::{MetricReport, metric_reports};

/// Where a server keeps the results of its rounds.
///
/// Calls may wait for a disk: a machine makes them in its tasks.
pub trait Results: Send + Sync {
    /// Where the results are, for messages to people.
    fn place(&self) -> &Path;

    /// Keeps the result of a round. When this returns, it survives a crash.
    ///
    /// # Errors
    /// Writing failed.
    fn keep(&self, round: u64, result: &LearntResult) -> io::Result<()>;
}

/// The result of a round as a server learns it.
#[derive(Clone, Debug, PartialEq)]
pub struct LearntResult {
    /// The weighted mean of the survivors' updates, or what the rule of the job makes of them, `[dim]`.
    pub mean: Vec<f64>,
    /// The exact weighted sums of the survivors' integers, `[dim]`, if the job's encoding is of integers.
    pub sums: Option<Vec<u128>>,
    /// The metrics of the job by their names.
    pub metrics: BTreeMap<String, MetricReport>,
}

impl LearntResult {
    /// What the words of the result of so many survivors mean.
    ///
    /// # Errors
    /// Words that no honest parties' sum has.
    pub(crate) fn of(round: &Round, sum: &Words, survivors: usize) -> Result<Self, EncodeError> {
        let spec = round.job().spec();
        let mut mean = vec![0.0; spec.dim as usize];
        round.decode_mean(sum, survivors, &mut mean)?;
        let sums = integer_sums(round, sum, survivors)?;
        let metrics = metric_reports(round, sum, survivors, |_| true)?;
        Ok(Self {
            mean,
            sums,
            metrics,
        })
    }
}

/// Keeps the result of a round; or says why it cannot be kept `at` this server.
pub(crate) fn keep(
    results: &dyn Results,
    round: u64,
    result: &LearntResult,
    at: &str,
) -> Result<(), String> {
    let kept = results.keep(round, result);
    kept.map_err(|error| {
        // Parties see the reason, and where the results are is nothing to them: the log alone has the path.
        let place = results.place().display();
        error!(round, %place, %error, "a result cannot be kept");
        format!("its result cannot be kept {at}: {error}")
    })
}
