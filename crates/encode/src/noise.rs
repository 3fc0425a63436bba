//! Vectors with noise of differential privacy, and the rules of an encoding that has it.
//!
//! Coordinates of such an encoding are whole numbers u from −M to M, M = 2^(bits − 1) − 1, in steps of γ = clip / M: 0 is one
//! of them, so that a party which sends nothing is a vector of zeros. Each gets a number y of noise, and the word is
//! u + y + 2^(b−1). A sum of words, less 2^(b−1) for each, stands for a number from −2^(b−1) to 2^(b−1) − 1 modulo 2^b, and b is so
//! large that an honest sum is one of these, but with a chance of 2^-40 in a round.

use blindsum_privacy::{Adjacency, Mechanism, Multiplier, PrivacyError, SizesSpec};

use crate::EncodeError;
use crate::clip::ClipSpec;
use crate::kind::{EncodingKind, Kind};
use crate::levels::Rounding;

/// Bits of a word with noise, such that numbers of 64 bits hold each with its noise.
const MAX_WIDTH: u32 = 62;

/// The share of noise that each party adds to its vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoiseShare {
    /// m: parties that give noise in every sum and keep it secret, `min_parties` less corrupt ones. At least 1.
    pub honest: usize,
    /// The distribution of noise.
    pub mechanism: Mechanism,
    /// Which two jobs must not be told apart.
    pub adjacency: Adjacency,
    /// The noise of `honest` parties by the length of a vector.
    pub multiplier: Multiplier,
    /// Whether words are added modulo 2^b, so that their sum may wrap. If not, words get as many bits more as the number of
    /// parties has, and the sum is taken modulo 2^b at the end.
    pub wraps: bool,
}

impl From<PrivacyError> for EncodeError {
    fn from(error: PrivacyError) -> Self {
        Self::spec(error.field(), error.to_string())
    }
}

impl NoiseShare {
    /// The form of words with these shares of noise, and their bits, for an encoding and so many parties, coordinates and
    /// the largest weight.
    pub(crate) fn kind(
        self,
        kind: EncodingKind,
        (parties, dim, max_weight): (usize, usize, u32),
    ) -> Result<(Kind, u32), EncodeError> {
        let (bits, rounding) = measured_by_norm(kind, max_weight)?;
        let sizes = SizesSpec {
            parties,
            dim,
            honest: self.honest,
            bits,
            rounding: match rounding {
                Rounding::Stochastic => blindsum_privacy::Rounding::Stochastic,
                Rounding::Nearest => blindsum_privacy::Rounding::Nearest,
            },
            mechanism: self.mechanism,
            adjacency: self.adjacency,
            multiplier: self.multiplier,
        };
        let sizes = sizes.validate()?;
        if sizes.width() > MAX_WIDTH {
            let (most, width) = (MAX_WIDTH, sizes.width());
            let rule =
                format!("words with noise have at most {most} bits, not {width}: use fewer bits");
            return Err(EncodeError::spec("bits", rule));
        }
        let width = match self.wraps {
            true => sizes.width(),
            // guard: sums-that-must-not-wrap-have-room
            false => {
                let most = parties as u128 * ((1 << sizes.width()) - 1);
                u128::BITS - most.leading_zeros()
            }
        };
        Ok((Kind::Noised { rounding, sizes }, width))
    }
}

/// Bits and rounding of an encoding whose vectors may have noise that is measured by their norm.
///
/// # Errors
/// [`EncodeError::Spec`] names `privacy`, with the rule that the encoding or the largest weight breaks.
pub fn measured_by_norm(
    kind: EncodingKind,
    max_weight: u32,
) -> Result<(u32, Rounding), EncodeError> {
    let refused = |rule: &str| Err(EncodeError::spec("privacy", rule));
    let EncodingKind::Quantised {
        bits,
        clip,
        rounding,
    } = kind
    else {
        return refused("needs the encoding quantised: noise is of its steps");
    };
    // guard: noise-is-measured-by-the-norm
    match clip {
        ClipSpec::L2(_) => {}
        ClipSpec::Tensor(_) => {
            return refused(
                "clipping must be \"l2\": noise is measured by the norm of a whole update",
            );
        }
        ClipSpec::Sent { .. } => {
            return refused(
                "max_norm must be 0: noise is measured by the norm that clip bounds with clipping = \"l2\"",
            );
        }
    }
    // guard: vectors-with-noise-have-no-weight
    if max_weight != 1 {
        return refused(&format!(
            "max_weight = {max_weight} must be 1: weights tell how much data a party has"
        ));
    }
    Ok((bits, rounding))
}
