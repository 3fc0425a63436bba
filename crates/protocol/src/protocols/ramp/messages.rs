//! The messages of a round.
//!
//! * Stage 0: [`Advert`](crate::kit::advertise::Advert) up, [`Keys`] down, the same to all who advertised (U0).
//! * Stage 1 up: for every other party of U0, in rank order, its sealed column: the packed shares of all
//!   blocks and a tag of 16 bytes. Down: the bitmap of those who shared (U1), then the sealed columns for the
//!   receiver from every other party of U1, in rank order. Lengths are fixed by the round, so nothing is
//!   prefixed.
//! * Stage 2 if active: signatures over U1, [`crate::kit::consistency`].
//! * Stage 3, 2 if semi-honest: the packed sum of the columns up, the result down.

use blindsum_crypto::seal::SEAL_OVERHEAD;
use tls_codec::{TlsDeserializeBytes, TlsSerializeBytes, TlsSize};

use crate::kit::advertise::KeyEntry;
use crate::kit::wire::{Bounded, list};

/// What the keys that seal columns are for.
pub(super) const PURPOSE: &str = "share";
/// Bytes of a sealed column.
pub(super) const fn sealed_len(column: usize) -> usize {
    column + SEAL_OVERHEAD
}

/// The keys of all who advertised, in rank order.
#[derive(TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(crate) struct Keys {
    #[tls_codec(with = "list")]
    pub entries: Vec<KeyEntry>,
}

impl Bounded for Keys {
    const NAME: &'static str = "keys";

    fn most_bytes(parties: usize) -> usize {
        KeyEntry::most_bytes(parties)
    }
}
