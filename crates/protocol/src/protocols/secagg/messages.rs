//! The messages of a round. Up is from a client to the server, down from the server to a client.
//!
//! | stage | up | down |
//! |---|---|---|
//! | 0 advertise-keys | [`Advertise`] | [`NeighbourKeys`] |
//! | 1 share-keys | [`SharesOut`] | [`SharesIn`] |
//! | 2 masked-input | packed words | survivors bitmap |
//! | 3 consistency (active) | `Signed` | `Signatures` ([`crate::kit::consistency`]) |
//! | 4 unmask (3 if semi-honest) | [`Revealed`] | result |

use blindsum_crypto::seal::SEAL_OVERHEAD;
use blindsum_crypto::sign::SIGNATURE_LEN;
use blindsum_sharing::SHARE_LEN;
use tls_codec::{TlsDeserializeBytes, TlsSerializeBytes, TlsSize};

use crate::kit::wire::{Bounded, KEY, Opaque, PARTY, PREFIX, list};

/// Bytes of two sealed shares.
pub(super) const SEALED_SHARES: usize = 2 * SHARE_LEN + SEAL_OVERHEAD;

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

impl Bounded for Advertise {
    const NAME: &'static str = "keys";

    fn most_bytes(_holders: usize) -> usize {
        2 * (PREFIX + KEY) + PREFIX + SIGNATURE_LEN
    }
}

/// The keys of a party's holders, itself among them, in rank order.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct NeighbourKeys {
    #[tls_codec(with = "list")]
    pub entries: Vec<KeyEntry>,
}

impl Bounded for NeighbourKeys {
    const NAME: &'static str = "keys";

    fn most_bytes(holders: usize) -> usize {
        PREFIX + holders * (PARTY + Advertise::most_bytes(holders))
    }
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
    #[tls_codec(with = "list")]
    pub sealed: Vec<SealedShares>,
}

impl Bounded for SharesOut {
    const NAME: &'static str = "shares";

    fn most_bytes(holders: usize) -> usize {
        32 + SharesIn::most_bytes(holders)
    }
}

/// Sealed shares from a party's neighbours, in rank order.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct SharesIn {
    #[tls_codec(with = "list")]
    pub sealed: Vec<SealedShares>,
}

impl Bounded for SharesIn {
    const NAME: &'static str = "shares";

    fn most_bytes(holders: usize) -> usize {
        PREFIX + holders * (PARTY + PREFIX + SEALED_SHARES)
    }
}

/// `party` is the addressee on the way up and the sender on the way down.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct SealedShares {
    pub party: u32,
    pub sealed: Opaque,
}

/// One share of a secret of each party that shared with the sender, in rank order: of the self-mask
/// seed if the party survived, of the mask key if it dropped.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Revealed {
    #[tls_codec(with = "list")]
    pub shares: Vec<RevealedShare>,
}

impl Bounded for Revealed {
    const NAME: &'static str = "revealed shares";

    fn most_bytes(holders: usize) -> usize {
        PREFIX + holders * (PARTY + SHARE_LEN)
    }
}

#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct RevealedShare {
    pub party: u32,
    pub share: [u8; SHARE_LEN],
}
