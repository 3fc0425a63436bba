//! The words of a vector, as what must be the result is computed from.

use blindsum_encode::{EncodeError, Encoder, Encoding};
use blindsum_math::words::Words;

/// All words of a vector, `[lanes]`.
pub(crate) fn words_of(
    encoding: &Encoding,
    encoder: &Encoder<'_>,
) -> Result<Vec<u64>, EncodeError> {
    let mut words = Words::zeros(encoding.width(), encoder.lanes());
    let all = 0..encoder.lanes();
    encoder.encode_tile(0, words.tile_mut(all))?;
    Ok(words.iter().collect())
}
