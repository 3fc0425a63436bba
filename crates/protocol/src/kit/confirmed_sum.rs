//! At a party, if the coordinator may lie: the others confirm the set of those whose vectors are summed before this party sends the
//! sum of their columns.

use std::sync::Arc;

use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::consistency::{Signatures, check_signatures, signed_message};
use crate::kit::keys::is_active;
use crate::kit::result::{AwaitResult, load_survivors};
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::wire::Bounded;
use crate::{Fault, FaultKind, PartySet};

/// Sends the packed sum of the columns of these; at once, or signs the set and waits until so many have signed it.
pub(crate) fn send_sum(
    setup: Arc<ClientSetup>,
    survivors: PartySet,
    sum: Vec<u8>,
    quorum: usize,
) -> Result<ClientStep, Fault> {
    if !is_active(&setup.round) {
        return Ok(ClientStep::Send {
            body: sum,
            next: Box::new(AwaitResult::new(setup, survivors)),
        });
    }
    let body = signed_message(&setup.round, &setup.identity, &survivors);
    Ok(ClientStep::Send {
        body: body.map_err(Fault::caller)?,
        next: Box::new(AwaitConfirmation {
            setup,
            survivors,
            sum: Zeroizing::new(sum),
            quorum,
        }),
    })
}

/// This party signed the set; the others' signatures come next.
pub(crate) struct AwaitConfirmation {
    setup: Arc<ClientSetup>,
    survivors: PartySet,
    /// The packed sum of the columns of this very set.
    sum: Zeroizing<Vec<u8>>,
    /// More than (n + c)/2: two sets would take more honest signers than there are.
    quorum: usize,
}

impl AwaitConfirmation {
    /// `sum_len` is the length of the packed sum.
    pub fn load(
        setup: Arc<ClientSetup>,
        (sum_len, quorum): (usize, usize),
        reader: &mut Reader<'_>,
    ) -> Result<Self, FaultKind> {
        let survivors = load_survivors(&setup, reader)?;
        let sum = Zeroizing::new(reader.bytes(sum_len)?.to_vec());
        Ok(Self {
            setup,
            survivors,
            sum,
            quorum,
        })
    }
}

impl ClientStage for AwaitConfirmation {
    fn answer(
        mut self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let round = &self.setup.round;
        let message = Signatures::read(round.parties(), body).map_err(Fault::server)?;
        // guard: ramp-set-is-confirmed, one-set-of-survivors-is-confirmed, ramp-quorum
        check_signatures(round, &self.survivors, &message, |_| true, self.quorum)
            .map_err(Fault::server)?;
        let body = std::mem::take(&mut *self.sum);
        let next = AwaitResult::new(self.setup, self.survivors);
        Ok(ClientStep::Send {
            body,
            next: Box::new(next),
        })
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        let writer = Writer::default().bytes(self.survivors.as_bitmap());
        Ok(Some(writer.bytes(&self.sum).finish()))
    }
}
