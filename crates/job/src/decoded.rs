//! The numbers that the words of a sum stand for, as a party, the coordinator and the other servers read them.

use std::collections::BTreeMap;

use blindsum_encode::{EncodeError, Reach, Real, Reals};
use blindsum_math::words::Words;
use blindsum_protocol::Round;

use crate::Model;
use crate::report::{MetricReport, metric_reports};

/// What follows from the words of the sum of a round.
pub(crate) struct Decoded {
    /// The weighted mean of the survivors' updates, or what the rule of the job makes of them, `[dim]`, in the precision of
    /// the job.
    pub mean: Reals,
    /// The weights of all survivors together.
    pub total_weight: u64,
    /// The metrics of the job by their names.
    pub metrics: BTreeMap<String, MetricReport>,
    /// The bounds that the survivors' updates reached, where the encoding learns them.
    reached: Vec<Reach>,
}

impl Decoded {
    /// Reads the words of so many survivors. `contributors`, in sparse rounds, says how many sent each coordinate.
    ///
    /// # Errors
    /// Words that no honest parties' sum has.
    pub fn of(
        round: &Round,
        sum: &Words,
        survivors: usize,
        contributors: Option<&[u32]>,
    ) -> Result<Self, EncodeError> {
        let (encoding, spec) = (round.encoding(), round.job().spec());
        let mut mean = Reals::zeros(encoding.precision(), spec.dim as usize);
        let total_weight = match &mut mean {
            Reals::Single(mean) => decode(round, sum, survivors, contributors, mean),
            Reals::Double(mean) => decode(round, sum, survivors, contributors, mean),
        }?;
        let least = spec.least_contributors();
        let is_enough = |count: Option<&u32>| count.is_some_and(|count| *count >= least);
        let is_open = |word: usize| contributors.is_none_or(|counts| is_enough(counts.get(word)));
        Ok(Self {
            reached: encoding.reached(sum, is_open)?,
            metrics: metric_reports(round, sum, survivors, is_open)?,
            mean,
            total_weight,
        })
    }

    /// The model after the round.
    ///
    /// # Errors
    /// [`EncodeError::Model`]: it would have a number that is not finite.
    pub fn model_after(&self, round: &Round, model: &Model) -> Result<Model, EncodeError> {
        model.after(&self.mean, &self.reached, round.job().spec())
    }
}

/// The exact weighted sums of so many survivors' integers, `[dim]`, if the job's encoding is of integers.
///
/// # Errors
/// Words that no honest parties' sum has.
pub(crate) fn integer_sums(
    round: &Round,
    sum: &Words,
    survivors: usize,
) -> Result<Option<Vec<u128>>, EncodeError> {
    let spec = round.job().spec();
    if spec.encoding.integer_bits().is_none() {
        return Ok(None);
    }
    let mut sums = vec![0; spec.dim as usize];
    round.encoding().decode_sums(sum, survivors, &mut sums)?;
    Ok(Some(sums))
}

/// Writes the mean out of the sum over `mean`, `[dim]`, and gives the weights of all survivors together.
fn decode<R: Real>(
    round: &Round,
    sum: &Words,
    survivors: usize,
    contributors: Option<&[u32]>,
    mean: &mut [R],
) -> Result<u64, EncodeError> {
    let spec = round.job().spec();
    let opens = (spec.least_contributors(), spec.divisor(survivors));
    match contributors {
        None => round.decode_mean(sum, survivors, mean),
        // Sparse updates have the weight 1.
        Some(counts) => round
            .encoding()
            .decode_sparse_mean(sum, counts, opens, mean)
            .map(|_| survivors as u64),
    }
}
