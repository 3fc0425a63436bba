//! How levels of the encoding are shared, and how long vectors are in these units.
//!
//! The servers compute with signed whole numbers. A level l of the encoding, from 0 to the last one t, stands for the
//! coordinate (2l − t) / t of the clipping bound, and 2l − t is what is shared, modulo 2^64. Where coordinates are sorted it
//! is l − ⌈t/2⌉, which has one bit less.
//!
//! t is 2^bits − 1 with stochastic rounding, so that no level stands for 0, and 2^bits − 2 with rounding to nearest, where
//! level t/2 does.

use blindsum_encode::{ClipSpec, EncodingKind, Rounding};

use super::options::Mpc3;
use crate::JobSpec;
use crate::core::round::Signed;

/// What a job's encoding and rule say of vectors that servers compute with.
pub(super) struct Lengths {
    options: Mpc3,
    bits: u32,
    rounding: Rounding,
    /// The bound of a coordinate, or of the L2 norm.
    clip: f64,
    /// What bounds whole vectors.
    bound: ClipSpec,
    dim: usize,
}

impl Lengths {
    /// None where coordinates have no levels.
    pub fn of(spec: &JobSpec) -> Option<Self> {
        let EncodingKind::Quantised {
            bits,
            clip,
            rounding,
        } = spec.encoding.kind()
        else {
            return None;
        };
        Some(Self {
            options: Mpc3::of(spec),
            bits,
            rounding,
            clip: clip.clip(),
            bound: clip,
            dim: spec.dim as usize,
        })
    }

    /// Bits of a coordinate.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The bound of a coordinate, or of the L2 norm.
    pub fn bound(&self) -> f64 {
        self.clip
    }

    /// What bounds whole vectors.
    pub fn bound_of_vectors(&self) -> ClipSpec {
        self.bound
    }

    /// t: the last level.
    pub fn top(&self) -> u64 {
        self.rounding.last_level(self.bits)
    }

    /// ⌈t/2⌉: the level of 0, or the one above it.
    fn middle(&self) -> u64 {
        self.top().div_ceil(2)
    }

    /// What is shared of a level.
    pub fn shared(&self, level: u64) -> u64 {
        match self.options.rule.sorts() {
            true => level.wrapping_sub(self.middle()),
            false => (2 * level).wrapping_sub(self.top()),
        }
    }

    /// The number that is shared, as a coordinate.
    pub fn scale(&self) -> Signed {
        let top = self.top() as f64;
        let (factor, offset) = match self.options.rule.sorts() {
            true => (2.0 / top, (2 * self.middle() - self.top()) as f64 / top),
            false => (1.0 / top, 0.0),
        };
        Signed { factor, offset }
    }

    /// The norm that no honest vector exceeds: that of the bound, and where it is one before rounding twice a step of that
    /// for each coordinate; or that of coordinates which are all at their bound.
    pub fn longest(&self) -> u64 {
        let (top, root) = (self.top(), (self.dim as f64).sqrt());
        let corner = (top as f64 * root).ceil() as u64;
        match self.bound {
            ClipSpec::L2(_) => top + (2.0 * root).ceil() as u64,
            ClipSpec::Sent { clip, max_norm } => {
                corner.min((max_norm / clip * top as f64).ceil() as u64)
            }
            ClipSpec::Tensor(_) => corner,
        }
    }

    /// The norm that no vector of a party exceeds that rounds doubles: up to 2^-56 of the bound for each coordinate in the
    /// sum of squares, and far less than a unit beside.
    pub fn longest_of_party(&self) -> u64 {
        let off = (u128::from(self.top()) * (self.dim as u128 + (1 << 17))) >> 56;
        self.longest() + 1 + off as u64
    }

    /// By what factor rounding lifts the longest vector.
    pub fn growth(&self) -> f64 {
        self.longest_of_party() as f64 / self.top() as f64
    }

    /// The same with other bits.
    pub fn with_bits(&self, bits: u32) -> Self {
        Self {
            bits,
            options: self.options.clone(),
            ..*self
        }
    }

    /// `norm` in units of what is shared.
    pub fn clip(&self) -> u64 {
        match self.options.norm {
            0.0 => self.longest(),
            norm => ((norm / self.clip * self.top() as f64).round() as u64).max(1),
        }
    }
}
