//! What a round leads to: the next model, and the result for the coordinator's operator.

use std::collections::BTreeMap;

use blindsum_encode::{EncodeError, Reals};
use blindsum_protocol::{Outcome, Round, RoundKind};
use bytes::Bytes;

use crate::Model;
use crate::decoded::Decoded;
use crate::report::MetricReport;
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
    let next = || {
        let (model, decoded) = next_model(round, model, &outcome, told)?;
        Ok::<_, EncodeError>((model.to_bytes(), model, decoded))
    };
    let (result, next) = crate::both(told.len(), name, next);
    let (bytes, model, decoded) = next?;
    let learnt = match outcome.sum.as_ref().filter(|_| wanted) {
        None => None,
        Some(sum) => Some(LearntResult::of(round, sum, outcome.survivors.len())?),
    };
    let (total_weight, mean, metrics) = match decoded {
        None => (None, None, BTreeMap::new()),
        Some(it) => (Some(it.total_weight), Some(it.mean), it.metrics),
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

/// The model after the round, and the numbers that it comes from, where the coordinator learns them.
fn next_model(
    round: &Round,
    model: &Model,
    outcome: &Outcome,
    told: &[u8],
) -> Result<(Model, Option<Decoded>), EncodeError> {
    match (round.kind(), &outcome.sum) {
        (RoundKind::KeySetup, _) => Ok((model.clone(), None)),
        (RoundKind::Sum, None) => Ok((model.named_after(told), None)),
        (RoundKind::Sum, Some(sum)) => {
            let decoded = Decoded::of(round, sum, outcome.survivors.len(), None)?;
            Ok((decoded.model_after(round, model)?, Some(decoded)))
        }
    }
}
