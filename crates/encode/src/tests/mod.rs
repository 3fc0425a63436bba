//! Tests of the crate as its users see it.

mod aciq;
mod aciq_law;
mod divisor;
mod integers;
mod judged;
mod laws;
mod limits;
mod metrics;
mod noise;
mod noise_vectors;
mod norm;
mod reals;
mod sparse;
mod sparse_saved;
mod step;
mod vectors;

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_math::words::Words;

use crate::{
    ClipSpec, EncodeError, Encoder, Encoding, EncodingKind, EncodingSpec, Rounding, Values,
};

fn seed(byte: u8) -> MaskSeed {
    MaskSeed::from(Secret::from([byte; 32]))
}

fn quantised(bits: u32, clip: ClipSpec, rounding: Rounding) -> EncodingKind {
    EncodingKind::Quantised {
        bits,
        clip,
        rounding,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An unchecked encoding without tensors.
fn spec(dim: usize, kind: EncodingKind, parties: usize, max_weight: u32) -> EncodingSpec {
    EncodingSpec {
        dim,
        kind,
        max_weight,
        parties,
        tensors: Vec::new(),
        tells_reach: false,
        metrics: Vec::new(),
        noise: None,
    }
}

/// All words of a vector, as one tile.
fn encode<'a>(
    encoding: &'a Encoding,
    values: impl Into<Values<'a>>,
    weight: u32,
    seed_byte: u8,
) -> Result<Words, EncodeError> {
    let encoder = Encoder::new(encoding, values, weight, seed(seed_byte))?;
    let mut words = Words::zeros(encoding.width(), encoding.lanes());
    encoder.encode_tile(0, words.tile_mut(0..encoding.lanes()))?;
    Ok(words)
}
