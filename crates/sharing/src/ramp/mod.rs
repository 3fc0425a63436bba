//! Ramp sharing of long vectors: l words are packed into one polynomial of degree below k, and every
//! party's share of it is one field element, l times shorter than the words.
//!
//! A vector of L words is cut into B = ⌈L/l⌉ blocks; word e of block b is word e·B + b of the vector, and
//! missing words are 0. Each block becomes a polynomial with r = k − l uniform coefficients beside its l
//! words. The share of the party with rank j is the value at η_j = g·θ^bitrev(j): θ has order
//! N = 2^⌈log2 n⌉ and g generates the field, so that the points lie in a coset of the subgroup in which words may
//! sit, and no share is ever a word (FSSA §VII and PSS §IV; the latter lets the two sets meet in 1).
//!
//! * Privacy: any r shares are uniform and independent of the words. From r + 1 shares on, every further
//!   one reveals one linear equation: a ramp, not a cliff.
//! * Sums: shares of sums are sums of shares. Any k of them give the words of the sum.
//!
//! The field is chosen by the largest sum: [`Residues`].

mod column;
mod embedding;
mod limb;
mod parameters;
mod random;
mod sharing;
mod tile;

pub use column::ColumnSum;
pub use embedding::Embedding;
pub use parameters::{AnnouncedRamp, ParameterError, RampParameters, RampRequest};
pub(crate) use parameters::{check_sizes, counted};
pub(crate) use random::fill as fill_uniform;
pub use sharing::{RampReconstructor, RampSharing};
pub use tile::TILE_BLOCKS;

use blindsum_math::field::Field;
use blindsum_math::prime_field::{Field31, Field47, Field48};

/// The fields that hold a sum, and with them the size of a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residues {
    /// Modulo 2^31 − 2^24 + 1; 4 bytes a share.
    Narrow,
    /// Modulo 0x7fff_e438_0001, just below 2^47; 6 bytes a share.
    Wide,
    /// Modulo that prime and 0x88b0_0000_0001, joined by the Chinese remainder theorem: sums of 94 bits;
    /// 12 bytes a share.
    Pair,
}

impl Residues {
    /// The smallest that holds sums up to and including `largest`; `None` beyond the pair.
    pub fn for_sum(largest: u128) -> Option<Self> {
        let pair = u128::from(Field47::MODULUS) * u128::from(Field48::MODULUS);
        if largest < u128::from(Field31::MODULUS) {
            Some(Self::Narrow)
        } else if largest < u128::from(Field47::MODULUS) {
            Some(Self::Wide)
        } else {
            (largest < pair).then_some(Self::Pair)
        }
    }

    /// Bytes of a share of one block.
    pub fn share_len(self) -> usize {
        match self {
            Self::Narrow => Field31::ENCODED_LEN,
            Self::Wide => Field47::ENCODED_LEN,
            Self::Pair => Field47::ENCODED_LEN + Field48::ENCODED_LEN,
        }
    }
}

#[cfg(test)]
mod tests;
