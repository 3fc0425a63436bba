//! Stage `advertise-keys`: everybody's keys are there, and what the coordinator commits to; the vector is shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_sharing::validity::ValiditySharing;
use rand_core::CryptoRng;

use super::share::share_vector;
use crate::core::round::{ClientSetup, ClientStep};
use crate::kit::advertise::{KeyEntry, SharesVector};
use crate::kit::keys::KeySignatures;
use crate::protocols::pss_malicious::messages::{KEY_SIGNATURES, Keys};
use crate::protocols::pss_malicious::required;
use crate::{Fault, FaultKind, Input, PartyId, Round};

impl SharesVector for ValiditySharing {
    const SIGNATURES: KeySignatures = KEY_SIGNATURES;
    type Keys = Keys;

    fn entries(keys: &Keys) -> &[KeyEntry] {
        &keys.entries
    }

    fn required(&self, round: &Round) -> usize {
        required(round, self)
    }

    fn share(
        self: Arc<Self>,
        setup: Arc<ClientSetup>,
        (pair, peers): (KeyPair, BTreeMap<PartyId, PublicKey>),
        keys: Keys,
        input: &dyn Input,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let nonce = keys.nonce.as_slice().try_into().map_err(|_| {
            Fault::server(FaultKind::malformed("keys", "a commitment has 32 bytes"))
        })?;
        share_vector(setup, self, (pair, peers, nonce), input, rng)
    }
}
