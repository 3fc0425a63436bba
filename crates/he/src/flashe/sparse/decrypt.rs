//! Decryption of a sum at the coordinates that anybody has.

use blindsum_crypto::mask::{MaskStream, Sign, apply_masks, apply_masks_at};
use blindsum_math::{
    twin_residue::TwinResidue,
    words::{Lane, Tile, TileMut, Words, add_chosen, add_compacted, subtract_chosen},
};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{
    Participation, SparseMask,
    mask::push_ones,
    tile::{self, DENSE_FROM, SparseFingerprint, TILE_PIECES},
};
use crate::flashe::{FlasheError, RoundKey, Scheme, Shape, TILE, sum::parts};

/// A decrypted sum, `[D]`, with all coordinates.
pub struct SparseSum {
    /// The coordinates that anybody has. At the others there are zeros.
    pub(super) union: SparseMask,
    pub(super) words: Words,
    pub(super) contributors: Vec<u32>,
}

impl SparseSum {
    /// The sum at each coordinate, reduced mod 2^b; zero where there are too few contributors.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// How many parties have sent each coordinate.
    pub fn contributors(&self) -> &[u32] {
        &self.contributors
    }
}

impl RoundKey {
    /// Decrypts the sum of the compacted ciphertexts of the parties in `participation`, on all threads of the
    /// current pool if it is long.
    ///
    /// Words that fewer than `minimum` parties have sent are decrypted, because the check covers them, and then wiped.
    /// That binds honest parties only: the key opens these words, too.
    ///
    /// # Errors
    /// [`FlasheError::MaskLanes`] unless the masks are of the shape's lanes; [`FlasheError::CiphertextLength`];
    /// [`FlasheError::Math`] for padding bits or a check that is not canonical; [`FlasheError::Check`] if it is not the sum
    /// of exactly these parties' ciphertexts at exactly these coordinates, or if that sum wraps.
    pub fn decrypt_sparse(
        &self,
        shape: Shape,
        participation: Participation<'_>,
        minimum: u32,
        encrypted_sum: &[u8],
    ) -> Result<SparseSum, FlasheError> {
        let (got, expected) = (participation.lanes(), shape.lanes());
        if got != expected {
            return Err(FlasheError::MaskLanes { got, expected });
        }
        let union = participation.union();
        let (packed, check) = parts(shape.width(), union.count(), encrypted_sum)?;
        let encrypted = Words::unpack(shape.width(), union.count(), packed)?;
        let mut sum = SparseSum {
            union,
            words: Words::zeros(shape.width(), shape.lanes()),
            contributors: vec![0; shape.lanes()],
        };
        let decryption = Decryption {
            participation,
            minimum,
            edges: self.edges(participation, shape.scheme()),
            fingerprint: SparseFingerprint::new(&self.checks, shape),
            union: &sum.union,
        };
        let (words, counts) = (sum.words.tile_mut(0..expected), &mut sum.contributors);
        let found = match (encrypted.tile(0..encrypted.len()), words) {
            (Tile::W32(encrypted), TileMut::W32(lanes)) => decryption.run(encrypted, lanes, counts),
            (Tile::W64(encrypted), TileMut::W64(lanes)) => decryption.run(encrypted, lanes, counts),
            _ => unreachable!("equal widths have the same lanes"),
        };
        // guard: a-wrong-sparse-sum-is-noticed
        if found + self.checks.pads(participation.survivors()) != check {
            return Err(FlasheError::Check);
        }
        Ok(sum)
    }

    /// The masks of the sum: with double masking F of a rank where it or the one before has the coordinate, but not
    /// both, and with single masking where it has the coordinate.
    fn edges<'a>(&self, participation: Participation<'a>, scheme: Scheme) -> Vec<Edge<'a>> {
        let edge = |rank, own, before| Edge {
            stream: [self.streams.of(rank, Sign::Add)],
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
    stream: [MaskStream; 1],
    own: Option<&'a SparseMask>,
    before: Option<&'a SparseMask>,
}

impl Edge<'_> {
    /// The pieces of tile `tile` where the stream is taken off, and those where it is added. Where both, neither.
    fn pieces(&self, tile: usize) -> [[u64; TILE_PIECES]; 2] {
        let pieces = |mask: Option<&SparseMask>| mask.map_or([0; TILE_PIECES], |m| m.tile(tile));
        let (mut own, mut before) = (pieces(self.own), pieces(self.before));
        for (own, before) in own.iter_mut().zip(&mut before) {
            (*own, *before) = (*own & !*before, *before & !*own);
        }
        [own, before]
    }
}

struct Decryption<'a> {
    participation: Participation<'a>,
    minimum: u32,
    edges: Vec<Edge<'a>>,
    fingerprint: SparseFingerprint<'a>,
    union: &'a SparseMask,
}

impl Decryption<'_> {
    /// Writes the words, of which `encrypted` has those at the union's coordinates, and the numbers of contributors
    /// over zeros, and gives the check of both.
    fn run<L: Lane>(&self, encrypted: &[L], words: &mut [L], counts: &mut [u32]) -> TwinResidue {
        let mut rest = encrypted;
        let tiles = words.chunks_mut(TILE).zip(counts.chunks_mut(TILE));
        let tiles: Vec<_> = tiles
            .enumerate()
            .map(|(tile, (words, counts))| {
                let pieces = self.union.tile(tile);
                let count: u32 = pieces.iter().map(|piece| piece.count_ones()).sum();
                let (encrypted, others) = rest.split_at(count as usize);
                rest = others;
                (tile, encrypted, words, counts)
            })
            .collect();
        let checks = tiles.into_par_iter().map_init(
            Scratch::new,
            |scratch: &mut Scratch<L>, (tile, encrypted, words, counts)| {
                self.run_tile(scratch, tile, encrypted, words, counts)
            },
        );
        checks.reduce(|| TwinResidue::ZERO, |a, b| a + b)
    }

    fn run_tile<L: Lane>(
        &self,
        scratch: &mut Scratch<L>,
        tile: usize,
        encrypted: &[L],
        words: &mut [L],
        counts: &mut [u32],
    ) -> TwinResidue {
        if encrypted.is_empty() {
            return TwinResidue::ZERO;
        }
        let first = tile * TILE;
        scratch.words.fill(L::default());
        add_compacted(&self.union.tile(tile), &mut scratch.words, encrypted);
        for edge in &self.edges {
            scratch.apply(edge, tile);
        }
        // guard: contributors-are-in-the-check
        self.participation.count(tile, &mut scratch.contributors);
        let check = self
            .fingerprint
            .of_tile(first, &mut scratch.words, &mut scratch.contributors);
        let results = words.iter_mut().zip(counts);
        for ((word, count), (&of_lane, &contributors)) in
            results.zip(scratch.words.iter().zip(&scratch.contributors))
        {
            *count = Into::<u64>::into(contributors) as u32;
            *word = if *count < self.minimum {
                L::default()
            } else {
                of_lane
            };
        }
        check
    }
}

/// Room for what a tile takes.
struct Scratch<L: Lane> {
    /// By coordinate.
    words: Zeroizing<Vec<L>>,
    contributors: Vec<L>,
    /// The masks of a stream.
    masks: Zeroizing<Vec<L>>,
    coordinates: Vec<u32>,
}

impl<L: Lane> Scratch<L> {
    fn new() -> Self {
        Self {
            words: tile::tile(),
            contributors: vec![L::default(); TILE],
            masks: tile::tile(),
            coordinates: Vec::with_capacity(TILE),
        }
    }

    /// Takes a stream off where it is to be taken off, and adds it where it is to be added.
    fn apply(&mut self, edge: &Edge<'_>, tile: usize) {
        let (first, [off, on]) = (tile * TILE, edge.pieces(tile));
        let both = off.iter().chain(&on);
        let lanes: u32 = both.map(|piece| piece.count_ones()).sum();
        if lanes as usize >= DENSE_FROM {
            self.masks.fill(L::default());
            apply_masks(&edge.stream, first as u64, L::tile_mut(&mut self.masks));
            add_chosen(&on, &mut self.words, &self.masks);
            subtract_chosen(&off, &mut self.words, &self.masks);
            return;
        }
        self.coordinates.clear();
        push_ones(tile * TILE_PIECES, &off, &mut self.coordinates);
        let taken_off = self.coordinates.len();
        push_ones(tile * TILE_PIECES, &on, &mut self.coordinates);
        let masks = &mut self.masks[..self.coordinates.len()];
        masks.fill(L::default());
        apply_masks_at(&edge.stream[0], &self.coordinates, L::tile_mut(masks));
        let (off, on) = self.coordinates.split_at(taken_off);
        for (&d, &mask) in off.iter().zip(&*masks) {
            let word = &mut self.words[d as usize - first];
            *word = word.minus(mask);
        }
        for (&d, &mask) in on.iter().zip(&masks[taken_off..]) {
            let word = &mut self.words[d as usize - first];
            *word = word.plus(mask);
        }
    }
}
