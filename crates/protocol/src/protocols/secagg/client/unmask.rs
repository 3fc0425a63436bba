//! Stages 3 and 4: everybody confirms one survivor set, then each neighbour's secret that is needed,
//! and no other, is revealed. Last comes the sum.

use std::sync::Arc;

use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::held::HeldShares;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::consistency::{Signatures, check_signatures};
use crate::kit::result::{AwaitResult, load_survivors};
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::wire::{Bounded, encode};
use crate::protocols::secagg::AggregationGraph;
use crate::protocols::secagg::messages::{Revealed, RevealedShare};
use crate::{Fault, FaultKind, PartySet};

/// A share of b_j of every survivor j, of s_j^SK of every other: the set is fixed, so one of each.
pub(super) fn reveal(shares: &HeldShares, survivors: &PartySet) -> Result<Vec<u8>, FaultKind> {
    let me = shares.setup.me;
    let own = RevealedShare {
        party: me.0,
        share: *shares.own_seed_share.to_bytes(),
    };
    let others = shares.held.iter().map(|(party, held)| {
        let share = match survivors.contains(*party) {
            true => &held.seed_share,
            false => &held.mask_share,
        };
        RevealedShare {
            party: party.0,
            share: *share.to_bytes(),
        }
    });
    let mut revealed: Vec<RevealedShare> = std::iter::once(own).chain(others).collect();
    revealed.sort_by_key(|entry| entry.party);
    encode("revealed shares", &Revealed { shares: revealed })
}

/// This party signed the survivor set; the witnesses' signatures come next.
pub(super) struct AwaitSignatures {
    pub shares: HeldShares,
    pub survivors: PartySet,
}

impl AwaitSignatures {
    pub fn load(
        setup: Arc<ClientSetup>,
        graph: Arc<AggregationGraph>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, FaultKind> {
        let survivors = load_survivors(&setup, reader)?;
        let shares = HeldShares::load(setup, graph, reader)?;
        Ok(Self { shares, survivors })
    }

    /// At least t of the round's witnesses signed this very set.
    fn check(&self, message: &Signatures) -> Result<(), FaultKind> {
        let witnesses = self.shares.graph.witnesses();
        check_signatures(
            &self.shares.setup.round,
            &self.survivors,
            message,
            // guard: witness-rule-two-arcs
            |signer| witnesses.binary_search(&signer).is_ok(),
            self.shares.graph.parameters().threshold(),
        )
    }
}

impl ClientStage for AwaitSignatures {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let holders = self.shares.graph.parameters().holders();
        let message = Signatures::read(holders, body).map_err(Fault::server)?;
        self.check(&message).map_err(Fault::server)?;
        let body = reveal(&self.shares, &self.survivors).map_err(Fault::caller)?;
        let next = AwaitResult::new(self.shares.setup, self.survivors);
        Ok(ClientStep::Send {
            body,
            next: Box::new(next),
        })
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        let writer = Writer::default().bytes(self.survivors.as_bitmap());
        Ok(Some(writer.bytes(&self.shares.write().finish()).finish()))
    }
}
