//! Stage `advertise-keys`: a fresh key goes out, everybody's keys come back, and what the coordinator commits to.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_crypto::merkle::Hash;
use blindsum_sharing::validity::ValiditySharing;
use rand_core::CryptoRng;

use super::share::share_vector;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::keys::{advertised_bytes, keys_of_others, parse_keys, suite_of};
use crate::kit::wire::{Bounded, encode};
use crate::protocols::pss_malicious::messages::{Advertise, KeyEntry, Keys, SIGN_KEYS, is_signed};
use crate::protocols::pss_malicious::required;
use crate::{Fault, FaultKind, PartyId, Round};

/// Makes the round's key pair and advertises it.
pub(in crate::protocols::pss_malicious) fn start(
    setup: &Arc<ClientSetup>,
    sharing: Arc<ValiditySharing>,
    rng: &mut dyn CryptoRng,
) -> Result<ClientStep, Fault> {
    let pair = KeyPair::generate(suite_of(&setup.round), rng)
        .map_err(|error| Fault::caller(FaultKind::Parameters(error.to_string())))?;
    let key = pair.public().as_bytes();
    let signed = advertised_bytes(&setup.round, setup.me, &[key]);
    let message = Advertise {
        key: key.to_vec().into(),
        signature: setup.identity.sign(SIGN_KEYS, &signed).into(),
    };
    let body = encode(Advertise::NAME, &message).map_err(Fault::caller)?;
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

/// Checks a party's key: usable, and signed by it.
pub(in crate::protocols::pss_malicious) fn check_advert(
    round: &Round,
    owner: PartyId,
    sent: &Advertise,
) -> Result<PublicKey, FaultKind> {
    let [key] = parse_keys(round, owner, [sent.key.as_slice()])?;
    let signed = advertised_bytes(round, owner, &[sent.key.as_slice()]);
    match is_signed(round, owner, SIGN_KEYS, &signed, sent.signature.as_slice()) {
        true => Ok(key),
        false => Err(FaultKind::BadSignature { signer: owner }),
    }
}

/// The key is out; everybody's come next.
struct AwaitKeys {
    setup: Arc<ClientSetup>,
    sharing: Arc<ValiditySharing>,
    pair: KeyPair,
}

impl AwaitKeys {
    /// The others' keys, every one checked, and the own one as it was sent; and the commitment to the nonce.
    fn check(&self, message: &Keys) -> Result<(BTreeMap<PartyId, PublicKey>, Hash), FaultKind> {
        let round = &self.setup.round;
        let nonce = message.nonce.as_slice().try_into();
        let nonce = nonce.map_err(|_| FaultKind::malformed("keys", "a commitment has 32 bytes"))?;
        let check = |party, entry: &KeyEntry| check_advert(round, party, &entry.keys);
        let (own, entries) = (self.pair.public(), &message.entries);
        let all = keys_of_others(&self.setup, own, entries, |entry| entry.party, check)?;
        let (have, need) = (all.len() + 1, required(round, &self.sharing));
        if have < need {
            return Err(FaultKind::TooFewSurvivors { have, need });
        }
        Ok((all, nonce))
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
        let (peers, nonce) = self.check(&message).map_err(Fault::server)?;
        let input = input.ok_or(Fault::caller(FaultKind::InputMissing))?;
        let Self {
            setup,
            sharing,
            pair,
        } = *self;
        share_vector(setup, sharing, (pair, peers, nonce), input, rng)
    }
}
