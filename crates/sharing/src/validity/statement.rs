//! What is proved of a vector.

use super::bounded::BoundedBits;

/// The statement about a vector: each of its words u is in 0..=largest, and, where there is a bound, its squared norm
/// is at most that bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Words L of a vector.
    pub words: usize,
    /// The largest word.
    pub largest: u64,
    /// The bound of the norm, if there is one.
    pub norm: Option<NormBound>,
    /// How it is proved that words are in range.
    pub range: RangeProof,
}

/// How it is proved that words are in range, and that no sum of squares wraps around in the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeProof {
    /// By the bits of every word.
    Bits,
    /// By random projections of the vector, which are short where it is; see [`projection`](super::projection). The bound of
    /// the norm must leave no room for a word out of range.
    Projections,
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

impl Statement {
    /// The bits of a word, S of them.
    pub(super) fn bits(&self) -> BoundedBits {
        BoundedBits { most: self.largest }
    }
}

impl NormBound {
    /// v·(v + slope) of a word; words are below 2^32.
    pub fn square(&self, word: u64) -> u64 {
        let v = i128::from(word) - i128::from(self.offset);
        // Never negative: v is an integer, and slope is 0 or 1.
        self.square_of(v) as u64
    }

    pub(super) fn square_of(&self, v: i128) -> i128 {
        v * (v + i128::from(self.slope))
    }

    /// Bits of a sum up to the bound.
    pub(super) fn bits(&self) -> BoundedBits {
        BoundedBits { most: self.most }
    }
}
