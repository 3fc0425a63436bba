//! The last message of a round whose sum the server learns: who is in it, and the sum.

use blindsum_math::words::Words;

use crate::machine::RoundSum;
use crate::{FaultKind, PartySet, Round};

/// `survivors bitmap ‖ packed sum`; both lengths are fixed by the round.
pub(crate) fn result_body(survivors: &PartySet, sum: &Words) -> Vec<u8> {
    let mut body = survivors.as_bitmap().to_vec();
    body.extend(sum.pack());
    body
}

/// Reads the result; refuses one with fewer than `min_parties` survivors.
pub(crate) fn read_result(round: &Round, body: &[u8]) -> Result<RoundSum, FaultKind> {
    let job = round.job();
    let (bitmap, packed) = body
        .split_at_checked(round.parties().div_ceil(8))
        .ok_or_else(|| FaultKind::malformed("survivors", "the bitmap is cut short"))?;
    let survivors = PartySet::from_bitmap(round.parties(), bitmap)
        .ok_or_else(|| FaultKind::malformed("survivors", "not a bitmap of this roster"))?;
    let sum = Words::unpack(job.width(), job.lanes(), packed)
        .map_err(|e| FaultKind::malformed("sum", e.to_string()))?;
    let (have, need) = (survivors.len(), job.min_parties());
    if have < need {
        return Err(FaultKind::TooFewSurvivors { have, need });
    }
    Ok(RoundSum { sum, survivors })
}
