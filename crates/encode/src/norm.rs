//! Bounds on the L2 norm of a vector: of what is rounded, and of what is sent.

use std::cmp::Ordering;

use crate::clip::MAX_NORM;
use crate::kind::Kind;
use crate::norm_rule::NormRule;
use crate::{EncodeError, Encoding, Rounding};

/// A bound on words: sum of v(v + slope) <= most over all words, with v = word - offset, says exactly that the norm is
/// at most `max_norm`.
///
/// With rounding to nearest a word u of q bits stands for the coordinate (u - 2^(q-1) + 1) * step = v * step. With
/// stochastic rounding it stands for (u - 2^(q-1) + 1/2) * step, whose square is step^2 * (v(v + 1) + 1/4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SquaredNorm {
    /// The word of 0, 2^(q-1) - 1, with rounding to nearest; the first word of a coordinate above 0, 2^(q-1), with
    /// stochastic rounding.
    pub offset: u64,
    /// 0 with rounding to nearest, 1 with stochastic rounding.
    pub slope: u64,
    /// ⌊max_norm^2 / step^2⌋ with rounding to nearest, ⌊max_norm^2 / step^2 - dim / 4⌋ with stochastic rounding.
    pub most: u64,
}

/// How far rounding moves a coordinate at most, in levels. Nearest rounding takes a sum that was rounded already, by
/// up to 2^-22 of a level.
fn growth(rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Stochastic => 1.0,
        Rounding::Nearest => 0.5 + f64::powi(2.0, -20),
    }
}

impl Encoding {
    /// The L2 norm that longer vectors are scaled down to, before coordinates are clamped and rounded; none where norms
    /// are not bounded.
    ///
    /// For [`ClipSpec::Sent`](crate::ClipSpec::Sent) it is less than `max_norm` by all that rounding may add, and by
    /// what the sum of the squares may be off.
    pub fn norm_bound(&self) -> Option<f64> {
        match self.kind().norm() {
            NormRule::Free => None,
            NormRule::Clip => Some(self.widest_clip()),
            NormRule::Sent(max_norm) => {
                let off = (self.dim() as f64 + f64::powi(2.0, 17)) * f64::powi(2.0, -57);
                // guard: rounding-does-not-lift-a-norm-above-its-bound
                Some(max_norm * (1.0 - off) - self.rounding_norm())
            }
        }
    }

    /// What is true of the words of a vector exactly if their norm is at most the `max_norm` of
    /// [`ClipSpec::Sent`](crate::ClipSpec::Sent). None for other encodings, for weights above 1, and if the bound has
    /// more than 64 bits.
    pub fn squared_norm(&self) -> Option<SquaredNorm> {
        let (Kind::Quantised { bits, rounding, .. }, NormRule::Sent(max_norm)) =
            (self.kind(), self.kind().norm())
        else {
            return None;
        };
        if self.max_weight() > 1 {
            return None;
        }
        let four_most = squared_ratio(max_norm, rounding.last_level(bits), self.widest_clip())?;
        // step = 2c / t for the last level t: (max_norm * t / c)^2 is 4 * most, and dim more with stochastic rounding.
        let (offset, slope, four_quarters) = match rounding {
            Rounding::Nearest => ((1 << (bits - 1)) - 1, 0, 0),
            Rounding::Stochastic => (1 << (bits - 1), 1, self.dim() as u128),
        };
        let most = four_most.checked_sub(four_quarters)? / 4;
        Some(SquaredNorm {
            offset,
            slope,
            most: u64::try_from(most).ok()?,
        })
    }

    /// The norm that rounding may give to a vector of zeros.
    fn rounding_norm(&self) -> f64 {
        match self.kind() {
            Kind::Quantised { bits, rounding, .. } => {
                growth(rounding)
                    * (self.dim() as f64).sqrt()
                    * rounding.step(bits, self.widest_clip())
            }
            Kind::Noised { .. } | Kind::Fixed64 | Kind::Integers { .. } => 0.0,
        }
    }

    /// The largest bound of a coordinate; 0 where there is none.
    pub(crate) fn widest_clip(&self) -> f64 {
        self.tensors().map(|(_, clip)| clip).fold(0.0, f64::max)
    }

    /// Rounding alone must not reach the bound of what is sent.
    pub(crate) fn check_max_norm(&self) -> Result<(), EncodeError> {
        let (NormRule::Sent(max_norm), Some(bound)) = (self.kind().norm(), self.norm_bound())
        else {
            return Ok(());
        };
        if bound > 0.0 && max_norm <= MAX_NORM {
            return Ok(());
        }
        let (dim, least) = (self.dim(), self.rounding_norm());
        let (levels, fewer) = match self.kind() {
            Kind::Quantised {
                rounding: Rounding::Nearest,
                ..
            } => ("0.5", 2),
            _ => ("1", 1),
        };
        let rule = format!(
            "{levels} * sqrt(dim) * 2 * clip / (2^bits - {fewer}) = {least:e} < max_norm = {max_norm:e} <= {MAX_NORM:e} must hold: \
             rounding alone may reach that norm with dim = {dim}"
        );
        Err(EncodeError::spec("max_norm", rule))
    }
}

/// ⌊(norm * top / clip)^2⌋, exactly; none from 2^68 on. `norm` and `clip` are normal and above 0, `top` has at most
/// 32 bits.
fn squared_ratio(norm: f64, top: u64, clip: f64) -> Option<u128> {
    if norm / clip * top as f64 >= f64::powi(2.0, 34) {
        return None;
    }
    let ((norm, norm_exponent), (clip, clip_exponent)) = (parts(norm), parts(clip));
    let root = u128::from(norm) * u128::from(top);
    let divisor = u128::from(clip) * u128::from(clip);
    let shift = 2 * (norm_exponent - clip_exponent);
    // ⌊square * 2^shift / divisor⌋ by long division: a negative shift drops the last bits of the square.
    let square = square(root);
    let (mut quotient, mut rest) = (0_u128, 0_u128);
    for place in (-shift..256).rev() {
        let bit = match place.cmp(&128) {
            _ if place < 0 => 0,
            Ordering::Less => square[0] >> place & 1,
            _ => square[1] >> (place - 128) & 1,
        };
        rest = rest << 1 | bit;
        quotient <<= 1;
        if rest >= divisor {
            rest -= divisor;
            quotient |= 1;
        }
    }
    Some(quotient)
}

/// A normal number above 0 as m * 2^e, with m of 53 bits.
fn parts(number: f64) -> (u64, i32) {
    const FRACTION: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = number.to_bits();
    let mantissa = bits & ((1 << FRACTION) - 1) | 1 << FRACTION;
    (mantissa, (bits >> FRACTION) as i32 - 1075)
}

/// The square of a number below 2^96: its low and high 128 bits.
fn square(number: u128) -> [u128; 2] {
    let (low, high) = (number & u128::from(u64::MAX), number >> 64);
    let middle = 2 * low * high;
    let (sum, carry) = (low * low).overflowing_add(middle << 64);
    [sum, high * high + (middle >> 64) + u128::from(carry)]
}
