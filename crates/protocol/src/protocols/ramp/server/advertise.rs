//! Stage 0: collects keys, gives everybody all of them.

use std::collections::{BTreeMap, BTreeSet};

use rand_core::CryptoRng;

use super::Common;
use super::share::CollectColumns;
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::kit::keys::{SeenKeys, check_keys};
use crate::kit::wire::{Bounded, encode};
use crate::protocols::ramp::messages::{Advertise, KeyEntry, Keys};
use crate::{Fault, FaultKind, PartyId};

pub(super) struct CollectKeys {
    common: Common,
    expected: BTreeSet<PartyId>,
    seen: SeenKeys,
    keys: BTreeMap<PartyId, Advertise>,
}

impl CollectKeys {
    pub fn new(common: Common) -> Self {
        Self {
            expected: common.round.everyone().collect(),
            common,
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
        let round = &self.common.round;
        let sent = Advertise::read(round.parties(), body)?;
        let [key] = check_keys(
            round,
            from,
            [sent.key.as_slice()],
            sent.signature.as_slice(),
        )?;
        self.seen.add(from, [&key])?;
        self.keys.insert(from, sent);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let Self { common, keys, .. } = *self;
        let advertised: BTreeSet<PartyId> = keys.keys().copied().collect();
        let entries = keys
            .into_iter()
            .map(|(party, keys)| KeyEntry {
                party: party.0,
                keys,
            })
            .collect();
        let body = encode("keys", &Keys { entries }).map_err(Fault::caller)?;
        Ok(ServerStep::Next {
            bodies: Bodies::Same(advertised.iter().copied().collect(), body),
            next: Box::new(CollectColumns::new(common, advertised)),
            faults: Vec::new(),
        })
    }
}
