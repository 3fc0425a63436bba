//! Secret bytes of a fixed length.

use rand_core::CryptoRng;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::CryptoError;

/// `N` secret bytes: moved, never copied, compared in constant time and wiped when dropped.
///
/// They lie in a place of their own on the heap. What is moved within the stack leaves its bytes where it was, and they
/// can get into other memory from there: with the unused bytes of a value that is put into a box later.
///
/// ```
/// let secret = blindsum_crypto::secret::Secret::from([7u8; 32]);
/// assert_eq!(secret.expose(), &[7; 32]);
/// ```
///
/// ```compile_fail,E0277
/// let secret = blindsum_crypto::secret::Secret::from([7u8; 32]);
/// println!("{secret:?}"); // a secret cannot be printed
/// ```
///
/// ```compile_fail,E0599
/// let secret = blindsum_crypto::secret::Secret::from([7u8; 32]);
/// let copy = secret.clone(); // nor copied
/// ```
// guard: secrets-are-wiped, secrets-are-not-printed
#[derive(ZeroizeOnDrop)]
pub struct Secret<const N: usize>(Box<[u8; N]>);

impl<const N: usize> Secret<N> {
    /// Draws `N` bytes from `rng`.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        let mut secret = Self::zeroed();
        rng.fill_bytes(&mut *secret.0);
        secret
    }

    /// The bytes, to hand to an algorithm; they must not be kept.
    pub fn expose(&self) -> &[u8; N] {
        &self.0
    }

    pub(crate) fn expose_mut(&mut self) -> &mut [u8; N] {
        &mut self.0
    }

    /// An all-zero secret to be filled in place, so that no copy stays behind.
    pub(crate) fn zeroed() -> Self {
        Self(Box::new([0; N]))
    }
}

/// Takes over the bytes. An array is copied when it is moved: wipe the original where that matters.
impl<const N: usize> From<[u8; N]> for Secret<N> {
    fn from(mut bytes: [u8; N]) -> Self {
        let secret = Self::from(&bytes);
        bytes.zeroize();
        secret
    }
}

/// Copies the bytes to where they are kept, with no other copy on the way.
impl<const N: usize> From<&[u8; N]> for Secret<N> {
    fn from(bytes: &[u8; N]) -> Self {
        let mut secret = Self::zeroed();
        secret.0.copy_from_slice(bytes);
        secret
    }
}

/// Copies the bytes, which must be exactly `N`.
impl<const N: usize> TryFrom<&[u8]> for Secret<N> {
    type Error = CryptoError;

    fn try_from(bytes: &[u8]) -> Result<Self, CryptoError> {
        let exact: Result<&[u8; N], _> = bytes.try_into();
        exact
            .map(Self::from)
            .map_err(|_| CryptoError::SecretLength {
                expected: N,
                got: bytes.len(),
            })
    }
}

impl<const N: usize> ConstantTimeEq for Secret<N> {
    fn ct_eq(&self, other: &Self) -> subtle::Choice {
        self.0.ct_eq(&*other.0)
    }
}

impl<const N: usize> PartialEq for Secret<N> {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(other).into()
    }
}

impl<const N: usize> Eq for Secret<N> {}

#[cfg(test)]
mod tests {
    use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};

    use super::*;

    #[test]
    fn drawn_from_the_given_generator_only() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let first = Secret::<32>::generate(&mut rng);
        let second = Secret::<32>::generate(&mut rng);
        let again = Secret::<32>::generate(&mut ChaCha20Rng::seed_from_u64(1));
        assert!(first != second);
        assert!(first == again);
    }

    #[test]
    fn wrong_length_is_an_error() {
        assert!(Secret::<4>::try_from(&[1u8, 2, 3, 4][..]).is_ok());
        assert!(matches!(
            Secret::<4>::try_from(&[1u8, 2, 3][..]),
            Err(CryptoError::SecretLength {
                expected: 4,
                got: 3
            })
        ));
    }
}
