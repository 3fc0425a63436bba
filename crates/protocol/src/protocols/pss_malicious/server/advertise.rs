//! Stage `advertise-keys`: collects keys, gives everybody all of them, and commits to a nonce.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_crypto::merkle::Hash;
use rand_core::CryptoRng;

use super::Common;
use super::share::CollectCommitments;
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::kit::keys::SeenKeys;
use crate::kit::wire::{Bounded, encode};
use crate::protocols::pss_malicious::client::check_advert;
use crate::protocols::pss_malicious::messages::{Advertise, KeyEntry, Keys, nonce_commitment};
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
        self.common.required()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let round = &self.common.round;
        let sent = Advertise::read(round.parties(), body)?;
        let key = check_advert(round, from, &sent)?;
        self.seen.add(from, [&key])?;
        self.keys.insert(from, sent);
        Ok(())
    }

    fn close(self: Box<Self>, rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let Self { common, keys, .. } = *self;
        let advertised: BTreeSet<PartyId> = keys.keys().copied().collect();
        let mut nonce: Hash = [0; 32];
        rng.fill_bytes(&mut nonce);
        let entries = keys.into_iter().map(|(party, keys)| KeyEntry {
            party: party.0,
            keys,
        });
        let message = Keys {
            nonce: nonce_commitment(&common.round, &nonce).to_vec().into(),
            entries: entries.collect(),
        };
        let body = encode(Keys::NAME, &message).map_err(Fault::caller)?;
        Ok(ServerStep::Next {
            bodies: Bodies::Same(advertised.iter().copied().collect(), body),
            next: Box::new(CollectCommitments::new(common, advertised, nonce)),
            faults: Vec::new(),
        })
    }
}
