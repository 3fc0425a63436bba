//! `fixed64`: coordinates are clipped and become 64-bit fixed point.

use blindsum_encode::EncodingKind;

use super::EncodingTable;
use crate::core::options::{at_least, table, within};
use crate::core::spec::TensorLayout;

table! {
    /// Numbers in 64-bit fixed point with 16 fractional bits.
    Fixed64 = "fixed64";
    options {
        /// Bound on a coordinate.
        clip: f64 = 1.0, within(1e-30, 1e30);
        /// Largest weight of an update; 1 gives every party the same weight.
        max_weight: u32 = 1, at_least(1.0);
        /// Clipping bounds per tensor; empty applies `clip` to all coordinates.
        tensors: Vec<TensorLayout> = Vec::new();
    }
}

impl EncodingTable for Fixed64 {
    fn kind(&self) -> EncodingKind {
        EncodingKind::Fixed64 { clip: self.clip }
    }

    fn max_weight(&self) -> u32 {
        self.max_weight
    }

    fn tensors(&self) -> &[TensorLayout] {
        &self.tensors
    }
}
