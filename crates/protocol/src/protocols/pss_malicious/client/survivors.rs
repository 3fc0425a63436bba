//! If the coordinator may lie, the others confirm the set of those whose vectors are summed before this party sends the sum of
//! their columns.

use std::sync::Arc;

use blindsum_sharing::validity::ValiditySharing;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::consistency::{Signatures, check_signatures};
use crate::kit::result::{AwaitResult, load_survivors};
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::wire::Bounded;
use crate::{Fault, FaultKind, PartySet};

/// This party signed the set of survivors; the others' signatures come next.
pub(super) struct AwaitSurvivors {
    pub setup: Arc<ClientSetup>,
    pub sharing: Arc<ValiditySharing>,
    pub survivors: PartySet,
    /// The packed sum of the columns of this very set.
    pub sum: Zeroizing<Vec<u8>>,
}

impl AwaitSurvivors {
    pub fn load(
        setup: Arc<ClientSetup>,
        sharing: Arc<ValiditySharing>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, FaultKind> {
        let survivors = load_survivors(&setup, reader)?;
        let sum = Zeroizing::new(reader.bytes(sharing.words().column_len())?.to_vec());
        Ok(Self {
            setup,
            sharing,
            survivors,
            sum,
        })
    }
}

impl ClientStage for AwaitSurvivors {
    fn answer(
        mut self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let round = &self.setup.round;
        let message = Signatures::read(round.parties(), body).map_err(Fault::server)?;
        let quorum = self.sharing.parameters().quorum();
        check_signatures(round, &self.survivors, &message, |_| true, quorum)
            .map_err(Fault::server)?;
        Ok(ClientStep::Send {
            body: std::mem::take(&mut *self.sum),
            next: Box::new(AwaitResult::new(self.setup, self.survivors)),
        })
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        let writer = Writer::default().bytes(self.survivors.as_bitmap());
        Ok(Some(writer.bytes(&self.sum).finish()))
    }
}
