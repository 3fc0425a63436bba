//! The words of a vector, as the promises of a world need them.

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_encode::{Encoder, Encoding};
use blindsum_math::words::Words;

/// The words of a vector. Where rounding is random the random bits are others than those of the party: the seed is
/// [`other_seed`].
pub(super) fn words_of(encoding: &Encoding, encoder: &Encoder<'_>) -> Result<Vec<u64>, String> {
    let mut words = Words::zeros(encoding.width(), encoder.lanes());
    let all = 0..encoder.lanes();
    let encoded = encoder.encode_tile(0, words.tile_mut(all));
    encoded.map_err(|e| e.to_string())?;
    Ok(words.iter().collect())
}

/// A seed that no party has.
pub(super) fn other_seed() -> MaskSeed {
    MaskSeed::from(Secret::from([0; 32]))
}
