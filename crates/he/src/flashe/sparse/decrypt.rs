//! Decryption of a sum at the coordinates that anybody has.

use std::ops::Range;

use blindsum_crypto::mask::{MaskStream, Sign, apply_masks_at};
use blindsum_math::{
    twin_residue::TwinResidue,
    words::{Lane, TileMut, Width, Words},
};
use rayon::prelude::*;
use zeroize::{Zeroize, Zeroizing};

use super::{
    Participation, SparseMask,
    encrypt::{SparseFingerprint, TILE_PIECES},
    mask::{PIECE, ones, push_ones},
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
            let pieces = tile * TILE_PIECES..(tile + 1) * TILE_PIECES;
            let pieces = pieces.start..pieces.end.min(self.union.pieces().len());
            let coordinates: Vec<u32> =
                ones(pieces.start, &self.union.pieces()[pieces.clone()]).collect();
            let mut dense = Dense::new(tile, &coordinates, words);
            self.edges
                .iter()
                .for_each(|edge| dense.apply(edge, pieces.clone()));
            for (_, mask) in self.participation.by_rank() {
                dense.count(mask, pieces.clone());
            }
            dense.gather(&coordinates, self.shape.width(), words, counts);
            self.fingerprint.of_tile(tile, &coordinates, words, counts)
        });
        checks.reduce(|| TwinResidue::ZERO, |a, b| a + b)
    }
}

/// Words and contributors of a tile by coordinate: the lanes of others hold anything.
struct Dense<L: Lane> {
    /// The first coordinate of the tile.
    first: u32,
    words: Zeroizing<Vec<L>>,
    contributors: Vec<u32>,
    /// Room for the masks of a stream, and where they belong.
    masks: Zeroizing<Vec<L>>,
    coordinates: Vec<u32>,
}

impl<L: Lane> Dense<L> {
    fn new(tile: usize, coordinates: &[u32], words: &[L]) -> Self {
        let mut dense = Self {
            first: (tile * TILE) as u32,
            words: Zeroizing::new(vec![L::default(); TILE]),
            contributors: vec![0; TILE],
            masks: Zeroizing::new(vec![L::default(); TILE]),
            coordinates: Vec::with_capacity(TILE),
        };
        for (d, &word) in coordinates.iter().zip(words) {
            dense.words[(d - dense.first) as usize] = word;
        }
        dense
    }

    /// Takes a stream off where it is to be taken off, and adds it where it is to be added.
    fn apply(&mut self, edge: &Edge<'_>, pieces: Range<usize>) {
        self.coordinates.clear();
        for at in pieces.clone() {
            push_ones(at, edge.piece(at)[0], &mut self.coordinates);
        }
        let taken_off = self.coordinates.len();
        for at in pieces {
            push_ones(at, edge.piece(at)[1], &mut self.coordinates);
        }
        let masks = &mut self.masks[..self.coordinates.len()];
        masks.fill(L::default());
        apply_masks_at(&edge.stream, &self.coordinates, L::tile_mut(masks));
        let (off, on) = self.coordinates.split_at(taken_off);
        for (d, &mask) in off.iter().zip(&*masks) {
            let word = &mut self.words[(d - self.first) as usize];
            *word = word.minus(mask);
        }
        for (d, &mask) in on.iter().zip(&masks[taken_off..]) {
            let word = &mut self.words[(d - self.first) as usize];
            *word = word.plus(mask);
        }
    }

    /// Counts a party at its coordinates.
    fn count(&mut self, mask: &SparseMask, pieces: Range<usize>) {
        self.coordinates.clear();
        for at in pieces {
            push_ones(at, mask.pieces()[at], &mut self.coordinates);
        }
        for d in &self.coordinates {
            self.contributors[(d - self.first) as usize] += 1;
        }
    }

    /// Takes words and contributors from the coordinates; words are reduced.
    fn gather(&self, coordinates: &[u32], width: Width, words: &mut [L], counts: &mut [u32]) {
        let places = coordinates.iter().map(|d| (d - self.first) as usize);
        for (place, (word, count)) in places.zip(words.iter_mut().zip(counts)) {
            *word = self.words[place].low_bits(width);
            *count = self.contributors[place];
        }
    }
}

/// The coordinates with at least `minimum` contributors.
fn with_enough(
    minimum: u32,
    mask: SparseMask,
    mut words: Words,
    mut contributors: Vec<u32>,
) -> SparseSum {
    // Without a branch, which would be hard to predict: a place is overwritten unless it is kept.
    let (mut places, mut kept) = (vec![0; contributors.len()], 0);
    for (place, &count) in contributors.iter().enumerate() {
        places[kept] = place;
        kept += usize::from(count >= minimum);
    }
    if kept == contributors.len() {
        return SparseSum {
            mask,
            words,
            contributors,
        };
    }
    places.truncate(kept);
    let coordinates: Vec<u32> = mask.coordinates().collect();
    let mut pieces = vec![0; mask.pieces().len()];
    let mut chosen = Words::zeros(words.width(), kept);
    for (to, &place) in places.iter().enumerate() {
        let coordinate = coordinates[place] as usize;
        pieces[coordinate / PIECE] |= 1 << (coordinate % PIECE);
        contributors[to] = contributors[place];
    }
    contributors.truncate(kept);
    match (words.tile_mut(0..mask.count()), chosen.tile_mut(0..kept)) {
        (TileMut::W32(all), TileMut::W32(chosen)) => keep(all, &places, chosen),
        (TileMut::W64(all), TileMut::W64(chosen)) => keep(all, &places, chosen),
        _ => unreachable!("equal widths have the same lanes"),
    }
    SparseSum {
        mask: SparseMask::from_pieces(mask.lanes(), pieces),
        words: chosen,
        contributors,
    }
}

/// Copies the words at these places, and wipes all.
fn keep<L: Lane>(all: &mut [L], places: &[usize], chosen: &mut [L]) {
    let pairs = chosen.iter_mut().zip(places);
    pairs.for_each(|(to, &place)| *to = all[place]);
    all.iter_mut().for_each(Zeroize::zeroize);
}
