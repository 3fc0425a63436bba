//! Decryption of a sum at the coordinates that anybody has.

use blindsum_crypto::mask::{MaskStream, Sign, apply_masks_at};
use blindsum_math::{
    twin_residue::TwinResidue,
    words::{Lane, TileMut, Words},
};
use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

use super::{
    Participation, SparseMask,
    encrypt::{SparseFingerprint, TILE_PIECES},
    mask::{PIECE, ones},
};
use crate::{
    HeError,
    flashe::{RoundKey, Scheme, Shape, TILE, sum::parts},
};

/// What a sum holds at the coordinates that enough parties have.
pub struct SparseSum {
    mask: SparseMask,
    words: Words,
    contributors: Vec<u32>,
}

impl SparseSum {
    /// The coordinates.
    pub fn mask(&self) -> &SparseMask {
        &self.mask
    }

    /// The sum at each of them, in order; lanes are reduced mod 2^b.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// How many parties each is the sum of.
    pub fn contributors(&self) -> &[u32] {
        &self.contributors
    }
}

impl RoundKey {
    /// Decrypts the sum of the compacted ciphertexts of the parties in `participation`, on all threads of the
    /// current pool if it is long.
    ///
    /// The result leaves out coordinates that fewer than `minimum` parties have. Their words are computed, because
    /// the check covers them, and wiped. The key gives them all the same: the minimum is for honest parties.
    ///
    /// # Errors
    /// [`HeError::MaskLanes`] unless the masks are of the shape's lanes; [`HeError::CiphertextLength`];
    /// [`HeError::Math`] for padding bits or a check that is not canonical; [`HeError::Check`] if it is not the sum
    /// of exactly these parties' ciphertexts at exactly these coordinates, or if that sum wraps.
    pub fn decrypt_sparse(
        &self,
        shape: Shape,
        participation: Participation<'_>,
        minimum: u32,
        encrypted_sum: &[u8],
    ) -> Result<SparseSum, HeError> {
        let (got, expected) = (participation.lanes(), shape.lanes());
        if got != expected {
            return Err(HeError::MaskLanes { got, expected });
        }
        let union = participation.union();
        let (packed, check) = parts(shape.width(), union.count(), encrypted_sum)?;
        let mut words = Words::unpack(shape.width(), union.count(), packed)?;
        let mut contributors = vec![0; union.count()];
        let decryption = Decryption {
            shape,
            participation,
            edges: self.edges(participation, shape.scheme()),
            fingerprint: SparseFingerprint::new(&self.checks, shape),
            union: &union,
        };
        let found = match words.tile_mut(0..union.count()) {
            TileMut::W32(lanes) => decryption.run(lanes, &mut contributors),
            TileMut::W64(lanes) => decryption.run(lanes, &mut contributors),
        };
        if found + self.checks.pads(participation.survivors()) != check {
            return Err(HeError::Check);
        }
        Ok(with_enough(minimum, union, words, contributors))
    }

    /// The masks of the sum: with double masking F of a rank where it or the one before has the coordinate, but not
    /// both, and with single masking where it has the coordinate.
    fn edges<'a>(&self, participation: Participation<'a>, scheme: Scheme) -> Vec<Edge<'a>> {
        let edge = |rank, own, before| Edge {
            stream: self.stream(rank, Sign::Add),
            own,
            before,
        };
        let by_rank = participation.by_rank();
        if scheme == Scheme::Single {
            return by_rank
                .map(|(rank, mask)| edge(rank, Some(mask), None))
                .collect();
        }
        let mut edges = Vec::new();
        let mut last: Option<(u32, &SparseMask)> = None;
        for (rank, mask) in by_rank {
            match last {
                Some((before, of_before)) if before + 1 == rank => {
                    edges.push(edge(rank, Some(mask), Some(of_before)));
                }
                _ => {
                    edges.extend(last.map(|(before, mask)| edge(before + 1, None, Some(mask))));
                    edges.push(edge(rank, Some(mask), None));
                }
            }
            last = Some((rank, mask));
        }
        edges.extend(last.map(|(rank, mask)| edge(rank + 1, None, Some(mask))));
        edges
    }
}

/// A stream that is taken off where `own` has the coordinate, and added where `before` has it.
struct Edge<'a> {
    stream: MaskStream,
    own: Option<&'a SparseMask>,
    before: Option<&'a SparseMask>,
}

impl Edge<'_> {
    /// Where it is taken off and where it is added, in piece `at`. Where both, neither.
    fn piece(&self, at: usize) -> [u64; 2] {
        let piece = |mask: Option<&SparseMask>| mask.map_or(0, |mask| mask.pieces()[at]);
        let (own, before) = (piece(self.own), piece(self.before));
        [own & !before, before & !own]
    }
}

struct Decryption<'a> {
    shape: Shape,
    participation: Participation<'a>,
    edges: Vec<Edge<'a>>,
    fingerprint: SparseFingerprint<'a>,
    union: &'a SparseMask,
}

impl Decryption<'_> {
    /// Takes the masks off the words at the union's coordinates, counts contributors, and gives the check of both.
    fn run<L: Lane>(&self, words: &mut [L], contributors: &mut [u32]) -> TwinResidue {
        let mut tiles = Vec::new();
        let (mut words, mut contributors) = (words, contributors);
        for (tile, pieces) in self.union.pieces().chunks(TILE_PIECES).enumerate() {
            let count = pieces.iter().map(|piece| piece.count_ones() as usize).sum();
            let (of_tile, rest) = words.split_at_mut(count);
            let (counts, rest_of_counts) = contributors.split_at_mut(count);
            tiles.push((tile, of_tile, counts));
            (words, contributors) = (rest, rest_of_counts);
        }
        let checks = tiles.into_par_iter().map(|(tile, words, counts)| {
            let places = Places::new(tile * TILE_PIECES, self.union);
            self.decrypt_tile(&places, words);
            for (_, mask) in self.participation.by_rank() {
                let pieces = &mask.pieces()[places.pieces()];
                ones(places.first, pieces).for_each(|d| counts[places.of(d)] += 1);
            }
            let coordinates: Vec<u32> = ones(places.first, places.union).collect();
            self.fingerprint.of_tile(tile, &coordinates, words, counts)
        });
        checks.reduce(|| TwinResidue::ZERO, |a, b| a + b)
    }

    /// Takes all masks off the words of a tile, and reduces them.
    fn decrypt_tile<L: Lane>(&self, places: &Places<'_>, words: &mut [L]) {
        let mut masks = Zeroizing::new(vec![L::default(); TILE]);
        let mut coordinates = Vec::with_capacity(TILE);
        for edge in &self.edges {
            let mut taken_off = 0;
            coordinates.clear();
            for k in [0, 1] {
                for at in places.pieces() {
                    coordinates.extend(ones(at, &[edge.piece(at)[k]]));
                }
                if k == 0 {
                    taken_off = coordinates.len();
                }
            }
            let masks = &mut masks[..coordinates.len()];
            masks.fill(L::default());
            apply_masks_at(&edge.stream, &coordinates, L::tile_mut(masks));
            for (k, (&d, &mask)) in coordinates.iter().zip(&*masks).enumerate() {
                let word = &mut words[places.of(d)];
                *word = if k < taken_off {
                    word.minus(mask)
                } else {
                    word.plus(mask)
                };
            }
        }
        words
            .iter_mut()
            .for_each(|word| *word = word.low_bits(self.shape.width()));
    }
}

/// Where the coordinates of a tile are among those of the union.
struct Places<'a> {
    /// The number of the first piece of the tile.
    first: usize,
    union: &'a [u64],
    /// Coordinates of the tile before each piece.
    before: [u16; TILE_PIECES],
}

impl<'a> Places<'a> {
    fn new(first: usize, union: &'a SparseMask) -> Self {
        let pieces = &union.pieces()[first..];
        let union = &pieces[..TILE_PIECES.min(pieces.len())];
        let mut before = [0; TILE_PIECES];
        let mut sum = 0;
        for (before, piece) in before.iter_mut().zip(union) {
            *before = sum;
            sum += piece.count_ones() as u16;
        }
        Self {
            first,
            union,
            before,
        }
    }

    /// The numbers of the pieces.
    fn pieces(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.union.len()
    }

    /// The place of a coordinate of the union.
    fn of(&self, coordinate: u32) -> usize {
        let at = coordinate as usize / PIECE - self.first;
        let below = self.union[at] & !(u64::MAX << (coordinate as usize % PIECE));
        usize::from(self.before[at]) + below.count_ones() as usize
    }
}

/// The coordinates with at least `minimum` contributors.
fn with_enough(
    minimum: u32,
    mask: SparseMask,
    mut words: Words,
    mut contributors: Vec<u32>,
) -> SparseSum {
    let enough = |count: &u32| *count >= minimum;
    if !contributors.iter().all(enough) {
        let chosen = mask
            .coordinates()
            .zip(&contributors)
            .filter(|(_, count)| enough(count));
        let mut pieces = vec![0; mask.pieces().len()];
        chosen.for_each(|(d, _)| pieces[d as usize / PIECE] |= 1 << (d as usize % PIECE));
        let chosen = SparseMask::from_pieces(mask.lanes(), pieces);
        let mut kept = Words::zeros(words.width(), chosen.count());
        match (
            words.tile_mut(0..mask.count()),
            kept.tile_mut(0..chosen.count()),
        ) {
            (TileMut::W32(all), TileMut::W32(kept)) => keep(all, &contributors, minimum, kept),
            (TileMut::W64(all), TileMut::W64(kept)) => keep(all, &contributors, minimum, kept),
            _ => unreachable!("equal widths have the same lanes"),
        }
        contributors.retain(enough);
        return SparseSum {
            mask: chosen,
            words: kept,
            contributors,
        };
    }
    SparseSum {
        mask,
        words,
        contributors,
    }
}

/// Copies the words with enough contributors, and wipes all.
fn keep<L: Lane>(all: &mut [L], contributors: &[u32], minimum: u32, kept: &mut [L]) {
    let enough = all
        .iter()
        .zip(contributors)
        .filter(|&(_, &count)| count >= minimum);
    kept.iter_mut()
        .zip(enough)
        .for_each(|(to, (&word, _))| *to = word);
    all.iter_mut().for_each(Zeroize::zeroize);
}
