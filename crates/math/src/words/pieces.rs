//! A long vector, made and packed tile by tile on several threads.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{Lane, Width, pack_tile_into};

/// Tiles that a thread takes at a time.
const TILES_OF_A_PIECE: usize = 8;

/// Makes a vector of `lanes` words tile by tile and packs it into `packed`. `make(first, tile)` writes words
/// `first..first + tile.len()` over the tile, which has `tile_lanes` lanes, the last tile perhaps fewer. Returns the
/// sum of what the calls return, by `add`, starting with `zero`.
///
/// A long vector is made on all threads of the global pool. A caller that is a thread of a pool makes the whole vector
/// by itself: give each thread of a pool a vector of its own.
///
/// # Errors
/// The error that `make` returns for a tile; any one of them if it fails for several.
///
/// # Panics
/// If `packed` has another length than `width.packed_len(lanes)`, if `tile_lanes` is no multiple of 8, or if the lanes
/// are not those of `width`.
pub fn pack_by_tiles<L: Lane, T: Copy + Send + Sync, E: Send>(
    width: Width,
    (lanes, tile_lanes): (usize, usize),
    packed: &mut [u8],
    (zero, add): (T, fn(T, T) -> T),
    make: impl Fn(usize, &mut [L]) -> Result<T, E> + Sync,
) -> Result<T, E> {
    assert_eq!(
        packed.len(),
        width.packed_len(lanes),
        "bytes of a packed vector"
    );
    assert!(
        tile_lanes > 0 && tile_lanes.is_multiple_of(8),
        "lanes of a tile"
    );
    let piece_lanes = TILES_OF_A_PIECE * tile_lanes;
    let piece_len = width.packed_len(piece_lanes);
    let make_piece = |(piece, bytes): (usize, &mut [u8])| {
        let mut tile = Zeroizing::new(vec![L::default(); tile_lanes.min(lanes)]);
        let firsts = (piece * piece_lanes..lanes).step_by(tile_lanes);
        let mut tiles = bytes.chunks_mut(width.packed_len(tile_lanes)).zip(firsts);
        tiles.try_fold(zero, |sum, (bytes, first)| {
            let tile = &mut tile[..tile_lanes.min(lanes - first)];
            let made = make(first, tile)?;
            pack_tile_into(width, L::tile(tile), bytes);
            Ok(add(sum, made))
        })
    };
    if lanes <= piece_lanes || rayon::current_thread_index().is_some() {
        let mut pieces = packed.chunks_mut(piece_len).enumerate();
        return pieces.try_fold(zero, |sum, piece| Ok(add(sum, make_piece(piece)?)));
    }
    let pieces = packed.par_chunks_mut(piece_len).enumerate();
    pieces
        .map(make_piece)
        .try_reduce(|| zero, |a, b| Ok(add(a, b)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::thread::{self, ThreadId};

    use super::*;
    use crate::words::{Tile, pack_tile};

    const TILE: usize = 16;

    /// The packed form of 0, 1, 2, … and the threads that made it.
    fn count(width: Width, lanes: usize) -> (Vec<u8>, BTreeSet<String>) {
        let name = |thread: ThreadId| format!("{thread:?}");
        let threads = Mutex::new(BTreeSet::new());
        let mut packed = vec![0xff; width.packed_len(lanes)];
        let sum = pack_by_tiles(
            width,
            (lanes, TILE),
            &mut packed,
            (0, |a, b| a + b),
            |first, tile: &mut [u32]| {
                threads.lock().unwrap().insert(name(thread::current().id()));
                (first..)
                    .zip(&mut *tile)
                    .for_each(|(at, lane)| *lane = at as u32);
                Ok::<_, ()>(tile.len())
            },
        );
        assert_eq!(sum, Ok(lanes));
        (packed, threads.into_inner().unwrap())
    }

    #[test]
    fn any_length_and_number_of_threads_gives_the_same_bytes() {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .unwrap();
        for (bits, lanes) in [0, 1, 15, 16, 17, 127, 128, 129, 1_000]
            .into_iter()
            .flat_map(|lanes| [5, 20, 32].map(|bits| (bits, lanes)))
        {
            let width = Width::new(bits).unwrap();
            let numbers: Vec<u32> = (0..lanes as u32).collect();
            let mut expected = Vec::new();
            pack_tile(width, Tile::W32(&numbers), &mut expected);
            assert_eq!(
                count(width, lanes).0,
                expected,
                "{lanes} words of {bits} bits"
            );
            let alone = pool.install(|| count(width, lanes));
            assert_eq!(alone.0, expected, "{lanes} words of {bits} bits, in a pool");
        }
    }

    #[test]
    fn a_thread_of_a_pool_works_alone() {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(2)
            .build()
            .unwrap();
        let width = Width::new(20).unwrap();
        let (me, threads) = pool.install(|| {
            (
                format!("{:?}", thread::current().id()),
                count(width, 1_000).1,
            )
        });
        assert_eq!(threads, BTreeSet::from([me]));
    }

    #[test]
    fn the_error_of_a_tile_comes_out() {
        let width = Width::new(8).unwrap();
        let make = |first: usize, _: &mut [u32]| match first {
            48 => Err("the fourth"),
            _ => Ok(()),
        };
        for lanes in [100, 1_000] {
            let made = pack_by_tiles(
                width,
                (lanes, TILE),
                &mut vec![0; lanes],
                ((), |(), ()| ()),
                make,
            );
            assert_eq!(made, Err("the fourth"));
        }
    }
}
