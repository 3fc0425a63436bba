//! What is proved of a vector, and the rows that the proof consists of.

use std::ops::Range;

use super::ValidityError;

/// What is proved of a vector: each of its words u is in 0..2^bits, and, where there is a bound, its squared norm is at
/// most that bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Words L of a vector.
    pub words: usize,
    /// Bits S of a word.
    pub bits: u32,
    /// The bound of the norm, if there is one.
    pub norm: Option<NormBound>,
}

/// A bound of a squared norm: Σ v·(v + slope) ≤ most over the words, with v = u − offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormBound {
    /// The word o that stands for zero, or is next to it.
    pub offset: u64,
    /// 1 where zero lies halfway between the words o and o + 1, so that v·(v + 1) is (v + ½)² − ¼; 0 where it is o.
    pub slope: u64,
    /// The bound T.
    pub most: u64,
}

impl NormBound {
    /// v·(v + slope) of a word; words are below 2^32.
    pub fn square(&self, word: u64) -> u64 {
        let v = i128::from(word) - i128::from(self.offset);
        let square = v * (v + i128::from(self.slope));
        // Never negative: v is an integer, and slope is 0 or 1.
        square as u64
    }

    /// Bits Q of a number up to the bound.
    fn bits(&self) -> u32 {
        u64::BITS - self.most.leading_zeros()
    }

    /// What bit t of such a number counts. The last one makes the largest sum exactly the bound.
    fn weight(&self, bit: u32) -> u64 {
        let top = self.bits() - 1;
        match bit == top {
            true => self.most - (1 << top) + 1,
            false => 1 << bit,
        }
    }

    /// The bits of a number up to the bound, one for each weight.
    fn split(&self, number: u64) -> Vec<u64> {
        let top = self.bits() - 1;
        let last = number >> top & 1;
        let rest = number - last * self.weight(top);
        let bit = |t: u32| if t == top { last } else { rest >> t & 1 };
        (0..=top).map(bit).collect()
    }
}

/// The rows of a proof, each one polynomial that packs l numbers: the words, their squares, the bits of the words, the
/// bits of the norm. Squares and bits of the norm are there only where the norm has a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    statement: Statement,
    packing: usize,
    blocks: usize,
    norm_rows: usize,
}

impl Layout {
    /// The rows of a statement where l numbers go into a row and the field has p elements.
    ///
    /// # Errors
    /// The inequality that fails: 1 ≤ bits ≤ 32, 2^bits − 1 < p, slope ≤ 1, 1 ≤ most < p, or B·l·largest square < p.
    pub fn new(statement: Statement, packing: usize, modulus: u64) -> Result<Self, ValidityError> {
        let Statement { words, bits, norm } = statement;
        let rule = |field, rule: String| Err(ValidityError::Statement { field, rule });
        if packing == 0 || words == 0 {
            return rule(
                "words",
                format!("words = {words} and packing = {packing} must be at least 1"),
            );
        }
        if !(1..=32).contains(&bits) {
            return rule("bits", format!("1 <= bits = {bits} <= 32"));
        }
        let largest = (1_u64 << bits) - 1;
        if largest >= modulus {
            return rule("bits", format!("2^bits - 1 = {largest} < p = {modulus}"));
        }
        let blocks = words.div_ceil(packing);
        if let Some(norm) = norm {
            if norm.slope > 1 || norm.offset > largest {
                return rule("norm", "the word for zero must be a word".into());
            }
            if norm.most == 0 || norm.most >= modulus {
                let most = norm.most;
                return rule("norm", format!("1 <= T = {most} < p = {modulus}"));
            }
            let square = norm.square(0).max(norm.square(largest));
            let slots = (blocks * packing) as u128;
            if slots * u128::from(square) >= u128::from(modulus) {
                let rule_text = format!(
                    "B * l * largest square = {slots} * {square} < p = {modulus}, so that no sum of squares wraps"
                );
                return rule("bits", rule_text);
            }
        }
        let norm_rows = norm.map_or(0, |norm| (norm.bits() as usize).div_ceil(packing));
        Ok(Self {
            statement,
            packing,
            blocks,
            norm_rows,
        })
    }

    /// What is proved.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Numbers l in a row.
    pub fn packing(&self) -> usize {
        self.packing
    }

    /// Blocks B of the vector.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// All rows.
    pub fn rows(&self) -> usize {
        self.norm_bits().end
    }

    /// The rows of words: word e·B + b of the vector stands in slot e of row b.
    pub fn words(&self) -> Range<usize> {
        0..self.blocks
    }

    /// The rows of squares.
    pub fn squares(&self) -> Range<usize> {
        let end = match self.statement.norm {
            Some(_) => 2 * self.blocks,
            None => self.blocks,
        };
        self.blocks..end
    }

    /// The rows of bits: bit s of the words of row b in row s·B + b of these.
    pub fn bits(&self) -> Range<usize> {
        let start = self.squares().end;
        start..start + self.statement.bits as usize * self.blocks
    }

    /// The rows of bits of the norm: bit t stands in slot t mod l of row ⌊t/l⌋ of these; slots behind the last bit are 0.
    pub fn norm_bits(&self) -> Range<usize> {
        let start = self.bits().end;
        start..start + self.norm_rows
    }

    /// What the bit of the norm in this row of [`Layout::norm_bits`] and slot counts; 0 behind the last bit.
    pub fn norm_weight(&self, row: usize, slot: usize) -> u64 {
        let bit = (row * self.packing + slot) as u32;
        match self.statement.norm {
            Some(norm) if bit < norm.bits() => norm.weight(bit),
            _ => 0,
        }
    }

    /// The bits of a norm, slot by slot and row by row.
    pub(super) fn split_norm(&self, norm: u64) -> Vec<u64> {
        let mut bits = match self.statement.norm {
            Some(bound) => bound.split(norm),
            None => Vec::new(),
        };
        bits.resize(self.norm_rows * self.packing, 0);
        bits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_of_a_norm_add_up_to_it_and_to_no_more_than_the_bound(most in 1u64..1 << 46, part in 0.0f64..=1.0) {
            let bound = NormBound { offset: 0, slope: 0, most };
            let number = ((most as f64 * part) as u64).min(most);
            for number in [0, number, most] {
                let bits = bound.split(number);
                prop_assert!(bits.iter().all(|bit| *bit < 2));
                let weights = (0..bits.len() as u32).map(|t| bound.weight(t));
                let sum: u64 = bits.iter().zip(weights.clone()).map(|(bit, weight)| bit * weight).sum();
                prop_assert_eq!(sum, number);
                prop_assert_eq!(weights.sum::<u64>(), most);
            }
        }
    }
}
