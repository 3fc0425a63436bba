//! Sharing a vector tile by tile, and rebuilding a sum.

use std::collections::BTreeSet;

use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign};
use blindsum_math::MathError;
use blindsum_math::crt;
use blindsum_math::prime_field::{Field31, Field47, Field48};
use blindsum_math::transform::MAX_POINTS;
use blindsum_math::words::{TileMut, Words};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::limb::{FieldLimb, Limb, LimbMatrix};
use super::tile::{TILE_BLOCKS, TileOfBlocks};
use super::{ColumnSum, Embedding, RampParameters, Residues};
use crate::SharingError;

/// A sharing of vectors of a given length among n parties. Holds tables, no secrets.
pub struct RampSharing {
    parameters: RampParameters,
    words: usize,
    blocks: usize,
    limbs: Vec<Box<dyn Limb>>,
}

impl RampSharing {
    /// Prepares the sharing of vectors of `words` words whose sums fit the fields of `residues`.
    ///
    /// # Errors
    /// [`SharingError::Points`] for more parties than there are points.
    pub fn new(
        parameters: RampParameters,
        embedding: Embedding,
        residues: Residues,
        words: usize,
    ) -> Result<Self, SharingError> {
        let limbs =
            make_limbs(parameters, embedding, residues).map_err(|_| SharingError::Points {
                parties: parameters.parties(),
                most: MAX_POINTS,
            })?;
        Ok(Self {
            blocks: parameters.blocks(words),
            parameters,
            words,
            limbs,
        })
    }

    /// The parameters.
    pub fn parameters(&self) -> &RampParameters {
        &self.parameters
    }

    /// Blocks B of a vector.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Bytes of a packed column: the shares of all blocks that one party gets.
    pub fn column_len(&self) -> usize {
        self.limbs
            .iter()
            .map(|limb| limb.element_len())
            .sum::<usize>()
            * self.blocks
    }

    /// A column of zeros.
    pub fn zero_column(&self) -> ColumnSum {
        ColumnSum::zero(self.limbs.len(), self.blocks)
    }

    /// Shares a vector: writes the packed column of the party of rank j to `columns[j]`, unless that is `None`.
    ///
    /// `read(first, words)` gives the words from `first` on; it is called once for every word. The random
    /// elements come from the stream of `seed`: tile t of field f of F fields reads it from byte
    /// (t·F + f)·2^35 on. Two vectors must not share a seed.
    ///
    /// # Errors
    /// The error of `read`, and [`SharingError::Columns`] unless there are n columns of [`RampSharing::column_len`]
    /// bytes.
    pub fn share<E: From<SharingError>>(
        &self,
        seed: MaskSeed,
        mut read: impl FnMut(usize, &mut [u64]) -> Result<(), E>,
        columns: &mut [Option<&mut [u8]>],
    ) -> Result<(), E> {
        self.check_columns(columns)?;
        let stream = [MaskStream::new(seed, Sign::Add)];
        let mut words = Zeroizing::new(vec![0; self.parameters.packing() * TILE_BLOCKS]);
        let mut scratch: Vec<_> = self.limbs.iter().map(|limb| limb.scratch()).collect();
        for (index, first) in (0..self.blocks).step_by(TILE_BLOCKS).enumerate() {
            let len = TILE_BLOCKS.min(self.blocks - first);
            self.read_tile(first, len, &mut words, &mut read)?;
            let mut column_start = 0;
            for (f, (limb, scratch)) in self.limbs.iter().zip(&mut scratch).enumerate() {
                let tile = TileOfBlocks {
                    words: &words,
                    first,
                    len,
                    region: (index * self.limbs.len() + f) as u64,
                };
                let limb_len = limb.element_len() * self.blocks;
                let mut parts: Vec<Option<&mut [u8]>> = columns
                    .iter_mut()
                    .map(|column| {
                        Some(&mut column.as_mut()?[column_start..column_start + limb_len])
                    })
                    .collect();
                limb.share(&tile, &stream, scratch, &mut parts);
                column_start += limb_len;
            }
        }
        Ok(())
    }

    fn check_columns(&self, columns: &[Option<&mut [u8]>]) -> Result<(), SharingError> {
        let need = self.column_len();
        let fits = columns.iter().flatten().all(|column| column.len() == need);
        match columns.len() == self.parameters.parties() && fits {
            true => Ok(()),
            false => Err(SharingError::Columns {
                parties: self.parameters.parties(),
                need,
            }),
        }
    }

    /// Word e of the tile's blocks goes to `words[e * TILE_BLOCKS..]`, zero beyond the vector.
    fn read_tile<E>(
        &self,
        first: usize,
        len: usize,
        words: &mut [u64],
        read: &mut impl FnMut(usize, &mut [u64]) -> Result<(), E>,
    ) -> Result<(), E> {
        for (e, row) in words.chunks_exact_mut(TILE_BLOCKS).enumerate() {
            let start = e * self.blocks + first;
            let there = self.words.saturating_sub(start).min(len);
            let (given, beyond) = row.split_at_mut(there);
            if there > 0 {
                read(start, given)?;
            }
            beyond.fill(0);
        }
        Ok(())
    }

    /// Adds a packed column to `sum`.
    ///
    /// # Errors
    /// [`SharingError::ColumnLength`]; the sum is unchanged then. [`SharingError::ColumnElement`] for an element that
    /// is not canonical; the sum is useless then.
    pub fn add(&self, sum: &mut ColumnSum, packed: &[u8]) -> Result<(), SharingError> {
        let need = self.column_len();
        if packed.len() != need {
            return Err(SharingError::ColumnLength {
                got: packed.len(),
                need,
            });
        }
        let mut rest = packed;
        for (limb, sum) in self.limbs.iter().zip(&mut sum.limbs) {
            let (part, after) = rest.split_at(limb.element_len() * self.blocks);
            limb.add(sum, part)
                .map_err(|_| SharingError::ColumnElement)?;
            rest = after;
        }
        Ok(())
    }

    /// Packs a column.
    pub fn pack(&self, column: &ColumnSum) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.column_len());
        for (limb, column) in self.limbs.iter().zip(&column.limbs) {
            limb.pack(column, &mut packed);
        }
        packed
    }

    /// Prepares to rebuild sums from the columns of these k holders, given by rank. Takes O(k²), once for each set of
    /// holders.
    ///
    /// # Errors
    /// [`SharingError::Holders`] unless there are k different ranks below n.
    pub fn reconstructor(&self, holders: &[usize]) -> Result<RampReconstructor, SharingError> {
        self.check_holders(holders, holders.len() == self.parameters.threshold())?;
        let matrices = self.limbs.iter().map(|limb| limb.matrix(holders));
        Ok(RampReconstructor {
            threshold: self.parameters.threshold(),
            packing: self.parameters.packing(),
            blocks: self.blocks,
            words: self.words,
            matrices: matrices
                .collect::<Result<_, _>>()
                .map_err(|_| self.bad_holders())?,
        })
    }

    /// Finds wrong columns among m ≥ k columns: the positions of those that do not lie on polynomials of degree below k
    /// with the others. It finds all of them if they are at most ⌊(m − k)/2⌋. With m = k it can find none.
    ///
    /// A wrong column goes unnoticed with probability below 2^-61, however it was made: it is checked by random
    /// combinations that are drawn afterwards.
    ///
    /// # Errors
    /// [`SharingError::Holders`], and [`SharingError::Undecodable`] if more columns are wrong.
    pub fn misfits(
        &self,
        holders: &[usize],
        columns: &[&ColumnSum],
        rng: &mut dyn CryptoRng,
    ) -> Result<BTreeSet<usize>, SharingError> {
        let (k, m) = (self.parameters.threshold(), holders.len());
        self.check_holders(holders, m >= k && columns.len() == m)?;
        let mut misfits = BTreeSet::new();
        for (f, limb) in self.limbs.iter().enumerate() {
            let columns: Vec<&[u64]> = columns.iter().map(|c| &c.limbs[f][..]).collect();
            let found = limb.misfits(holders, &columns, rng);
            misfits.extend(found.map_err(|_| self.undecodable(m))?);
        }
        if 2 * misfits.len() > m - k {
            return Err(self.undecodable(m));
        }
        Ok(misfits)
    }

    fn check_holders(&self, holders: &[usize], count_fits: bool) -> Result<(), SharingError> {
        let different: BTreeSet<&usize> = holders.iter().collect();
        let known = holders.iter().all(|&j| j < self.parameters.parties());
        // guard: holders-are-k-parties
        match count_fits && known && different.len() == holders.len() {
            true => Ok(()),
            false => Err(self.bad_holders()),
        }
    }

    fn bad_holders(&self) -> SharingError {
        SharingError::Holders {
            threshold: self.parameters.threshold(),
            parties: self.parameters.parties(),
        }
    }

    fn undecodable(&self, got: usize) -> SharingError {
        let threshold = self.parameters.threshold();
        SharingError::Undecodable {
            got,
            threshold,
            correctable: (got - threshold) / 2,
        }
    }
}

fn make_limbs(
    parameters: RampParameters,
    embedding: Embedding,
    residues: Residues,
) -> Result<Vec<Box<dyn Limb>>, MathError> {
    let wide = || FieldLimb::<Field47>::new(parameters, embedding, residues);
    Ok(match residues {
        Residues::Narrow => vec![Box::new(FieldLimb::<Field31>::new(
            parameters, embedding, residues,
        )?)],
        Residues::Wide => vec![Box::new(wide()?)],
        Residues::Pair => vec![
            Box::new(wide()?),
            Box::new(FieldLimb::<Field48>::new(parameters, embedding, residues)?),
        ],
    })
}

/// Rebuilds sums from the columns of one set of holders.
pub struct RampReconstructor {
    threshold: usize,
    packing: usize,
    blocks: usize,
    words: usize,
    matrices: Vec<Box<dyn LimbMatrix>>,
}

impl RampReconstructor {
    /// Rebuilds a sum from the holders' columns, which are in the order in which the holders were given: writes its
    /// words, reduced to the width of `sum`.
    ///
    /// # Errors
    /// [`SharingError::ShareCount`] or [`SharingError::Words`] where the shapes differ.
    pub fn reconstruct(&self, columns: &[&ColumnSum], sum: &mut Words) -> Result<(), SharingError> {
        if sum.len() != self.words {
            return Err(SharingError::Words {
                got: sum.len(),
                need: self.words,
            });
        }
        if columns.len() != self.threshold {
            return Err(SharingError::ShareCount {
                got: columns.len(),
                points: self.threshold,
            });
        }
        let mut residues = Vec::with_capacity(self.matrices.len());
        for (f, matrix) in self.matrices.iter().enumerate() {
            let columns: Vec<&[u64]> = columns.iter().map(|c| &c.limbs[f][..]).collect();
            let mut out = vec![0; self.packing * self.blocks];
            matrix.multiply(&columns, &mut out);
            residues.push(out);
        }
        match &residues[..] {
            [one] => store(&one[..self.words], sum),
            [first, second] => {
                let (first, second) = (&first[..self.words], &second[..self.words]);
                let mut joined = vec![0; self.words];
                crt::join_low(first, second, &mut joined);
                store(&joined, sum);
            }
            _ => unreachable!("a sum is shared in one field or in two"),
        }
        Ok(())
    }
}

/// Sums that fit the fields wrap to the width of a word here, and only here.
fn store(values: &[u64], sum: &mut Words) {
    let mask = sum.width().mask();
    match sum.tile_mut(0..values.len()) {
        TileMut::W32(lanes) => {
            for (lane, value) in lanes.iter_mut().zip(values) {
                *lane = (value & mask) as u32;
            }
        }
        TileMut::W64(lanes) => {
            for (lane, value) in lanes.iter_mut().zip(values) {
                *lane = value & mask;
            }
        }
    }
}
