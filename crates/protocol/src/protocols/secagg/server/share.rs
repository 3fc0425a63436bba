//! Stage 1: collects sealed shares and passes them on.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_crypto::kex::PublicKey;
use rand_core::CryptoRng;

use super::Common;
use super::masked_input::CollectInputs;
use super::masked_sum::Commitments;
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::kit::wire::{Bounded, encode};
use crate::protocols::secagg::messages::{SEALED_SHARES, SealedShares, SharesIn, SharesOut};
use crate::{Fault, FaultKind, PartyId};

pub(super) struct CollectShares {
    common: Common,
    /// U1: who advertised keys.
    advertised: BTreeSet<PartyId>,
    commitments: Commitments,
    /// By sender.
    sealed: BTreeMap<PartyId, Vec<SealedShares>>,
}

impl CollectShares {
    pub fn new(
        common: Common,
        advertised: BTreeSet<PartyId>,
        mask_keys: BTreeMap<PartyId, PublicKey>,
    ) -> Self {
        let commitments = Commitments {
            mask_keys,
            seeds: BTreeMap::new(),
        };
        Self {
            common,
            advertised,
            commitments,
            sealed: BTreeMap::new(),
        }
    }
}

impl ServerStage for CollectShares {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.advertised
    }

    fn required(&self) -> usize {
        self.common.required_inputs()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let message = SharesOut::read(self.common.holders(), body)?;
        let listed = message.sealed.iter().map(|entry| entry.party);
        let owed = self.common.neighbours_in(from, &self.advertised);
        self.common.same_parties("shares", listed, owed)?;
        if message
            .sealed
            .iter()
            .any(|entry| entry.sealed.as_slice().len() != SEALED_SHARES)
        {
            let rule = format!("two sealed shares are {SEALED_SHARES} bytes");
            return Err(FaultKind::malformed("shares", rule));
        }
        self.commitments.seeds.insert(from, message.commitment);
        self.sealed.insert(from, message.sealed);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let Self {
            common,
            commitments,
            sealed,
            ..
        } = *self;
        let shared: BTreeSet<PartyId> = sealed.keys().copied().collect();
        let mut inbox: BTreeMap<PartyId, Vec<SealedShares>> =
            shared.iter().map(|&party| (party, Vec::new())).collect();
        // Senders come in rank order, so every inbox is in rank order too.
        for (from, entries) in sealed {
            for SealedShares { party: to, sealed } in entries {
                if let Some(box_of) = inbox.get_mut(&PartyId(to)) {
                    box_of.push(SealedShares {
                        party: from.0,
                        sealed,
                    });
                }
            }
        }
        let bodies = inbox
            .into_iter()
            .map(|(party, sealed)| Ok((party, encode("shares", &SharesIn { sealed })?)))
            .collect::<Result<_, FaultKind>>()
            .map_err(Fault::caller)?;
        Ok(ServerStep::Next {
            next: Box::new(CollectInputs::new(common, shared, commitments)),
            bodies: Bodies::Each(bodies),
            faults: Vec::new(),
        })
    }
}
