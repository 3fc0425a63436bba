//! Stage 0: a fresh key goes out, everybody's keys come back.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_sharing::ramp::RampSharing;
use rand_core::CryptoRng;

use super::share::share_vector;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::keys::{check_keys, keys_of_others, sign_keys, suite_of};
use crate::kit::wire::{Bounded, encode};
use crate::protocols::ramp::messages::{Advertise, KeyEntry, Keys};
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
        let round = &self.setup.round;
        let check = |party, entry: &KeyEntry| {
            let sent = [entry.keys.key.as_slice()];
            let [key] = check_keys(round, party, sent, entry.keys.signature.as_slice())?;
            Ok(key)
        };
        let (own, entries) = (self.pair.public(), &message.entries);
        let all = keys_of_others(&self.setup, own, entries, |entry| entry.party, check)?;
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
