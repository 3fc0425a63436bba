//! The seed of one vector's noise.

use blindsum_crypto::Zeroizing;
use blindsum_crypto::kdf::{Context, derive32};
use blindsum_crypto::mask::{MaskKey, MaskSeed};
use blindsum_crypto::secret::Secret;

/// The seed of the noise of one vector in one round, used up by drawing. A round with another number needs another one: the
/// same noise in two sums with different survivors hides the parties of their difference no more.
///
/// ```compile_fail,E0382
/// use blindsum_crypto::secret::Secret;
/// use blindsum_privacy::noise::NoiseSeed;
/// let seed = NoiseSeed::from(Secret::from([7; 32]));
/// let key = seed.key();
/// let again = seed.key(); // use of moved value
/// ```
pub struct NoiseSeed(Secret<32>);

impl From<Secret<32>> for NoiseSeed {
    fn from(seed: Secret<32>) -> Self {
        Self(seed)
    }
}

impl NoiseSeed {
    /// Derives the seed of a round: HKDF of `fresh` and `root` with the label "privacy/noise" and the round's context.
    ///
    /// `fresh` is drawn for this round: it helps if the root secret is known. `root` is a secret of the party.
    /// The context has job, round, roster and nonces: it helps if the same bytes are drawn twice.
    pub fn derive(fresh: Secret<32>, root: &Secret<32>, context: &Context) -> Self {
        let mut both = Zeroizing::new([0; 64]);
        both[..32].copy_from_slice(fresh.expose());
        // guard: noise-needs-more-than-the-system
        both[32..].copy_from_slice(root.expose());
        // guard: noise-is-of-one-round
        Self(derive32(
            &Secret::from(&*both),
            context,
            "privacy/noise",
            &[],
        ))
    }

    /// The key that noise is drawn from.
    pub fn key(self) -> MaskKey {
        MaskKey::new(MaskSeed::from(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_39_seeds_depend_on_all_three() {
        let seed = |fresh, root, context| {
            let root = Secret::from([root; 32]);
            NoiseSeed::derive(Secret::from([fresh; 32]), &root, &Context([context; 32])).0
        };
        let first = seed(1, 2, 3);
        assert!(first == seed(1, 2, 3));
        for other in [seed(0, 2, 3), seed(1, 0, 3), seed(1, 2, 0), seed(2, 1, 3)] {
            assert!(first != other);
        }
    }
}
