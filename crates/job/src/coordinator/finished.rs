//! What a round leads to: the next model, and the result for the coordinator's operator.

use std::collections::BTreeMap;

use blindsum_encode::{EncodeError, Reals};
use blindsum_protocol::{Outcome, Round, RoundKind};
use bytes::Bytes;

use crate::Model;
use crate::report::{MetricReport, metric_reports};
use crate::results::LearntResult;

/// What a round leads to.
pub(super) struct Finished {
    pub model: Model,
    pub bytes: Bytes,
    pub total_weight: Option<u64>,
    /// The metrics of the survivors, where the coordinator learns them.
    pub metrics: BTreeMap<String, MetricReport>,
    /// The name of the result; empty in a key set-up.
    pub result: Vec<u8>,
    pub outcome: Outcome,
    /// The result itself, where the operator or a host wants it.
    pub learnt: Option<LearntResult>,
    /// The mean in the precision of the job, where the coordinator learns it.
    pub mean: Option<Reals>,
}

/// The model after the round: from the mean, or by its name only, out of what the survivors are told, where
/// the sum is hidden.
pub(super) fn finish(
    round: &Round,
    model: &Model,
    outcome: Outcome,
    told: &[u8],
    wanted: bool,
) -> Result<Finished, EncodeError> {
    let name = || match round.kind() {
        RoundKind::KeySetup => Vec::new(),
        RoundKind::Sum => crate::result_name(round, told).to_vec(),
    };
    let (result, next) = crate::both(told.len(), name, || {
        next_model(round, model, &outcome, told)
    });
    let (model, bytes, total_weight, mean) = next?;
    let survivors = outcome.survivors.len();
    let metrics = match &outcome.sum {
        None => BTreeMap::new(),
        Some(sum) => metric_reports(round, sum, survivors, |_| true)?,
    };
    let learnt = match outcome.sum.as_ref().filter(|_| wanted) {
        None => None,
        Some(sum) => Some(LearntResult::of(round, sum, survivors)?),
    };
    Ok(Finished {
        learnt,
        mean,
        model,
        bytes,
        total_weight,
        metrics,
        result,
        outcome,
    })
}

/// A model with its bytes, the weights of all survivors together, and their mean.
type Next = (Model, Bytes, Option<u64>, Option<Reals>);

/// The model after the round with its bytes, and the weights of all survivors together and their mean, where the coordinator
/// learns them.
fn next_model(
    round: &Round,
    model: &Model,
    outcome: &Outcome,
    told: &[u8],
) -> Result<Next, EncodeError> {
    let spec = round.job().spec();
    let survivors = outcome.survivors.len();
    let (model, total_weight, mean) = match (round.kind(), &outcome.sum) {
        (RoundKind::KeySetup, _) => (model.clone(), None, None),
        (RoundKind::Sum, None) => (model.named_after(told), None, None),
        (RoundKind::Sum, Some(sum)) => {
            let mut mean = Reals::zeros(round.encoding().precision(), spec.dim as usize);
            let total_weight = match &mut mean {
                Reals::Single(mean) => round.decode_mean(sum, survivors, mean),
                Reals::Double(mean) => round.decode_mean(sum, survivors, mean),
            }?;
            let reached = round.encoding().reached(sum, |_| true)?;
            let model = model.after(&mean, &reached, spec)?;
            (model, Some(total_weight), Some(mean))
        }
    };
    let bytes = model.to_bytes();
    Ok((model, bytes, total_weight, mean))
}
