//! Which masks a vector or a sum has, and applying them: computed on the spot, or ahead of time.
//!
//! Masks are a signed sum of streams F(i‖j‖·), by rank j. A prepared vector holds such a sum for the first
//! tiles; masks that differ from it by a few streams are the prepared ones and those few.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use blindsum_crypto::mask::{MaskStream, Sign, apply_masks};
use blindsum_math::words::{Lane, TileMut};
use rayon::prelude::*;
use zeroize::{DefaultIsZeroes, Zeroizing};

use super::{Scheme, Shape, Survivors, TILE, streams::RoundStreams};

/// How often each rank's stream is added; never 0.
pub(super) struct Terms(BTreeMap<u32, i64>);

impl Terms {
    /// The masks of a party's vector. No ticket has rank 2^32 - 1, so there is always a next rank.
    pub(super) fn of_party(rank: u32, scheme: Scheme) -> Self {
        let mut terms = BTreeMap::from([(rank, 1)]);
        if scheme == Scheme::Double {
            terms.insert(rank + 1, -1);
        }
        Self(terms)
    }

    /// The inverse of the masks of a sum: the ends of runs, or everybody's.
    pub(super) fn of_sum(survivors: &Survivors, scheme: Scheme) -> Self {
        let runs = survivors.runs().iter();
        Self(match scheme {
            Scheme::Double => runs
                .flat_map(|&(first, last)| [(first, -1), (last + 1, 1)])
                .collect(),
            Scheme::Single => survivors.ranks().map(|rank| (rank, -1)).collect(),
        })
    }

    /// What is to be added to `other` to get these.
    fn minus(&self, other: &Self) -> Self {
        let mut difference = self.0.clone();
        for (&rank, times) in &other.0 {
            *difference.entry(rank).or_default() -= times;
        }
        difference.retain(|_, times| *times != 0);
        Self(difference)
    }

    /// Streams to be applied.
    fn count(&self) -> u64 {
        self.0.values().map(|times| times.unsigned_abs()).sum()
    }

    pub(super) fn streams(&self, of_round: &RoundStreams) -> Vec<MaskStream> {
        let mut streams = Vec::new();
        for (&rank, &times) in &self.0 {
            let sign = if times > 0 { Sign::Add } else { Sign::Sub };
            streams.extend((0..times.abs()).map(|_| of_round.of(rank, sign)));
        }
        streams
    }
}

/// Masks ready to be applied to a vector.
pub(super) struct Masks {
    /// For the lanes that nothing was prepared for.
    streams: Vec<MaskStream>,
    /// What was prepared, and what else the lanes that it has need.
    prepared: Option<(Prepared, Vec<MaskStream>)>,
}

impl Masks {
    /// Applies the masks of lanes `first..`. The tile is one of the tiles of the vector.
    pub(super) fn apply(&self, first: usize, mut tile: TileMut<'_>) {
        match &self.prepared {
            Some((prepared, rest)) if prepared.add(first, tile.reborrow()) => {
                apply_masks(rest, first as u64, tile);
            }
            _ => apply_masks(&self.streams, first as u64, tile),
        }
    }
}

/// Masks computed ahead, for the first tiles of a vector. Wiped when dropped.
struct Prepared {
    terms: Terms,
    tiles: PreparedTiles,
}

enum PreparedTiles {
    W32(Zeroizing<Vec<MaskTile<u32>>>),
    W64(Zeroizing<Vec<MaskTile<u64>>>),
}

/// The masks of a tile. It is wiped as a whole, which is faster than lane by lane.
#[derive(Clone, Copy)]
struct MaskTile<L>([L; TILE]);

impl<L: Lane> Default for MaskTile<L> {
    fn default() -> Self {
        Self([L::default(); TILE])
    }
}

impl<L: Lane> DefaultIsZeroes for MaskTile<L> {}

impl Prepared {
    /// As many tiles as the vector has and as fit `memory_bytes`.
    fn new(of_round: &RoundStreams, terms: Terms, shape: Shape, memory_bytes: usize) -> Self {
        let streams = terms.streams(of_round);
        let tiles = if shape.width().fits_u32() {
            PreparedTiles::W32(prepare(&streams, shape.lanes(), memory_bytes))
        } else {
            PreparedTiles::W64(prepare(&streams, shape.lanes(), memory_bytes))
        };
        Self { terms, tiles }
    }

    fn bytes(&self) -> usize {
        match &self.tiles {
            PreparedTiles::W32(tiles) => size_of_val(&tiles[..]),
            PreparedTiles::W64(tiles) => size_of_val(&tiles[..]),
        }
    }

    /// Adds the masks of the tile that begins with lane `first`, or says `false` if it is not there.
    fn add(&self, first: usize, tile: TileMut<'_>) -> bool {
        match (&self.tiles, tile) {
            (PreparedTiles::W32(masks), TileMut::W32(tile)) => add(tile, masks.get(first / TILE)),
            (PreparedTiles::W64(masks), TileMut::W64(tile)) => add(tile, masks.get(first / TILE)),
            _ => false,
        }
    }
}

fn add<L: Lane>(tile: &mut [L], masks: Option<&MaskTile<L>>) -> bool {
    let Some(MaskTile(masks)) = masks else {
        return false;
    };
    let pairs = tile.iter_mut().zip(masks);
    pairs.for_each(|(lane, &mask)| *lane = lane.plus(mask));
    true
}

/// The masks of the first tiles, on all threads of the current pool.
fn prepare<L: Lane>(
    streams: &[MaskStream],
    lanes: usize,
    memory_bytes: usize,
) -> Zeroizing<Vec<MaskTile<L>>> {
    let fit = memory_bytes / size_of::<MaskTile<L>>();
    let count = fit.min(lanes.div_ceil(TILE));
    let mut tiles = Zeroizing::new(vec![MaskTile::default(); count]);
    let numbered = tiles.par_iter_mut().enumerate();
    numbered.for_each(|(i, MaskTile(masks))| {
        // Of whole tiles, so that a longer vector may use them too.
        apply_masks(streams, (i * TILE) as u64, L::tile_mut(masks));
    });
    tiles
}

/// Room for what is prepared, to be used once.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Prepared>>);

impl Slot {
    /// Computes the masks `terms` of a vector, of as many tiles as fit `memory_bytes`; gives the bytes filled. What
    /// was prepared before is wiped.
    pub(super) fn prepare(
        &self,
        streams: &RoundStreams,
        terms: Terms,
        shape: Shape,
        memory_bytes: usize,
    ) -> usize {
        // First make room, so that there are never two.
        self.swap(None);
        let prepared = Prepared::new(streams, terms, shape, memory_bytes);
        let bytes = prepared.bytes();
        self.swap(Some(prepared));
        bytes
    }

    /// The masks `terms`, by what is prepared as far as that saves anything.
    pub(super) fn masks(&self, streams: &RoundStreams, terms: &Terms) -> Masks {
        let prepared = self.swap(None).and_then(|prepared| {
            let rest = terms.minus(&prepared.terms);
            (rest.count() < terms.count()).then(|| (prepared, rest.streams(streams)))
        });
        Masks {
            streams: terms.streams(streams),
            prepared,
        }
    }

    fn swap(&self, prepared: Option<Prepared>) -> Option<Prepared> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut slot, prepared)
    }
}

#[cfg(test)]
mod tests {
    use blindsum_crypto::{kdf::Context, secret::Secret};
    use blindsum_math::words::Width;

    use super::*;
    use crate::flashe::{JobKey, RoundKey};

    fn shape() -> Shape {
        Shape::new(Scheme::Double, Width::new(20).unwrap(), 5).unwrap()
    }

    fn key() -> RoundKey {
        JobKey::from(Secret::from([1; 32])).round(0, &Context([2; 32]))
    }

    fn survivors(ranks: &[u32]) -> Survivors {
        Survivors::new(10, ranks).unwrap()
    }

    /// How many streams are left for lanes that were prepared, `None` if none is used.
    fn left(masks: &Masks) -> Option<usize> {
        masks.prepared.as_ref().map(|(_, rest)| rest.len())
    }

    #[test]
    fn what_saves_a_stream_is_used() {
        for (scheme, expected, ranks, streams) in [
            (
                Scheme::Double,
                &[0, 1, 2, 3][..],
                &[0, 1, 2, 3][..],
                Some(0),
            ),
            (Scheme::Double, &[0, 1, 2, 3], &[0, 1, 3], Some(2)),
            (Scheme::Double, &[0, 1, 2, 3], &[0, 1, 2], None),
            (Scheme::Double, &[0, 1, 2, 3], &[5], None),
            (Scheme::Single, &[0, 1, 2, 3], &[0, 1, 2], Some(1)),
            (Scheme::Single, &[0, 1, 2, 3], &[0, 1], None),
        ] {
            let key = key();
            let shape = Shape::new(scheme, Width::new(20).unwrap(), 5).unwrap();
            key.prepare_decryption(&survivors(expected), shape, usize::MAX);
            let terms = Terms::of_sum(&survivors(ranks), scheme);
            let masks = key.to_decrypt.masks(&key.streams, &terms);
            assert_eq!(left(&masks), streams, "{scheme:?}: {expected:?}, {ranks:?}");
        }
    }

    #[test]
    fn what_is_prepared_is_used_once() {
        let key = key();
        key.prepare_encryption(3, shape(), usize::MAX).unwrap();
        let terms = Terms::of_party(3, Scheme::Double);
        assert_eq!(left(&key.to_decrypt.masks(&key.streams, &terms)), None);
        assert_eq!(left(&key.to_encrypt.masks(&key.streams, &terms)), Some(0));
        assert_eq!(left(&key.to_encrypt.masks(&key.streams, &terms)), None);
    }
}
