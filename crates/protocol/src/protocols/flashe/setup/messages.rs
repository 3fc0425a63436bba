//! The messages of a key set-up. Up is from a client to the server, down from the server to a client.
//!
//! | stage | up | down |
//! |---|---|---|
//! | 0 advertise-keys | [`Advert`] | [`Keys`], the same to all who advertised |
//! | 1 deliver-key | [`Delivery`], from the leader only | [`KeyFor`] |
//! | 2 confirm-key | a tag of 32 bytes | bitmap of those who hold the key, their tag |

use blindsum_crypto::seal::SEAL_OVERHEAD;
use blindsum_crypto::sign::SIGNATURE_LEN;
use tls_codec::{TlsDeserializeBytes, TlsSerializeBytes, TlsSize};

use crate::core::vault::KeyName;
use crate::kit::keys::KeySignatures;
use crate::kit::wire::{Bounded, KEY, Opaque, PARTY, PREFIX, list};
use crate::protocols::flashe::held::DELIVERED;
use crate::{FaultKind, PartyId, Round};

/// What the keys that seal the key of the job are for.
pub(super) const PURPOSE: &str = "job key";
/// Bytes of the name of a key.
pub(super) const KEY_ID: usize = size_of::<KeyName>();
/// Bytes of a sealed key.
const SEALED: usize = DELIVERED + SEAL_OVERHEAD;

/// A party's fresh public key, and the name of the key that it holds.
#[derive(Clone, PartialEq, Eq, TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Advert {
    /// Empty if it holds none.
    pub key_id: Opaque,
    /// What the key of the job is sealed under.
    pub key: Opaque,
    /// Over the fresh key, the name and the round; empty if semi-honest.
    pub signature: Opaque,
}

impl Advert {
    /// What is signed: the name stands behind the key, whose length the suite fixes.
    pub fn signed(&self) -> [&[u8]; 2] {
        [self.key.as_slice(), self.key_id.as_slice()]
    }

    /// Checks that `owner` made it for this round.
    pub fn check_signature(&self, round: &Round, owner: PartyId) -> Result<(), FaultKind> {
        let signature = self.signature.as_slice();
        KeySignatures::IF_ACTIVE.check(round, owner, &self.signed(), signature)
    }
}

impl Bounded for Advert {
    const NAME: &'static str = "keys";

    fn most_bytes(_parties: usize) -> usize {
        PREFIX + KEY_ID + PREFIX + KEY + PREFIX + SIGNATURE_LEN
    }
}

/// What everybody advertised, in rank order.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Keys {
    #[tls_codec(with = "list")]
    pub entries: Vec<Entry>,
}

impl Bounded for Keys {
    const NAME: &'static str = "keys";

    fn most_bytes(parties: usize) -> usize {
        PREFIX + parties * (PARTY + Advert::most_bytes(parties))
    }
}

#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Entry {
    pub party: u32,
    pub advert: Advert,
}

/// The key of the job, sealed to each party that lacks it, in rank order.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Delivery {
    #[tls_codec(with = "list")]
    pub sealed: Vec<SealedKey>,
}

impl Bounded for Delivery {
    const NAME: &'static str = "delivery";

    fn most_bytes(parties: usize) -> usize {
        PREFIX + parties * (PARTY + PREFIX + SEALED)
    }
}

#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct SealedKey {
    pub party: u32,
    pub sealed: Opaque,
}

/// The key of the job, sealed by the leader; empty for a party that holds it.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct KeyFor {
    pub sealed: Opaque,
}

impl Bounded for KeyFor {
    const NAME: &'static str = "delivery";

    fn most_bytes(_parties: usize) -> usize {
        PREFIX + SEALED
    }
}
