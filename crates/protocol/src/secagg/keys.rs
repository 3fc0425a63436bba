//! What is derived from keys, and what is signed.

use std::collections::BTreeMap;

use blindsum_crypto::kdf::{self, Context, derive32};
use blindsum_crypto::kex::{KeyPair, PublicKey, Suite};
use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign};
use blindsum_crypto::secret::Secret;

use super::messages::Advertise;
use crate::wire::VERSION;
use crate::{Adversary, FaultKind, PartyId, PartySet, Round, SuiteName};

/// Labels of what parties sign.
const SIGN_KEYS: &str = "blindsum advertise keys";
const SIGN_SURVIVORS: &str = "blindsum survivors";

/// A holder's public keys, checked.
pub(super) struct PeerKeys {
    pub seal: PublicKey,
    pub mask: PublicKey,
}

pub(super) fn suite_of(round: &Round) -> Suite {
    match round.job().spec().suite {
        SuiteName::X25519 => Suite::X25519,
        SuiteName::P256 => Suite::P256,
    }
}

pub(super) fn is_active(round: &Round) -> bool {
    round.job().spec().adversary == Adversary::Active
}

/// What a party signs over its fresh keys: round, rank, both keys. Key lengths are fixed by the suite.
pub(super) fn advertised_bytes(round: &Round, party: PartyId, seal: &[u8], mask: &[u8]) -> Vec<u8> {
    [
        &round.context().0,
        &party.0.to_be_bytes() as &[u8],
        seal,
        mask,
    ]
    .concat()
}

/// What a party signs over the survivor set: round and bitmap.
fn survivors_bytes(round: &Round, survivors: &PartySet) -> Vec<u8> {
    [&round.context().0 as &[u8], survivors.as_bitmap()].concat()
}

pub(super) fn sign_keys(
    round: &Round,
    me: PartyId,
    identity: &blindsum_crypto::sign::IdentityKey,
    seal: &KeyPair,
    mask: &KeyPair,
) -> Vec<u8> {
    let bytes = advertised_bytes(
        round,
        me,
        seal.public().as_bytes(),
        mask.public().as_bytes(),
    );
    identity.sign(SIGN_KEYS, &bytes)
}

pub(super) fn sign_survivors(
    round: &Round,
    identity: &blindsum_crypto::sign::IdentityKey,
    survivors: &PartySet,
) -> Vec<u8> {
    identity.sign(SIGN_SURVIVORS, &survivors_bytes(round, survivors))
}

/// Whether `signer` signed this survivor set.
pub(super) fn signed_survivors(
    round: &Round,
    signer: PartyId,
    survivors: &PartySet,
    signature: &[u8],
) -> bool {
    let bytes = survivors_bytes(round, survivors);
    round
        .roster()
        .verifying_key(signer.0)
        .is_some_and(|key| key.verify(SIGN_SURVIVORS, &bytes, signature).is_ok())
}

/// Checks a party's advertised keys: usable, and signed if the adversary is active.
pub(super) fn check_keys(
    round: &Round,
    owner: PartyId,
    keys: &Advertise,
) -> Result<PeerKeys, FaultKind> {
    let (seal, mask) = (keys.seal_key.as_slice(), keys.mask_key.as_slice());
    let parse = |bytes| {
        PublicKey::parse(suite_of(round), bytes).map_err(|error| FaultKind::BadKey {
            owner,
            reason: error.to_string(),
        })
    };
    let peer = PeerKeys {
        seal: parse(seal)?,
        mask: parse(mask)?,
    };
    if seal == mask {
        let reason = "its two keys are the same".into();
        return Err(FaultKind::BadKey { owner, reason });
    }
    if is_active(round) {
        let bytes = advertised_bytes(round, owner, seal, mask);
        round
            .roster()
            .verifying_key(owner.0)
            .and_then(|key| {
                key.verify(SIGN_KEYS, &bytes, keys.signature.as_slice())
                    .ok()
            })
            .ok_or(FaultKind::BadSignature { signer: owner })?;
    } else if !keys.signature.as_slice().is_empty() {
        return Err(FaultKind::malformed(
            "signature",
            "must be empty if semi-honest",
        ));
    }
    Ok(peer)
}

/// Notices a key that two parties advertise.
#[derive(Default)]
pub(super) struct SeenKeys(BTreeMap<Vec<u8>, PartyId>);

impl SeenKeys {
    /// Takes the keys of one more party; refuses those that another one has.
    pub fn add(&mut self, owner: PartyId, keys: &PeerKeys) -> Result<(), FaultKind> {
        let both = [keys.seal.as_bytes(), keys.mask.as_bytes()];
        if let Some(other) = both.iter().find_map(|&key| self.0.get(key)) {
            let reason = format!("it is also a key of {other}");
            return Err(FaultKind::BadKey { owner, reason });
        }
        self.0.extend(both.map(|key| (key.to_vec(), owner)));
        Ok(())
    }
}

/// The commitment to a self-mask seed b, by which the server knows a wrong one.
pub(super) fn commit_seed(context: &Context, owner: PartyId, seed: &[u8; 32]) -> [u8; 32] {
    kdf::hash(
        "blindsum self mask",
        &[&context.0, &owner.0.to_be_bytes(), seed],
    )
}

/// PRG(b_i), added or taken away.
pub(super) fn self_mask(
    context: &Context,
    owner: PartyId,
    seed: &Secret<32>,
    sign: Sign,
) -> MaskStream {
    let key = derive32(seed, context, "self mask", &[&owner.0.to_be_bytes()]);
    MaskStream::new(MaskSeed::from(key), sign)
}

/// PRG(s_ij) with the sign that it has in party `own`'s vector: added if `own` < `other`.
pub(super) fn pair_mask(
    context: &Context,
    own: PartyId,
    own_key: &KeyPair,
    other: PartyId,
    other_key: &PublicKey,
    sign: Sign,
) -> Result<MaskStream, FaultKind> {
    let shared = own_key.agree(other_key).map_err(|e| FaultKind::BadKey {
        owner: other,
        reason: e.to_string(),
    })?;
    let (low, high) = (own.0.min(other.0), own.0.max(other.0));
    let key = shared.derive(
        context,
        "pair mask",
        &[&low.to_be_bytes(), &high.to_be_bytes()],
    );
    Ok(MaskStream::new(MaskSeed::from(key), sign))
}

/// The sign of the pair mask of `own` and `other` in the vector of `own`.
pub(super) fn pair_sign(own: PartyId, other: PartyId) -> Sign {
    if own < other { Sign::Add } else { Sign::Sub }
}

/// Authenticated with the sealed shares from `from` to `to`.
pub(super) fn seal_header(context: &Context, from: PartyId, to: PartyId) -> Vec<u8> {
    [
        &[VERSION] as &[u8],
        &context.0,
        &from.0.to_be_bytes(),
        &to.0.to_be_bytes(),
    ]
    .concat()
}
