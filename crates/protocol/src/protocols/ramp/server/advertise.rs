//! Stage 0: collects keys, gives everybody all of them.

use std::collections::BTreeSet;

use blindsum_crypto::kex::PublicKey;
use rand_core::CryptoRng;

use super::Common;
use super::share::CollectColumns;
use crate::core::round::{Bodies, ServerStep};
use crate::kit::advertise::{Advert, Adverts, TakesKeys, listed};
use crate::kit::keys::KeySignatures;
use crate::kit::wire::encode;
use crate::protocols::ramp::messages::Keys;
use crate::{Fault, FaultKind, PartyId, Round};

impl TakesKeys<1> for Common {
    type Advert = Advert;

    fn round(&self) -> &Round {
        &self.round
    }

    fn required(&self) -> usize {
        self.required_inputs()
    }

    fn check(&self, from: PartyId, sent: &Advert) -> Result<[PublicKey; 1], FaultKind> {
        let key = sent.check(&self.round, from, KeySignatures::IF_ACTIVE)?;
        Ok([key])
    }

    fn close(
        self,
        adverts: Adverts<Advert, 1>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ServerStep, Fault> {
        let advertised: BTreeSet<PartyId> = adverts.keys().copied().collect();
        let entries = listed(adverts);
        let body = encode("keys", &Keys { entries }).map_err(Fault::caller)?;
        Ok(ServerStep::Next {
            bodies: Bodies::Same(advertised.iter().copied().collect(), body),
            next: Box::new(CollectColumns::new(self, advertised)),
            faults: Vec::new(),
        })
    }
}
