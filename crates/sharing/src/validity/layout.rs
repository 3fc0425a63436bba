//! The rows of a proof, and the rules that make it sound.

use std::ops::Range;

use super::bounded::BoundedBits;
use super::projection::{PROJECTIONS, largest_projection};
use super::{NormBound, RangeProof, Statement, ValidityError};

/// The rows of a proof, each one polynomial that packs l numbers: the words, their squares, the bits of the words, the
/// bits of the norm, the bits of projections. Squares and bits of the norm are there only where the norm has a bound, and
/// either bits of words or bits of projections, as the [`RangeProof`] wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    statement: Statement,
    packing: usize,
    blocks: usize,
    norm_rows: usize,
    /// The bits of a projection, and their rows.
    projection: Option<(BoundedBits, usize)>,
}

impl Layout {
    /// The rows of a statement where l numbers go into a row and the field has p elements.
    ///
    /// # Errors
    /// The inequality that fails. Always: 1 ≤ largest word < 2^32, largest word < p, slope ≤ 1, 1 ≤ T < p. With bits of
    /// words: B·l·largest square < p. With projections, the largest of which is Y: a norm, T below the squares of words out of range,
    /// 148·Y² < p, (2·B·l + 1)·Y < p.
    pub fn new(statement: Statement, packing: usize, modulus: u64) -> Result<Self, ValidityError> {
        let Statement { words, largest, .. } = statement;
        if packing == 0 || words == 0 {
            let rule = format!("words = {words} and packing = {packing} must be at least 1");
            return broken("words", rule);
        }
        if !(1..1 << 32).contains(&largest) {
            return broken("bits", format!("1 <= largest word = {largest} < 2^32"));
        }
        if largest >= modulus {
            return broken("bits", format!("largest word = {largest} < p = {modulus}"));
        }
        let blocks = words.div_ceil(packing);
        let numbers = (blocks * packing) as u64;
        if let Some(norm) = statement.norm {
            check_norm(&norm, largest, modulus)?;
        }
        let projection = match (statement.range, statement.norm) {
            (RangeProof::Bits, Some(norm)) => {
                check_squares(&norm, largest, numbers, modulus)?;
                None
            }
            (RangeProof::Bits, None) => None,
            (RangeProof::Projections, None) => {
                return broken(
                    "norm",
                    "without bits of words, a norm must have a bound".into(),
                );
            }
            (RangeProof::Projections, Some(norm)) => {
                let most = 2 * check_projections(&norm, largest, numbers, modulus)?;
                let bits = BoundedBits { most };
                Some((bits, (PROJECTIONS * bits.count()).div_ceil(packing)))
            }
        };
        let norm_rows = statement
            .norm
            .map_or(0, |norm| norm.bits().count().div_ceil(packing));
        Ok(Self {
            statement,
            packing,
            blocks,
            norm_rows,
            projection,
        })
    }

    /// The statement to be proved.
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
        self.projection_bits().end
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

    /// The rows of bits of words: bit s of the words of row b in row s·B + b of these.
    pub fn bits(&self) -> Range<usize> {
        let start = self.squares().end;
        let rows = match self.statement.range {
            RangeProof::Bits => self.statement.bits().count() * self.blocks,
            RangeProof::Projections => 0,
        };
        start..start + rows
    }

    /// The rows of bits of the norm: bit t stands in slot t mod l of row ⌊t/l⌋ of these; slots behind the last bit are 0.
    pub fn norm_bits(&self) -> Range<usize> {
        let start = self.bits().end;
        start..start + self.norm_rows
    }

    /// The rows of bits of projections, those of the first projection first; they stand as the bits of the norm do.
    pub fn projection_bits(&self) -> Range<usize> {
        let start = self.norm_bits().end;
        start..start + self.projection.map_or(0, |(_, rows)| rows)
    }

    /// The largest projection Y that an honest vector has, where there are projections.
    pub fn largest_projection(&self) -> Option<u64> {
        self.projection.map(|(bits, _)| bits.most / 2)
    }

    /// The bits of a projection moved by Y, from 0 to 2Y, where there are projections.
    pub(super) fn bits_of_projection(&self) -> Option<BoundedBits> {
        self.projection.map(|(bits, _)| bits)
    }

    /// What the bit of the norm in this row of [`Layout::norm_bits`] and slot counts; 0 behind the last bit.
    pub fn norm_weight(&self, row: usize, slot: usize) -> u64 {
        let bit = row * self.packing + slot;
        self.statement
            .norm
            .map_or(0, |norm| norm.bits().weight(bit))
    }
}

fn broken<T>(field: &'static str, rule: String) -> Result<T, ValidityError> {
    Err(ValidityError::Statement { field, rule })
}

fn check_norm(norm: &NormBound, largest: u64, modulus: u64) -> Result<(), ValidityError> {
    if norm.slope > 1 || norm.offset > largest {
        return broken("norm", "the word for zero must be a word".into());
    }
    if norm.most == 0 || norm.most >= modulus {
        let most = norm.most;
        return broken("norm", format!("1 <= T = {most} < p = {modulus}"));
    }
    Ok(())
}

/// Words are in range, so that no sum of their squares wraps.
fn check_squares(
    norm: &NormBound,
    largest: u64,
    numbers: u64,
    modulus: u64,
) -> Result<(), ValidityError> {
    let square = norm.square(0).max(norm.square(largest));
    if u128::from(numbers) * u128::from(square) < u128::from(modulus) {
        return Ok(());
    }
    let rule = format!(
        "B * l * largest square = {numbers} * {square} < p = {modulus}, so that no sum of squares wraps"
    );
    broken("bits", rule)
}

/// The largest projection, if projections prove what they should.
fn check_projections(
    norm: &NormBound,
    largest: u64,
    numbers: u64,
    modulus: u64,
) -> Result<u64, ValidityError> {
    let below = norm.square_of(-1 - i128::from(norm.offset));
    let above = norm.square_of(i128::from(largest) + 1 - i128::from(norm.offset));
    let outside = below.min(above);
    let most = norm.most;
    // guard: norms-leave-no-room-for-words-out-of-range
    if i128::from(most) >= outside {
        let rule = format!("T = {most} < {outside}, the square of a word out of range");
        return broken("norm", rule);
    }
    let longest = largest_projection(most, numbers);
    let (modulus, wide) = (u128::from(modulus), u128::from(longest));
    // guard: projections-cannot-wrap
    if 148 * wide * wide >= modulus {
        let rule = format!(
            "148 * Y^2 = 148 * {longest}^2 < p = {modulus}, where Y is the largest projection"
        );
        return broken("norm", rule);
    }
    // guard: sums-of-projections-cannot-wrap
    if (2 * u128::from(numbers) + 1) * wide >= modulus {
        let rule = format!(
            "(2 * B * l + 1) * Y = (2 * {numbers} + 1) * {longest} < p = {modulus}, where Y is the largest projection"
        );
        return broken("words", rule);
    }
    Ok(longest)
}
