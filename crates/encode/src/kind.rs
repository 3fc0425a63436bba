//! The forms of words.

use blindsum_privacy::Sizes;

use crate::clip::ClipSpec;
use crate::levels::Rounding;
use crate::norm_rule::NormRule;

/// Bits of an integer that its first word takes where it takes two.
pub(crate) const LOW_BITS: u32 = 32;

/// How a coordinate becomes a word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EncodingKind {
    /// `[-c, c]` is mapped to levels, -c to 0 and c to the last one, [`Rounding::last_level`].
    Quantised {
        /// Bits q of a value, 2 to 32. One bit would leave rounding to nearest a single level.
        bits: u32,
        /// Clipping.
        clip: ClipSpec,
        /// Rounding.
        rounding: Rounding,
    },
    /// 64-bit two's complement fixed point with 16 bits of fraction, rounded to nearest, ties to even.
    Fixed64 {
        /// Bound c that coordinates are clamped to, where no tensors are listed; see
        /// [`largest_fixed64_clip`].
        clip: f64,
    },
    /// Unsigned integers as they are, for sums that must be exact. An integer takes one word where the sum
    /// of all parties' integers has at most 64 bits, otherwise two: its low 32 bits, and the others.
    Integers {
        /// Bits of an integer, 1 to 64.
        bits: u32,
    },
}

/// The form of a word, checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Quantised {
        bits: u32,
        rounding: Rounding,
        norm: NormRule,
    },
    /// Whole numbers about 0 with noise.
    Noised {
        rounding: Rounding,
        sizes: Sizes,
    },
    Fixed64,
    Integers {
        bits: u32,
        /// Whether an integer takes two words.
        split: bool,
    },
}

impl Kind {
    /// How the L2 norm is bounded.
    pub(crate) fn norm(self) -> NormRule {
        match self {
            Self::Quantised { norm, .. } => norm,
            Self::Noised { .. } => NormRule::Clip,
            Self::Fixed64 | Self::Integers { .. } => NormRule::Free,
        }
    }

    /// Bits of a word that a digit of a metric may have, where the weights of all parties add up to so much.
    pub(crate) fn metric_bits(self, weights: u128) -> u32 {
        match self {
            // Words are signed: protocols add half of the range to each.
            Self::Fixed64 => 63_u32.saturating_sub(ceil_log2(weights)),
            // Where words are proved to be levels, digits are proved as well.
            Self::Quantised { bits, rounding, .. } => (rounding.last_level(bits) + 1).ilog2(),
            // Sums of digits stay below 2^b.
            Self::Noised { sizes, .. } => sizes.width().saturating_sub(ceil_log2(weights)),
            Self::Integers { bits, split: false } => bits,
            Self::Integers { split: true, .. } => LOW_BITS,
        }
    }
}

/// ⌈log2(n)⌉, and 0 for 0.
pub(crate) fn ceil_log2(n: u128) -> u32 {
    u128::BITS - n.saturating_sub(1).leading_zeros()
}
