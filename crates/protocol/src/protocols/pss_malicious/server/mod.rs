//! The coordinator: it relays sealed columns without holding them, judges provers by what verifiers answer, settles
//! disputes, and rebuilds the sum.

mod advertise;
mod aggregate;
mod challenge;
mod dispute;
mod judge;
mod respond;
mod share;
mod survivors;

use std::sync::Arc;

use blindsum_crypto::merkle::Hash;
use blindsum_sharing::validity::ValiditySharing;

use super::messages::Commitment;
use crate::core::round::ServerStage;
use crate::kit::advertise::CollectKeys;
use crate::{PartyId, PartySet, Round};

/// What every stage knows.
#[derive(Clone)]
struct Common {
    round: Arc<Round>,
    sharing: Arc<ValiditySharing>,
}

impl Common {
    /// Parties that must answer up to the responses.
    fn required(&self) -> usize {
        super::required(&self.round, &self.sharing)
    }
}

/// What all were told when vectors were shared.
struct Shared {
    common: Common,
    /// U1.
    parties: PartySet,
    commitments: Vec<Commitment>,
    challenge: Hash,
}

impl Shared {
    /// The commitment of one of U1.
    fn commitment(&self, prover: PartyId) -> Option<&Commitment> {
        let place = self.parties.iter().position(|party| party == prover)?;
        self.commitments.get(place)
    }
}

/// The coordinator before the first message.
pub(super) fn serve(round: &Arc<Round>, sharing: Arc<ValiditySharing>) -> Box<dyn ServerStage> {
    let round = round.clone();
    CollectKeys::of(Common { round, sharing })
}
