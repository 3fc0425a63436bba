//! Stage 0: a fresh key goes out, everybody's keys come back.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_sharing::ramp::RampSharing;
use rand_core::CryptoRng;

use super::share::share_vector;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::keys::{SeenKeys, check_keys, sign_keys, suite_of};
use crate::kit::wire::{Bounded, ascending, encode};
use crate::protocols::ramp::messages::{Advertise, Keys};
use crate::protocols::ramp::required_inputs;
use crate::{Fault, FaultKind, PartyId};

/// Makes the round's key pair and advertises it.
pub(crate) fn start(
    setup: &Arc<ClientSetup>,
    sharing: Arc<RampSharing>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let pair = KeyPair::generate(suite_of(&setup.round), rng)
        .map_err(|e| Fault::caller(FaultKind::Input(e.to_string())))?;
    let signature = sign_keys(setup, &[pair.public().as_bytes()]);
    let message = Advertise {
        key: pair.public().as_bytes().to_vec().into(),
        signature: signature.into(),
    };
    let body = encode("keys", &message).map_err(Fault::caller)?;
    let next = AwaitKeys {
        setup: setup.clone(),
        sharing,
        pair,
    };
    Ok(ClientStep::Send {
        body,
        next: Box::new(next),
    })
}

/// The key is out; everybody's come next.
pub(super) struct AwaitKeys {
    setup: Arc<ClientSetup>,
    sharing: Arc<RampSharing>,
    pair: KeyPair,
}

impl AwaitKeys {
    /// The others' keys, every one checked, and the own one as it was sent.
    fn check(&self, message: &Keys) -> Result<BTreeMap<PartyId, PublicKey>, FaultKind> {
        let ClientSetup { round, me, .. } = &*self.setup;
        if !ascending(message.entries.iter().map(|entry| entry.party)) {
            let rule = "parties must ascend, each listed once";
            return Err(FaultKind::malformed("keys", rule));
        }
        let mut seen = SeenKeys::default();
        let mut all = BTreeMap::new();
        for entry in &message.entries {
            let party = PartyId(entry.party);
            if party.rank() >= round.parties() {
                let rule = format!("{party} is not in the roster");
                return Err(FaultKind::malformed("keys", rule));
            }
            let sent = [entry.keys.key.as_slice()];
            let [key] = check_keys(round, party, sent, entry.keys.signature.as_slice())?;
            seen.add(party, [&key])?;
            all.insert(party, key);
        }
        let own = all.remove(me);
        if own.as_ref() != Some(self.pair.public()) {
            let reason = match own {
                None => "the server does not list this party's key",
                Some(_) => "the server lists another key than this party sent",
            };
            return Err(FaultKind::BadKey {
                owner: *me,
                reason: reason.into(),
            });
        }
        let (have, need) = (all.len() + 1, required_inputs(round, &self.sharing));
        if have < need {
            return Err(FaultKind::TooFewSurvivors { have, need });
        }
        Ok(all)
    }
}

impl ClientStage for AwaitKeys {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let message = Keys::read(self.setup.round.parties(), body).map_err(Fault::server)?;
        let peers = self.check(&message).map_err(Fault::server)?;
        let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
        let Self {
            setup,
            sharing,
            pair,
        } = *self;
        share_vector(setup, sharing, pair, peers, input, rng)
    }
}
