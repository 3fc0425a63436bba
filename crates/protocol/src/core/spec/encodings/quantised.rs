//! `quantised`: coordinates are clipped and become one of 2^bits levels, or one less.

use blindsum_encode::{ClipSpec, EncodingKind, Rounding};

use super::EncodingTable;
use crate::core::names::ModelUpdate;
use crate::core::options::{at_least, choice, table, within};
use crate::core::spec::{JobSpec, SpecError, TensorLayout};

table! {
    /// Numbers, clipped and quantised to levels of a number of bits.
    Quantised = "quantised";
    options {
        /// Bits of a value.
        bits: u32 = 16, within(2.0, 32.0);
        /// Bound on a coordinate or on the L2 norm, by `clipping`.
        clip: f64 = 1.0, within(1e-30, 1e30);
        /// The quantity that `clip` bounds.
        clipping: Clipping = Clipping::Tensor;
        /// Bound on the L2 norm of an encoded update; 0 means none.
        max_norm: f64 = 0.0, within(0.0, 1e35);
        /// Rounding of values to levels.
        rounding: RoundingName = RoundingName::Stochastic;
        /// Largest weight of an update; 1 gives every party the same weight.
        max_weight: u32 = 1, at_least(1.0);
        /// Clipping bounds per tensor; empty applies `clip` to all coordinates.
        tensors: Vec<TensorLayout> = Vec::new();
    }
}

choice! {
    /// Rounding of values to levels.
    RoundingName {
        /// To one of 2^bits levels at random, so that the expectation is the value: no bias, at every position of 0.
        Stochastic = "stochastic",
        /// To the nearest of 2^bits - 1 levels, of which the middle one is 0, so that 0 stays 0. Every other value
        /// has an error of up to half a level, the same in each round.
        Nearest = "nearest",
    }
}

choice! {
    /// The quantity that `clip` bounds.
    Clipping {
        /// Every coordinate of a tensor.
        Tensor = "tensor",
        /// The L2 norm of the whole vector.
        L2 = "l2",
        /// Every coordinate of a tensor, at most: from the second round on the bound follows from the range of the
        /// parties' coordinates in earlier rounds, and is never wider than `clip`. Updates that at most double from
        /// round to round are not cut off; after a larger jump one round is. Recipients of the sum learn how many
        /// parties were above fractions of the bound.
        Aciq = "aciq",
    }
}

impl EncodingTable for Quantised {
    fn kind(&self) -> EncodingKind {
        EncodingKind::Quantised {
            bits: self.bits,
            clip: match self.clipping {
                Clipping::L2 => ClipSpec::L2(self.clip),
                Clipping::Tensor if self.max_norm > 0.0 => ClipSpec::Sent {
                    clip: self.clip,
                    max_norm: self.max_norm,
                },
                Clipping::Tensor | Clipping::Aciq => ClipSpec::Tensor(self.clip),
            },
            rounding: match self.rounding {
                RoundingName::Stochastic => Rounding::Stochastic,
                RoundingName::Nearest => Rounding::Nearest,
            },
        }
    }

    fn max_weight(&self) -> u32 {
        self.max_weight
    }

    fn tensors(&self) -> &[TensorLayout] {
        &self.tensors
    }

    fn learns_bounds(&self) -> bool {
        self.clipping == Clipping::Aciq
    }

    fn check(&self, spec: &JobSpec) -> Result<(), SpecError> {
        if self.max_norm > 0.0 && self.clipping != Clipping::Tensor {
            let rule = format!(
                "max_norm = {} must be 0 with clipping = {}",
                self.max_norm, self.clipping
            );
            return Err(SpecError::new("max_norm", rule));
        }
        if self.learns_bounds() && spec.model_update == ModelUpdate::Nothing {
            let rule = "clipping must not be aciq if model_update is none: the history of bounds is part of the \
                model";
            return Err(SpecError::new("clipping", rule));
        }
        Ok(())
    }
}
