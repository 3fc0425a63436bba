//! The messages of a round. Up is from a client to the server, down from the server to a client.
//!
//! | stage | up | down |
//! |---|---|---|
//! | 0 advertise-keys | [`Advertise`] | [`NeighbourKeys`] |
//! | 1 share-keys | [`SharesOut`] | [`SharesIn`] |
//! | 2 masked-input | packed words | survivors bitmap |
//! | 3 consistency (active) | [`Signed`] | [`Signatures`] |
//! | 4 unmask (3 if semi-honest) | [`Revealed`] | result |

use blindsum_sharing::SHARE_LEN;
use tls_codec::{TlsDeserializeBytes, TlsSerializeBytes, TlsSize};

use crate::wire::Opaque;

/// A party's fresh public keys.
#[derive(Clone, PartialEq, Eq, TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Advertise {
    /// c^PK: seals shares.
    pub seal_key: Opaque,
    /// s^PK: makes pair masks.
    pub mask_key: Opaque,
    /// Over both keys and the round; empty if semi-honest.
    pub signature: Opaque,
}

/// The keys of a party's holders, itself among them, in rank order.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct NeighbourKeys {
    pub entries: Vec<KeyEntry>,
}

#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct KeyEntry {
    pub party: u32,
    pub keys: Advertise,
}

/// Sealed shares for a party's neighbours, in rank order, and the commitment to its self-mask seed.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct SharesOut {
    pub commitment: [u8; 32],
    pub sealed: Vec<SealedShares>,
}

/// Sealed shares from a party's neighbours, in rank order.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct SharesIn {
    pub sealed: Vec<SealedShares>,
}

/// `party` is the addressee on the way up and the sender on the way down.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct SealedShares {
    pub party: u32,
    pub sealed: Opaque,
}

/// A party's signature over the survivor set.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Signed {
    pub signature: Opaque,
}

/// The witnesses' signatures over the survivor set, in rank order; the same for everybody.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Signatures {
    pub entries: Vec<SignatureEntry>,
}

#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct SignatureEntry {
    pub party: u32,
    pub signature: Opaque,
}

/// One share of a secret of each party that shared with the sender, in rank order: of the self-mask
/// seed if the party survived, of the mask key if it dropped.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Revealed {
    pub shares: Vec<RevealedShare>,
}

#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct RevealedShare {
    pub party: u32,
    pub share: [u8; SHARE_LEN],
}

/// Whether the parties of a list ascend: no repetition, one order.
pub(super) fn ascending(parties: impl IntoIterator<Item = u32>) -> bool {
    let mut last = None;
    parties.into_iter().all(|party| {
        let fits = last < Some(party);
        last = Some(party);
        fits
    })
}
