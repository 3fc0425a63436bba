//! The last message of a round whose sum the server learns: who is in it, and the sum.

use std::sync::Arc;

use blindsum_math::words::Words;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef, RoundSum};
use crate::kit::snapshot::{Reader, Writer};
use crate::{Fault, FaultKind, PartySet, Round};

/// `survivors bitmap ‖ packed sum`; both lengths are fixed by the round.
pub(crate) fn result_body(survivors: &PartySet, sum: &Words) -> Vec<u8> {
    let mut body = survivors.as_bitmap().to_vec();
    body.extend(sum.pack());
    body
}

/// Reads the result; refuses one with fewer than `min_parties` survivors.
pub(crate) fn read_result(round: &Round, body: &[u8]) -> Result<RoundSum, FaultKind> {
    let job = round.job();
    let (survivors, packed) = split_survivors(round, body)?;
    let sum = Words::unpack(job.width(), job.lanes(), packed)
        .map_err(|e| FaultKind::malformed("sum", e.to_string()))?;
    Ok(RoundSum::dense(sum, survivors))
}

/// The set of at least `min_parties` parties that a body begins with, and the rest.
pub(crate) fn split_survivors<'a>(
    round: &Round,
    body: &'a [u8],
) -> Result<(PartySet, &'a [u8]), FaultKind> {
    let (bitmap, rest) = body
        .split_at_checked(round.parties().div_ceil(8))
        .ok_or_else(|| FaultKind::malformed("survivors", "the bitmap is cut short"))?;
    let survivors = PartySet::from_bitmap(round.parties(), bitmap)
        .ok_or_else(|| FaultKind::malformed("survivors", "not a bitmap of this roster"))?;
    let (have, need) = (survivors.len(), round.job().min_parties());
    if have < need {
        return Err(FaultKind::TooFewSurvivors { have, need });
    }
    Ok((survivors, rest))
}

/// A client that has said everything and knows whose sum it is; the sum comes next.
pub(crate) struct AwaitResult {
    setup: Arc<ClientSetup>,
    survivors: PartySet,
}

impl AwaitResult {
    pub fn new(setup: Arc<ClientSetup>, survivors: PartySet) -> Self {
        Self { setup, survivors }
    }

    pub fn load(setup: Arc<ClientSetup>, reader: &mut Reader<'_>) -> Result<Self, FaultKind> {
        let survivors = load_survivors(&setup, reader)?;
        Ok(Self { setup, survivors })
    }
}

impl ClientStage for AwaitResult {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let result = read_result(&self.setup.round, body).map_err(Fault::server)?;
        if result.survivors != self.survivors {
            let kind = FaultKind::malformed("survivors", "not the set whose sum was prepared");
            return Err(Fault::server(kind));
        }
        Ok(ClientStep::Done(result))
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        Ok(Some(
            Writer::default().bytes(self.survivors.as_bitmap()).finish(),
        ))
    }
}

pub(crate) fn load_survivors(
    setup: &ClientSetup,
    reader: &mut Reader<'_>,
) -> Result<PartySet, FaultKind> {
    let parties = setup.round.parties();
    PartySet::from_bitmap(parties, reader.bytes(parties.div_ceil(8))?)
        .ok_or_else(|| FaultKind::Snapshot("the survivor set is damaged".into()))
}
