//! The messages of a round. Up is from a party or the key service to the coordinator, down from it to them.
//!
//! | stage | up | down |
//! |---|---|---|
//! | 0 keys | [`Advert`], from each party | [`Adverts`], to the key service |
//! | 1 open | [`Opening`], from the key service | [`Opened`], the same to all parties |
//!
//! What follows depends on the way that sums take, see its file. At the end
//!
//! | stage | up | down |
//! |---|---|---|
//! | last: decrypt | packed sum, from the key service | result |

use blindsum_he::paillier::KeySize;
use tls_codec::{TlsDeserializeBytes, TlsSerializeBytes, TlsSize};

use crate::kit::advertise::Advert;
use crate::kit::proof::Proof;
use crate::kit::wire::{Bounded, KEY, Opaque, PREFIX, list};

/// The keys of all parties, in rank order.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Adverts {
    #[tls_codec(with = "list")]
    pub adverts: Vec<Advert>,
}

impl Bounded for Adverts {
    const NAME: &'static str = "keys";

    fn most_bytes(parties: usize) -> usize {
        PREFIX + parties * Advert::most_bytes(parties)
    }
}

/// What the key service says of the round.
#[derive(Clone, TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Opening {
    /// The public key that all encrypt for: N and h.
    pub key: Opaque,
    /// Its fresh key, under which parties seal what they send it.
    pub seal_key: Opaque,
    /// Where it is a server of its own: over both keys and the keys of all.
    pub proof: Proof,
}

impl Bounded for Opening {
    const NAME: &'static str = "opening";

    fn most_bytes(_parties: usize) -> usize {
        PREFIX + KeySize::Bits3072.public_key_bytes() + PREFIX + KEY + Proof::MAX_BYTES
    }
}

/// What all parties are told: the keys of all and the opening.
#[derive(Clone, TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(super) struct Opened {
    #[tls_codec(with = "list")]
    pub adverts: Vec<Advert>,
    pub opening: Opening,
}

impl Bounded for Opened {
    const NAME: &'static str = "opened round";

    fn most_bytes(parties: usize) -> usize {
        Adverts::most_bytes(parties) + Opening::most_bytes(parties)
    }
}
