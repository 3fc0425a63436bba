//! If the coordinator may lie, the others confirm the challenge that this party was told before it answers.

use std::sync::Arc;

use blindsum_sharing::validity::ValiditySharing;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::verdict::AwaitVerdict;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::consistency::{Signatures, check_signed_by};
use crate::kit::keys::is_signed;
use crate::kit::snapshot::Reader;
use crate::kit::wire::Bounded;
use crate::protocols::pss_malicious::messages::{SIGN_CHALLENGE, challenge_bytes, response_len};
use crate::{Fault, FaultKind};

/// This party signed the challenge; the others' signatures come next.
pub(super) struct AwaitChallenge {
    pub next: AwaitVerdict,
    /// What it answers then.
    pub response: Vec<u8>,
}

impl AwaitChallenge {
    pub fn load(
        setup: Arc<ClientSetup>,
        sharing: Arc<ValiditySharing>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, FaultKind> {
        let next = AwaitVerdict::load(setup, sharing, reader)?;
        let response = reader
            .bytes(response_len(next.sharing.shape(), next.shared.len()))?
            .to_vec();
        Ok(Self { next, response })
    }
}

impl ClientStage for AwaitChallenge {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let Self { next, response } = *self;
        let round = &next.setup.round;
        let message = Signatures::read(round.parties(), body).map_err(Fault::server)?;
        let said = challenge_bytes(round, &next.challenge);
        // More than (n + c)/2: two challenges would take more honest signers than there are.
        // guard: one-challenge-is-confirmed
        let quorum = next.sharing.parameters().quorum();
        let signed =
            |signer, signature: &[u8]| is_signed(round, signer, SIGN_CHALLENGE, &said, signature);
        check_signed_by(
            &message,
            |signer| next.shared.contains(signer),
            signed,
            quorum,
        )
        .map_err(Fault::server)?;
        Ok(ClientStep::Send {
            body: response,
            next: Box::new(next),
        })
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        Ok(Some(self.next.write().bytes(&self.response).finish()))
    }
}
