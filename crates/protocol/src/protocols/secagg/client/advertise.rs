//! Stage 0: fresh keys go out, the neighbours' keys come back.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kex::KeyPair;
use rand_core::CryptoRng;

use super::share::share_keys;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::advertise::fresh_pair;
use crate::kit::keys::{KeySignatures, SeenKeys};
use crate::kit::wire::{Bounded, check_ascending, encode};
use crate::protocols::secagg::AggregationGraph;
use crate::protocols::secagg::keys::{PeerKeys, check_advertised};
use crate::protocols::secagg::messages::{Advertise, NeighbourKeys};
use crate::{Fault, FaultKind, PartyId};

/// Makes the round's two key pairs and advertises them.
pub(crate) fn start(
    setup: &Arc<ClientSetup>,
    graph: Arc<AggregationGraph>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let (seal, mask) = (fresh_pair(setup, rng)?, fresh_pair(setup, rng)?);
    let next = AwaitKeys {
        setup: setup.clone(),
        graph,
        seal,
        mask,
    };
    let body = encode("keys", &next.advertised()).map_err(Fault::caller)?;
    Ok(ClientStep::Send {
        body,
        next: Box::new(next),
    })
}

/// Keys are out; those of the neighbours come next.
pub(super) struct AwaitKeys {
    setup: Arc<ClientSetup>,
    graph: Arc<AggregationGraph>,
    seal: KeyPair,
    mask: KeyPair,
}

impl AwaitKeys {
    fn advertised(&self) -> Advertise {
        let keys = [self.seal.public(), self.mask.public()].map(|key| key.as_bytes());
        let signature = KeySignatures::IF_ACTIVE.sign(&self.setup, &keys);
        Advertise {
            seal_key: self.seal.public().as_bytes().to_vec().into(),
            mask_key: self.mask.public().as_bytes().to_vec().into(),
            signature: signature.into(),
        }
    }

    /// The neighbours' keys, every one checked, and the own ones as they were sent.
    fn check(&self, message: &NeighbourKeys) -> Result<BTreeMap<PartyId, PeerKeys>, FaultKind> {
        let ClientSetup { round, me, .. } = &*self.setup;
        // guard: keys-listed-once
        check_ascending("keys", message.entries.iter().map(|entry| entry.party))?;
        let neighbours = self.graph.neighbours(*me);
        let bad_own = |reason: &str| FaultKind::BadKey {
            owner: *me,
            reason: reason.into(),
        };
        let mut seen = SeenKeys::default();
        let mut peers = BTreeMap::new();
        let mut own_listed = false;
        for entry in &message.entries {
            let party = PartyId(entry.party);
            if party == *me {
                own_listed = entry.keys.seal_key.as_slice() == self.seal.public().as_bytes()
                    && entry.keys.mask_key.as_slice() == self.mask.public().as_bytes();
                // guard: own-keys-as-they-were-sent
                if !own_listed {
                    return Err(bad_own("the server lists other keys than this party sent"));
                }
            // guard: keys-of-neighbours-only
            } else if neighbours.binary_search(&party).is_err() {
                return Err(FaultKind::malformed(
                    "keys",
                    format!("{party} is no neighbour"),
                ));
            }
            let keys = check_advertised(round, party, &entry.keys)?;
            seen.add(party, &keys)?;
            if party != *me {
                let [seal, mask] = keys;
                peers.insert(party, PeerKeys { seal, mask });
            }
        }
        // guard: own-keys-are-listed
        if !own_listed {
            return Err(bad_own("the server does not list this party's keys"));
        }
        let (have, need) = (peers.len() + 1, self.graph.parameters().threshold());
        if have < need {
            return Err(FaultKind::TooFewSurvivors { have, need });
        }
        Ok(peers)
    }
}

impl ClientStage for AwaitKeys {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let holders = self.graph.parameters().holders();
        let message = NeighbourKeys::read(holders, body).map_err(Fault::server)?;
        let peers = self.check(&message).map_err(Fault::server)?;
        let Self {
            setup,
            graph,
            seal,
            mask,
        } = *self;
        share_keys(setup, graph, seal, mask, peers, rng)
    }
}
