//! The stage in which parties confirm to each other that they were told one survivor set, before any of them
//! reveals what must be revealed for one set only (Bonawitz17 Fig. 4, ConsistencyCheck).

use blindsum_crypto::sign::{IdentityKey, SIGNATURE_LEN};
use tls_codec::{TlsDeserializeBytes, TlsSerializeBytes, TlsSize};

use crate::kit::keys::is_signed;
use crate::kit::wire::{Bounded, Opaque, PARTY, PREFIX, check_ascending, encode, list};
use crate::{FaultKind, PartyId, PartySet, Round};

/// Label of what parties sign over the survivor set.
const SIGN_SURVIVORS: &str = "blindsum survivors";

/// What a party signs over the survivor set: round and bitmap.
fn survivors_bytes(round: &Round, survivors: &PartySet) -> Vec<u8> {
    // guard: signed-survivors-of-this-round
    [&round.context().0 as &[u8], survivors.as_bitmap()].concat()
}

pub(crate) fn sign_survivors(
    round: &Round,
    identity: &IdentityKey,
    survivors: &PartySet,
) -> Vec<u8> {
    identity.sign(SIGN_SURVIVORS, &survivors_bytes(round, survivors))
}

/// Whether `signer` signed this survivor set.
pub(crate) fn signed_survivors(
    round: &Round,
    signer: PartyId,
    survivors: &PartySet,
    signature: &[u8],
) -> bool {
    let bytes = survivors_bytes(round, survivors);
    is_signed(round, signer, SIGN_SURVIVORS, &bytes, signature)
}

/// A party's signature over the survivor set.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(crate) struct Signed {
    pub signature: Opaque,
}

impl Bounded for Signed {
    const NAME: &'static str = "signature";

    fn most_bytes(_parties: usize) -> usize {
        PREFIX + SIGNATURE_LEN
    }
}

/// Signatures over the survivor set, in rank order; the same for everybody.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(crate) struct Signatures {
    #[tls_codec(with = "list")]
    pub entries: Vec<SignatureEntry>,
}

impl Bounded for Signatures {
    const NAME: &'static str = "signatures";

    fn most_bytes(parties: usize) -> usize {
        PREFIX + parties * (PARTY + Signed::most_bytes(parties))
    }
}

#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(crate) struct SignatureEntry {
    pub party: u32,
    pub signature: Opaque,
}

/// The message with which a party confirms the survivor set.
pub(crate) fn signed_message(
    round: &Round,
    identity: &IdentityKey,
    survivors: &PartySet,
) -> Result<Vec<u8>, FaultKind> {
    let signature = sign_survivors(round, identity, survivors).into();
    encode("signature", &Signed { signature })
}

/// Demands the signatures of at least `need` parties over this very set; one over another set does not
/// count. Only survivors that `may_sign` allows may be listed.
pub(crate) fn check_signatures(
    round: &Round,
    survivors: &PartySet,
    message: &Signatures,
    may_sign: impl Fn(PartyId) -> bool,
    need: usize,
) -> Result<(), FaultKind> {
    // guard: witness-rule, survivors-confirm-survivors
    let may_sign = |signer| may_sign(signer) && survivors.contains(signer);
    let signed = |signer, signature: &[u8]| signed_survivors(round, signer, survivors, signature);
    check_signed_by(message, may_sign, signed, need)
}

/// Checks the signatures over what parties were told: of parties that may sign, each listed once, `need` of which are right
/// as `signed` says.
pub(crate) fn check_signed_by(
    message: &Signatures,
    may_sign: impl Fn(PartyId) -> bool,
    signed: impl Fn(PartyId, &[u8]) -> bool,
    need: usize,
) -> Result<(), FaultKind> {
    let malformed = |rule: String| FaultKind::malformed("signatures", rule);
    let signers = message.entries.iter().map(|entry| entry.party);
    // guard: signers-listed-once
    check_ascending("signatures", signers)?;
    let mut have = 0;
    for entry in &message.entries {
        let signer = PartyId(entry.party);
        if !may_sign(signer) {
            return Err(malformed(format!("{signer} is no surviving signer")));
        }
        // Once there are enough, the others change nothing.
        if have < need && signed(signer, entry.signature.as_slice()) {
            have += 1;
        }
    }
    let listed = message.entries.len();
    // guard: quorum-of-signatures
    if listed < need {
        return Err(FaultKind::TooFewSurvivors { have: listed, need });
    }
    // guard: quorum-of-signatures-over-this-set
    if have < need {
        return Err(FaultKind::Inconsistent { have, need });
    }
    Ok(())
}
