//! Stage 0: everybody's keys are there, and the vector is shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_sharing::ramp::RampSharing;
use rand_core::CryptoRng;

use super::share::share_vector;
use crate::core::round::{ClientSetup, ClientStep};
use crate::kit::advertise::{KeyEntry, SharesVector};
use crate::kit::keys::KeySignatures;
use crate::protocols::ramp::messages::Keys;
use crate::protocols::ramp::required_inputs;
use crate::{Fault, Input, PartyId, Round};

impl SharesVector for RampSharing {
    const SIGNATURES: KeySignatures = KeySignatures::IF_ACTIVE;
    type Keys = Keys;

    fn entries(keys: &Keys) -> &[KeyEntry] {
        &keys.entries
    }

    fn required(&self, round: &Round) -> usize {
        required_inputs(round, self)
    }

    fn share(
        self: Arc<Self>,
        setup: Arc<ClientSetup>,
        (pair, peers): (KeyPair, BTreeMap<PartyId, PublicKey>),
        _: Keys,
        input: &dyn Input,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        share_vector(setup, self, pair, peers, input, rng)
    }
}
