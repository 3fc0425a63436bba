//! Stage 0: collects keys, gives everybody those of its neighbours.

use std::collections::BTreeSet;

use blindsum_crypto::kex::PublicKey;
use rand_core::CryptoRng;

use super::Common;
use super::share::CollectShares;
use crate::core::round::{Bodies, ServerStep};
use crate::kit::advertise::{Adverts, TakesKeys};
use crate::kit::wire::encode;
use crate::protocols::secagg::keys::check_advertised;
use crate::protocols::secagg::messages::{Advertise, KeyEntry, NeighbourKeys};
use crate::{Fault, FaultKind, PartyId, Round};

impl TakesKeys<2> for Common {
    type Advert = Advertise;

    fn round(&self) -> &Round {
        &self.round
    }

    fn required(&self) -> usize {
        self.required_inputs()
    }

    fn check(&self, from: PartyId, sent: &Advertise) -> Result<[PublicKey; 2], FaultKind> {
        check_advertised(&self.round, from, sent)
    }

    fn close(
        self,
        adverts: Adverts<Advertise, 2>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ServerStep, Fault> {
        let advertised: BTreeSet<PartyId> = adverts.keys().copied().collect();
        let mut bodies = Vec::with_capacity(adverts.len());
        for &party in &advertised {
            let mut holders: Vec<PartyId> = self.neighbours_in(party, &advertised).collect();
            holders.insert(holders.partition_point(|holder| *holder < party), party);
            let entries = holders
                .iter()
                .filter_map(|holder| Some((holder, &adverts.get(holder)?.0)))
                .map(|(holder, sent)| KeyEntry {
                    party: holder.0,
                    keys: sent.clone(),
                })
                .collect();
            let body = encode("keys", &NeighbourKeys { entries }).map_err(Fault::caller)?;
            bodies.push((party, body));
        }
        let mask_keys = adverts
            .into_iter()
            .map(|(party, (_, [_, mask]))| (party, mask))
            .collect();
        Ok(ServerStep::Next {
            next: Box::new(CollectShares::new(self, advertised, mask_keys)),
            bodies: Bodies::Each(bodies),
            faults: Vec::new(),
        })
    }
}
