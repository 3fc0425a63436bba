//! Stage 0: collects keys, gives everybody those of its neighbours.

use std::collections::{BTreeMap, BTreeSet};

use rand_core::CryptoRng;

use super::Common;
use super::share::CollectShares;
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::kit::keys::SeenKeys;
use crate::kit::wire::{Bounded, encode};
use crate::protocols::secagg::keys::{PeerKeys, check_advertised};
use crate::protocols::secagg::messages::{Advertise, KeyEntry, NeighbourKeys};
use crate::{Fault, FaultKind, PartyId};

pub(super) struct CollectKeys {
    common: Common,
    expected: BTreeSet<PartyId>,
    seen: SeenKeys,
    /// As they were sent, to be passed on, and as they were read.
    keys: BTreeMap<PartyId, (Advertise, PeerKeys)>,
}

impl CollectKeys {
    pub fn new(common: Common) -> Self {
        let expected = common.round.everyone().collect();
        Self {
            common,
            expected,
            seen: SeenKeys::default(),
            keys: BTreeMap::new(),
        }
    }
}

impl ServerStage for CollectKeys {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.common.required_inputs()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let sent = Advertise::read(self.common.holders(), body)?;
        let keys = check_advertised(&self.common.round, from, &sent)?;
        self.seen.add(from, keys.both())?;
        self.keys.insert(from, (sent, keys));
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let Self { common, keys, .. } = *self;
        let advertised: BTreeSet<PartyId> = keys.keys().copied().collect();
        let mut bodies = Vec::with_capacity(keys.len());
        for &party in &advertised {
            let mut holders: Vec<PartyId> = common.neighbours_in(party, &advertised).collect();
            holders.insert(holders.partition_point(|holder| *holder < party), party);
            let entries = holders
                .iter()
                .filter_map(|holder| Some((holder, &keys.get(holder)?.0)))
                .map(|(holder, sent)| KeyEntry {
                    party: holder.0,
                    keys: sent.clone(),
                })
                .collect();
            let body = encode("keys", &NeighbourKeys { entries }).map_err(Fault::caller)?;
            bodies.push((party, body));
        }
        let mask_keys = keys
            .into_iter()
            .map(|(party, (_, keys))| (party, keys.mask))
            .collect();
        Ok(ServerStep::Next {
            next: Box::new(CollectShares::new(common, advertised, mask_keys)),
            bodies: Bodies::Each(bodies),
            faults: Vec::new(),
        })
    }
}
