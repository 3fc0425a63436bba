//! One pass from input to wire: encode a tile, mask it, pack it, while it is in the cache.

use blindsum_encode::EncodingKind;
use blindsum_math::words::{Lane, TileMut, Width, pack_by_tiles};
use zeroize::Zeroizing;

use crate::kit::wire::HEADER;
use crate::{FaultKind, Input, Job};

/// Lanes of a tile; a multiple of 8 so that tiles meet at byte borders, and small enough that a tile
/// and its packed form stay in the first-level cache.
pub(crate) const TILE: usize = 4096;

/// Packs the input, after `mask(first_lane, tile)` has worked on each tile.
///
/// # Errors
/// An input of another length, or one that cannot be encoded.
pub(crate) fn pack_input(
    job: &Job,
    input: &dyn Input,
    mask: impl Fn(u64, TileMut<'_>) + Sync,
) -> Result<Vec<u8>, FaultKind> {
    let lanes = job.lanes();
    if input.lanes() != lanes {
        return Err(FaultKind::lanes(input.lanes(), lanes));
    }
    // With room for the frame, whose bytes come before these.
    let mut packed = vec![0; HEADER + job.packed_len()];
    packed.truncate(job.packed_len());
    match job.width().fits_u32() {
        true => pack_tiles::<u32>(job.width(), input, &mut packed, mask)?,
        false => pack_tiles::<u64>(job.width(), input, &mut packed, mask)?,
    }
    Ok(packed)
}

/// The same with words of 64 bits: `map` makes one of each lane and its word in the input.
///
/// # Errors
/// As [`pack_input`].
pub(crate) fn pack_mapped(
    job: &Job,
    input: &dyn Input,
    map: impl Fn(usize, u64) -> u64 + Sync,
    mask: impl Fn(u64, TileMut<'_>) + Sync,
) -> Result<Vec<u8>, FaultKind> {
    let lanes = job.lanes();
    if input.lanes() != lanes {
        return Err(FaultKind::lanes(input.lanes(), lanes));
    }
    let length = Width::WIDEST.packed_len(lanes);
    let mut packed = vec![0; HEADER + length];
    packed.truncate(length);
    let widened = Widened { job, input, map };
    pack_tiles::<u64>(Width::WIDEST, &widened, &mut packed, mask)?;
    Ok(packed)
}

/// What `visit` makes of each lane and its word in the input, added up; 0 at the beginning.
///
/// # Errors
/// As [`pack_input`].
pub(crate) fn add_up(
    job: &Job,
    input: &dyn Input,
    visit: impl Fn(usize, u64) -> u128,
) -> Result<u128, FaultKind> {
    let lanes = job.lanes();
    if input.lanes() != lanes {
        return Err(FaultKind::lanes(input.lanes(), lanes));
    }
    let widened = Widened {
        job,
        input,
        map: |_, word| word,
    };
    let (mut tile, mut sum) = (Zeroizing::new(vec![0; TILE.min(lanes)]), 0);
    for first in (0..lanes).step_by(TILE) {
        let rest = lanes - first;
        let tile = tile.get_mut(..TILE.min(rest)).unwrap_or_default();
        widened.read(first, TileMut::W64(tile))?;
        let lanes = (first..).zip(tile.iter());
        sum += lanes.map(|(lane, word)| visit(lane, *word)).sum::<u128>();
    }
    Ok(sum)
}

/// What is added to every word so that no sum of words wraps: fixed point has negative words, which are more than
/// −2^63 / n, and less than 2^63 / n. Who opens the sum takes as many of them out as there are words in it.
pub(crate) fn bias(job: &Job) -> u64 {
    match job.spec().encoding.kind() {
        EncodingKind::Fixed64 { .. } => (1 << 63) / u64::from(job.spec().parties),
        EncodingKind::Quantised { .. } | EncodingKind::Integers { .. } => 0,
    }
}

/// The words of the input, 64 bits each, with the [`bias`].
///
/// # Errors
/// As [`pack_input`].
pub(crate) fn biased_words(job: &Job, input: &dyn Input) -> Result<Zeroizing<Vec<u64>>, FaultKind> {
    let lanes = job.lanes();
    if input.lanes() != lanes {
        return Err(FaultKind::lanes(input.lanes(), lanes));
    }
    let bias = bias(job);
    let widened = Widened {
        job,
        input,
        map: |_, word: u64| word.wrapping_add(bias),
    };
    let mut words = Zeroizing::new(vec![0; lanes]);
    for (first, tile) in (0..).step_by(TILE).zip(words.chunks_mut(TILE)) {
        widened.read(first, TileMut::W64(tile))?;
    }
    Ok(words)
}

/// An input with a word of 64 bits for each lane and its word.
struct Widened<'a, F> {
    job: &'a Job,
    input: &'a dyn Input,
    map: F,
}

impl<F: Fn(usize, u64) -> u64 + Sync> Input for Widened<'_, F> {
    fn lanes(&self) -> usize {
        self.input.lanes()
    }

    fn read(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), FaultKind> {
        let TileMut::W64(tile) = tile else {
            unreachable!("words of 64 bits");
        };
        match self.job.width().fits_u32() {
            false => self.input.read(first_lane, TileMut::W64(tile))?,
            true => {
                let mut narrow = Zeroizing::new(vec![0u32; tile.len()]);
                self.input.read(first_lane, TileMut::W32(&mut narrow))?;
                for (word, narrow) in tile.iter_mut().zip(narrow.iter()) {
                    *word = (*narrow).into();
                }
            }
        }
        let mask = self.job.width().mask();
        for (lane, word) in (first_lane..).zip(tile) {
            *word = (self.map)(lane, *word & mask);
        }
        Ok(())
    }
}

fn pack_tiles<L: Lane>(
    width: Width,
    input: &dyn Input,
    packed: &mut [u8],
    mask: impl Fn(u64, TileMut<'_>) + Sync,
) -> Result<(), FaultKind> {
    let make = |first: usize, tile: &mut [L]| {
        input.read(first, L::tile_mut(tile))?;
        mask(first as u64, L::tile_mut(tile));
        Ok(())
    };
    pack_by_tiles(
        width,
        (input.lanes(), TILE),
        packed,
        ((), |(), ()| ()),
        make,
    )
}
