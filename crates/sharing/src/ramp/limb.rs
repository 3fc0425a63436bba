//! One field's part of a sharing; a sum too large for one field is shared in two.

use std::collections::BTreeSet;

use blindsum_crypto::mask::MaskStream;
use blindsum_math::MathError;
use blindsum_math::dense::Matrix;
use blindsum_math::field::Field;
use blindsum_math::lagrange;
use blindsum_math::prime_field::NttField;
use blindsum_math::reed_solomon::ReedSolomon;
use blindsum_math::residues;
use blindsum_math::transform::{CosetTransform, Interpolation, Row};
use rand_core::CryptoRng;
use zeroize::{Zeroize, Zeroizing};

use super::tile::{TILE_BLOCKS, TileOfBlocks};
use super::{Embedding, RampParameters, Residues, random};

/// Random combinations of the blocks that are checked; p^−2 < 2^−61 in the narrowest field.
const COMBINATIONS: usize = 2;

/// Groups of eight blocks that are evaluated before their shares are written: longer runs of every column.
const GROUPS: usize = 8;

/// Memory that tiles are worked on in; wiped when dropped.
pub(super) struct Scratch {
    random: Zeroizing<Vec<u64>>,
    rows: Vec<Row>,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.rows.iter_mut().for_each(|row| row.0.zeroize());
    }
}

/// The sharing over one field, whichever it is.
pub(super) trait Limb: Send + Sync {
    /// Bytes of an element.
    fn element_len(&self) -> usize;
    /// Memory for [`Limb::share`].
    fn scratch(&self) -> Scratch;
    /// Shares one tile: writes the elements of the tile's blocks into every column that is wanted.
    fn share(
        &self,
        tile: &TileOfBlocks<'_>,
        stream: &[MaskStream; 1],
        scratch: &mut Scratch,
        columns: &mut [Option<&mut [u8]>],
    );
    /// Adds a packed column; refuses elements that are not canonical, after which the sum means nothing.
    fn add(&self, sum: &mut [u64], packed: &[u8]) -> Result<(), MathError>;
    /// Packs a column.
    fn pack(&self, column: &[u64], out: &mut Vec<u8>);
    /// What rebuilds the words from the columns of these k holders.
    fn matrix(&self, holders: &[usize]) -> Result<Box<dyn LimbMatrix>, MathError>;
    /// Positions of the columns that do not fit the others, found with random combinations of the blocks: a
    /// wrong column escapes with probability p^−[`COMBINATIONS`].
    fn misfits(
        &self,
        holders: &[usize],
        columns: &[&[u64]],
        rng: &mut dyn CryptoRng,
    ) -> Result<BTreeSet<usize>, MathError>;
}

/// A reconstruction matrix over some field.
pub(super) trait LimbMatrix: Send + Sync {
    /// `out[e * B + b]` = word e of block b, as an element.
    fn multiply(&self, columns: &[&[u64]], out: &mut [u64]);
}

impl<F: NttField> LimbMatrix for Matrix<F> {
    fn multiply(&self, columns: &[&[u64]], out: &mut [u64]) {
        Matrix::multiply(self, columns, out);
    }
}

pub(super) struct FieldLimb<F: NttField> {
    parameters: RampParameters,
    evaluate: CosetTransform<F>,
    /// For [`Embedding::Evaluations`].
    interpolate: Option<Interpolation<F>>,
    /// Whether words may be p or larger and are reduced first.
    reduce: bool,
}

impl<F: NttField> FieldLimb<F> {
    pub fn new(
        parameters: RampParameters,
        embedding: Embedding,
        residues: Residues,
    ) -> Result<Self, MathError> {
        let (k, n) = (parameters.threshold(), parameters.parties());
        Ok(Self {
            parameters,
            evaluate: CosetTransform::new(k, n)?,
            interpolate: match embedding {
                Embedding::Coefficients => None,
                Embedding::Evaluations => Some(Interpolation::new(k)?),
            },
            reduce: residues == Residues::Pair,
        })
    }

    fn points(&self, holders: &[usize]) -> Vec<F> {
        holders.iter().map(|&j| self.evaluate.point(j)).collect()
    }

    /// Puts eight blocks in rows: their words, then their random elements.
    fn load(&self, tile: &TileOfBlocks<'_>, group: usize, random: &[u64], rows: &mut [Row]) {
        let packing = self.parameters.packing();
        let (words, random_rows) = rows.split_at_mut(packing);
        for (e, row) in words.iter_mut().enumerate() {
            let at = e * TILE_BLOCKS + group;
            row.0.copy_from_slice(&tile.words[at..at + 8]);
            if self.reduce {
                // By a constant, which takes a multiplication and no division.
                row.0 = row.0.map(|word| word % F::MODULUS);
            }
        }
        let count = (tile.len - group).min(8);
        let random_rows = random_rows.iter_mut().take(self.parameters.random());
        for (t, row) in random_rows.enumerate() {
            let at = t * tile.len + group;
            row.0 = [0; 8];
            // guard: ramp-random-elements-are-drawn
            row.0[..count].copy_from_slice(&random[at..at + count]);
        }
    }
}

/// Σ factor · element over the blocks of a column.
fn combine<F: Field>(factors: &[F], column: &[u64]) -> F {
    let element = |value| F::from_canonical(value).unwrap_or(F::ZERO);
    let terms = factors.iter().zip(column);
    terms.fold(F::ZERO, |sum, (&factor, &value)| {
        sum + factor * element(value)
    })
}

impl<F: NttField> Limb for FieldLimb<F> {
    fn element_len(&self) -> usize {
        F::ENCODED_LEN
    }

    fn scratch(&self) -> Scratch {
        Scratch {
            random: Zeroizing::new(vec![0; self.parameters.random() * TILE_BLOCKS]),
            rows: vec![Row([0; 8]); self.evaluate.scratch_rows() * GROUPS],
        }
    }

    fn share(
        &self,
        tile: &TileOfBlocks<'_>,
        stream: &[MaskStream; 1],
        scratch: &mut Scratch,
        columns: &mut [Option<&mut [u8]>],
    ) {
        let wanted = self.parameters.random() * tile.len;
        random::fill::<F>(stream, tile.region, &mut scratch.random[..wanted]);
        let size = self.evaluate.scratch_rows();
        for first in (0..tile.len).step_by(8 * GROUPS) {
            let count = (tile.len - first).min(8 * GROUPS);
            let groups = scratch.rows.chunks_exact_mut(size).take(count.div_ceil(8));
            for (number, rows) in groups.enumerate() {
                self.load(tile, first + 8 * number, &scratch.random, rows);
                if let Some(interpolate) = &self.interpolate {
                    interpolate.interpolate(rows);
                }
                self.evaluate.evaluate(rows);
            }
            let groups = scratch.rows.chunks_exact(size).take(count.div_ceil(8));
            let start = (tile.first + first) * F::ENCODED_LEN;
            residues::pack_columns::<F>(&groups.collect::<Vec<_>>(), count, start, columns);
        }
    }

    fn add(&self, sum: &mut [u64], packed: &[u8]) -> Result<(), MathError> {
        residues::add_packed::<F>(sum, packed)
    }

    fn pack(&self, column: &[u64], out: &mut Vec<u8>) {
        residues::pack::<F>(column, out);
    }

    fn matrix(&self, holders: &[usize]) -> Result<Box<dyn LimbMatrix>, MathError> {
        let (points, words) = (self.points(holders), self.parameters.packing());
        let matrix = match &self.interpolate {
            None => lagrange::coefficients_matrix(&points, words)?,
            Some(interpolate) => {
                let targets: Vec<F> = (0..words).map(|e| interpolate.point(e)).collect();
                lagrange::values_matrix(&points, &targets)?
            }
        };
        Ok(Box::new(matrix))
    }

    fn misfits(
        &self,
        holders: &[usize],
        columns: &[&[u64]],
        rng: &mut dyn CryptoRng,
    ) -> Result<BTreeSet<usize>, MathError> {
        let blocks = columns.first().map_or(0, |column| column.len());
        let code = ReedSolomon::new(self.parameters.threshold(), self.points(holders))?;
        let mut factors = vec![F::ZERO; blocks];
        let mut misfits = BTreeSet::new();
        for _ in 0..COMBINATIONS {
            F::fill_random(&mut factors, rng);
            let combined: Vec<F> = columns.iter().map(|c| combine(&factors, c)).collect();
            misfits.extend(code.locate(&combined)?);
        }
        Ok(misfits)
    }
}
