//! What is derived from keys, and what is signed.

use blindsum_crypto::kdf::{self, Context, derive32};
use blindsum_crypto::kex::{KeyPair, PublicKey};
use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign};
use blindsum_crypto::secret::Secret;

use super::messages::Advertise;
use crate::kit::keys::KeySignatures;
use crate::{FaultKind, PartyId, Round};

/// A holder's public keys, checked.
pub(super) struct PeerKeys {
    pub seal: PublicKey,
    pub mask: PublicKey,
}

/// Checks a party's advertised keys: that which seals shares, and that which makes pair masks.
pub(super) fn check_advertised(
    round: &Round,
    owner: PartyId,
    sent: &Advertise,
) -> Result<[PublicKey; 2], FaultKind> {
    let both = [sent.seal_key.as_slice(), sent.mask_key.as_slice()];
    KeySignatures::IF_ACTIVE.check_keys(round, owner, both, sent.signature.as_slice())
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
    // guard: pair-masks-cancel
    if own < other { Sign::Add } else { Sign::Sub }
}
