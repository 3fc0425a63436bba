//! The rows of a vector: what a prover shares.

use zeroize::Zeroizing;

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
    /// The rows of a vector for which the statement holds.
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
        let largest = (1 << statement.bits) - 1;
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
                for bit in 0..statement.bits as usize {
                    row[layout.bits().start + bit * blocks + block] = word >> bit & 1;
                }
            }
        }
        if let Some(bound) = statement.norm {
            if norm > u128::from(bound.most) {
                return Err(ValidityError::Norm { most: bound.most });
            }
            let bits = Zeroizing::new(layout.split_norm(norm as u64));
            let of_rows = bits.chunks_exact(layout.packing());
            for (row, of_row) in layout.norm_bits().zip(of_rows) {
                for (slot, &bit) in of_row.iter().enumerate() {
                    numbers[slot * rows + row] = bit;
                }
            }
        }
        Ok(Self { layout, numbers })
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

    /// The numbers in the order in which they are shared.
    pub(super) fn numbers(&self) -> &[u64] {
        &self.numbers
    }
}
