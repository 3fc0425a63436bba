//! The rows of a vector: what a prover shares.

use std::ops::Range;

use blindsum_math::field::Field;
use zeroize::Zeroizing;

use super::points::F;
use super::projection::project;
use super::{Layout, ValidityError};

/// The rows of one vector, [`Layout::rows`] of l numbers each. Wiped when dropped.
///
/// Whoever wants to lie changes numbers in it before they are shared.
pub struct Witness {
    layout: Layout,
    /// Number e of row i at `numbers[e * rows + i]`, as ramp sharing reads words.
    numbers: Zeroizing<Vec<u64>>,
}

impl Witness {
    /// The rows of a vector for which the statement holds. Those of projections are zero until [`Witness::project`] fills them.
    ///
    /// # Errors
    /// [`ValidityError::Words`] unless there are L words, [`ValidityError::Word`] for one that is too large,
    /// [`ValidityError::Norm`] if their norm is. A number behind the last word counts as zero.
    pub fn new(layout: Layout, words: &[u64]) -> Result<Self, ValidityError> {
        let statement = layout.statement();
        if words.len() != statement.words {
            let (got, need) = (words.len(), statement.words);
            return Err(ValidityError::Words { got, need });
        }
        let largest = statement.largest;
        if words.iter().fold(0, |most, &word| most.max(word)) > largest {
            return Err(ValidityError::Word { most: largest });
        }
        let (rows, blocks, zero) = (
            layout.rows(),
            layout.blocks(),
            statement.norm.map_or(0, |norm| norm.offset),
        );
        let mut numbers = Zeroizing::new(vec![0; rows * layout.packing()]);
        let mut norm = 0_u128;
        for (slot, row) in numbers.chunks_exact_mut(rows).enumerate() {
            let given = words.get(slot * blocks..).unwrap_or_default();
            for block in 0..blocks {
                let word = given.get(block).copied().unwrap_or(zero);
                row[block] = word;
                if let Some(bound) = statement.norm {
                    let square = bound.square(word);
                    row[blocks + block] = square;
                    norm += u128::from(square);
                }
                let rows_of_bits = layout.bits().skip(block).step_by(blocks);
                for (row_of_bit, bit) in rows_of_bits.zip(statement.bits().bits_of(word)) {
                    row[row_of_bit] = bit;
                }
            }
        }
        let mut witness = Self { layout, numbers };
        witness.write_norm(norm)?;
        Ok(witness)
    }

    /// Fills the rows of bits of the norm, if there are any: this is what the squares add up to.
    ///
    /// # Errors
    /// [`ValidityError::Norm`] if it is above its bound.
    pub fn write_norm(&mut self, norm: u128) -> Result<(), ValidityError> {
        let Some(bound) = self.layout.statement().norm else {
            return Ok(());
        };
        if norm > u128::from(bound.most) {
            return Err(ValidityError::Norm { most: bound.most });
        }
        let bits = Zeroizing::new(bound.bits().split(norm as u64));
        write_bits(
            &mut self.numbers,
            &self.layout,
            self.layout.norm_bits(),
            &bits,
        );
        Ok(())
    }

    /// Fills the rows of bits of projections, if there are any, whose coefficients follow from this seed.
    ///
    /// # Errors
    /// [`ValidityError::Projection`] if one is too large; its bits are those of the nearest one that is not. A vector for which
    /// the statement holds has one with a probability below 2^−40.
    pub fn project(&mut self, seed: [u8; 32]) -> Result<(), ValidityError> {
        let (layout, statement) = (self.layout, self.layout.statement());
        let (Some(bounded), Some(norm)) = (layout.bits_of_projection(), statement.norm) else {
            return Ok(());
        };
        let of = |number| F::from_canonical(number).unwrap_or(F::ZERO);
        let zero = of(norm.offset);
        let rows = self.numbers.chunks_exact(layout.rows());
        let vector = rows
            .flat_map(|slot| &slot[layout.words()])
            .map(|&word| of(word) - zero);
        let projections = Zeroizing::new(project(seed, vector));
        let most = bounded.most;
        let mut bits = Zeroizing::new(Vec::with_capacity(projections.len() * bounded.count()));
        let mut is_right = true;
        for &projection in projections.iter() {
            // From 0 to 2Y; what is beyond is as near to 0 as it is far from p.
            let moved = (projection + of(most / 2)).to_canonical();
            is_right &= moved <= most;
            let near_zero = F::MODULUS - moved < moved.saturating_sub(most);
            let nearest = if near_zero { 0 } else { moved.min(most) };
            bits.extend_from_slice(&Zeroizing::new(bounded.split(nearest)));
        }
        write_bits(&mut self.numbers, &layout, layout.projection_bits(), &bits);
        match is_right {
            true => Ok(()),
            false => Err(ValidityError::Projection { most: most / 2 }),
        }
    }

    /// The rows' shape.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number in a slot of a row.
    ///
    /// # Panics
    /// If there is no such row or slot.
    pub fn at(&mut self, row: usize, slot: usize) -> &mut u64 {
        assert!(
            row < self.layout.rows() && slot < self.layout.packing(),
            "a number of the witness"
        );
        &mut self.numbers[slot * self.layout.rows() + row]
    }

    /// Copies numbers of these rows in the order in which they are shared, all rows of a slot before the next slot, from
    /// number `first` on. They must not go beyond a slot.
    pub(super) fn read(&self, rows: &Range<usize>, first: usize, out: &mut [u64]) {
        let (slot, row) = (first / rows.len(), rows.start + first % rows.len());
        let start = slot * self.layout.rows() + row;
        out.copy_from_slice(&self.numbers[start..start + out.len()]);
    }
}

/// Writes bits slot by slot and row by row; zeros behind the last one.
fn write_bits(numbers: &mut [u64], layout: &Layout, rows: Range<usize>, bits: &[u64]) {
    let of_rows = bits.chunks(layout.packing());
    for (row, of_row) in rows.zip(of_rows) {
        for (slot, &bit) in of_row.iter().enumerate() {
            numbers[slot * layout.rows() + row] = bit;
        }
    }
}
