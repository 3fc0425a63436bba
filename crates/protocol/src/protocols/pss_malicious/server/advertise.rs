//! Stage `advertise-keys`: collects keys, gives everybody all of them, and commits to a nonce.

use std::collections::BTreeSet;

use blindsum_crypto::kex::PublicKey;
use blindsum_crypto::merkle::Hash;
use rand_core::CryptoRng;

use super::Common;
use super::share::CollectCommitments;
use crate::core::round::{Bodies, ServerStep};
use crate::kit::advertise::{Advert, Adverts, TakesKeys, listed};
use crate::kit::wire::{Bounded, encode};
use crate::protocols::pss_malicious::messages::{KEY_SIGNATURES, Keys, nonce_commitment};
use crate::{Fault, FaultKind, PartyId, Round};

impl TakesKeys<1> for Common {
    type Advert = Advert;

    fn round(&self) -> &Round {
        &self.round
    }

    fn required(&self) -> usize {
        self.required()
    }

    fn check(&self, from: PartyId, sent: &Advert) -> Result<[PublicKey; 1], FaultKind> {
        Ok([sent.check(&self.round, from, KEY_SIGNATURES)?])
    }

    fn close(
        self,
        adverts: Adverts<Advert, 1>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ServerStep, Fault> {
        let advertised: BTreeSet<PartyId> = adverts.keys().copied().collect();
        let mut nonce: Hash = [0; 32];
        rng.fill_bytes(&mut nonce);
        let message = Keys {
            nonce: nonce_commitment(&self.round, &nonce).to_vec().into(),
            entries: listed(adverts),
        };
        let body = encode(Keys::NAME, &message).map_err(Fault::caller)?;
        Ok(ServerStep::Next {
            bodies: Bodies::Same(advertised.iter().copied().collect(), body),
            next: Box::new(CollectCommitments::new(self, advertised, nonce)),
            faults: Vec::new(),
        })
    }
}
