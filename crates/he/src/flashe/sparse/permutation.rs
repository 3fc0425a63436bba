//! The order in which coordinates are sent.

use blindsum_crypto::mask::{MaskStream, Sign, apply_masks};
use blindsum_math::words::{Tile, TileMut, Words};
use zeroize::Zeroizing;

use super::{SparseMask, SparseSum};
use crate::flashe::{FlasheError, RoundKey};

/// Numbers drawn at a time.
const DRAWN: usize = 512;

/// A permutation of the coordinates, which all parties draw from the key of the round and the server does not
/// know. Wiped when dropped.
///
/// It is uniform (Fisher-Yates): the places 0, 1, ..., D − 1 hold the coordinates in order at first; then, for
/// i = D − 1 down to 1, place i is exchanged with place j, drawn uniformly from 0..=i. The numbers drawn are the
/// little-endian ones of 8 bytes of AES-256-CTR under `derive32(K_round, context, "flashe permutation", [])`, from
/// a zero counter on. A number w gives j = ⌊w (i + 1) / 2^64⌋, and is drawn again if w (i + 1) mod 2^64 is below
/// 2^64 mod (i + 1), which leaves every j the same number of w.
///
/// Which memory is accessed depends on the key: a program on the same machine may see something of that.
pub struct Permutation {
    /// By place.
    coordinates: Zeroizing<Vec<u32>>,
}

impl RoundKey {
    /// The permutation of `lanes` coordinates in this round.
    ///
    /// # Errors
    /// [`FlasheError::DenseLanes`] above 2^32 lanes.
    pub fn permutation(&self, lanes: usize) -> Result<Permutation, FlasheError> {
        SparseMask::empty(lanes)?;
        let mut numbers = Numbers::new(self.order.stream([0; 12], Sign::Add));
        let mut coordinates = Zeroizing::new((0..lanes).map(|d| d as u32).collect::<Vec<u32>>());
        for last in (1..lanes).rev() {
            let place = draw_below(last as u64 + 1, || numbers.next());
            coordinates.swap(last, place as usize);
        }
        Ok(Permutation { coordinates })
    }
}

impl Permutation {
    /// The coordinate of the vector at `place`.
    ///
    /// # Panics
    /// If `place` is not below the number of coordinates.
    pub fn coordinate(&self, place: u32) -> u32 {
        self.coordinates[place as usize]
    }

    /// Permutes a set of coordinates. Gives the set of their places, which is what is sent, and for each place, in
    /// order, the index within `set` of the coordinate that is there.
    ///
    /// # Errors
    /// [`FlasheError::MaskLanes`] for a set of coordinates of vectors of another length.
    pub fn permute(
        &self,
        set: &SparseMask,
    ) -> Result<(SparseMask, Zeroizing<Vec<u32>>), FlasheError> {
        self.check(set.lanes())?;
        let pieces = self.coordinates.chunks(64).map(|chunk| {
            let bits = chunk.iter().map(|&d| u64::from(set.contains(d)));
            bits.rev().fold(0, |piece, bit| piece << 1 | bit)
        });
        let places = SparseMask::from_pieces(set.lanes(), pieces.collect());
        let before: Vec<u32> = set
            .pieces()
            .iter()
            .scan(0, |sum, piece| {
                let before = *sum;
                *sum += piece.count_ones();
                Some(before)
            })
            .collect();
        let number = |place| {
            let d = self.coordinate(place) as usize;
            let lower = set.pieces()[d / 64] & ((1 << (d % 64)) - 1);
            before[d / 64] + lower.count_ones()
        };
        let numbers = places.coordinates().map(number).collect();
        Ok((places, Zeroizing::new(numbers)))
    }

    /// Undoes the permutation of `sum`: gives its words and its numbers of contributors by coordinate, each `[D]`.
    ///
    /// # Errors
    /// [`FlasheError::MaskLanes`] for the sum of vectors of another length.
    pub fn restore(&self, sum: &SparseSum) -> Result<(Words, Vec<u32>), FlasheError> {
        let lanes = sum.words.len();
        self.check(lanes)?;
        let mut words = Words::zeros(sum.words.width(), lanes);
        match (sum.words.tile(0..lanes), words.tile_mut(0..lanes)) {
            (Tile::W32(from), TileMut::W32(to)) => self.scatter(&sum.union, from, to),
            (Tile::W64(from), TileMut::W64(to)) => self.scatter(&sum.union, from, to),
            _ => unreachable!("equal widths have the same lanes"),
        }
        let mut contributors = vec![0; lanes];
        self.scatter(&sum.union, &sum.contributors, &mut contributors);
        Ok((words, contributors))
    }

    /// Writes what stands at some places over their coordinates.
    fn scatter<T: Copy>(&self, places: &SparseMask, by_place: &[T], by_coordinate: &mut [T]) {
        for place in places.coordinates() {
            by_coordinate[self.coordinate(place) as usize] = by_place[place as usize];
        }
    }

    fn check(&self, got: usize) -> Result<(), FlasheError> {
        let expected = self.coordinates.len();
        match got == expected {
            true => Ok(()),
            false => Err(FlasheError::MaskLanes { got, expected }),
        }
    }
}

/// The numbers of a stream, in order.
struct Numbers {
    stream: [MaskStream; 1],
    next: u64,
    drawn: Zeroizing<Vec<u64>>,
}

impl Numbers {
    fn new(stream: MaskStream) -> Self {
        Self {
            stream: [stream],
            next: 0,
            drawn: Zeroizing::new(vec![0; DRAWN]),
        }
    }

    fn next(&mut self) -> u64 {
        let at = (self.next % DRAWN as u64) as usize;
        if at == 0 {
            self.drawn.fill(0);
            apply_masks(&self.stream, self.next, TileMut::W64(&mut self.drawn));
        }
        self.next += 1;
        self.drawn[at]
    }
}

/// A uniform number below `bound`, which is not zero.
fn draw_below(bound: u64, mut number: impl FnMut() -> u64) -> u64 {
    loop {
        let product = u128::from(number()) * u128::from(bound);
        let low = product as u64;
        // 2^64 mod bound is below bound, so most numbers are taken without a division.
        if low >= bound || low >= bound.wrapping_neg() % bound {
            return (product >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With numbers of 64 bits every result has the same number of them: count the borders of each.
    #[test]
    fn draws_are_uniform_and_refuse_what_is_over() {
        for bound in [1_u64, 2, 3, 5, 6, 7, 1000, (1 << 32) - 5, 1 << 32] {
            for result in [0, 1, bound / 2, bound - 1]
                .into_iter()
                .filter(|&r| r < bound)
            {
                // The numbers w with floor(w bound / 2^64) = result.
                let first = (u128::from(result) << 64).div_ceil(u128::from(bound));
                let end = ((u128::from(result) + 1) << 64).div_ceil(u128::from(bound));
                let taken = |w: u128| {
                    // 1 is always taken.
                    let mut numbers = [w as u64, 1].into_iter();
                    let drawn = draw_below(bound, || numbers.next().unwrap());
                    (numbers.len() == 1).then_some(drawn)
                };
                // Products grow by the bound from one number to the next.
                let refused = u128::from(taken(first).is_none());
                assert!(taken(first + 1).is_some());
                assert_eq!(end - first - refused, (1 << 64) / u128::from(bound));
                assert_eq!(taken(end - 1), Some(result));
            }
        }
    }
}
