//! Authenticating one message under a key of its own.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use subtle::ConstantTimeEq;

use crate::secret::Secret;

/// A key that authenticates one message, used up by it.
///
/// The tag is that of AES-256-GCM (NIST SP 800-38D) over an empty plaintext with the message as associated
/// data and a zero nonce. It runs at the speed of memory. Whoever sees the tags of two messages under one
/// key can forge more, so a key must be derived for one message only.
///
/// ```
/// use blindsum_crypto::{mac::OneTimeKey, secret::Secret};
/// let key = || OneTimeKey::from(Secret::from([7; 32])); // each side derives it
/// let tag = key().tag(b"message");
/// assert!(key().verify(b"message", &tag));
/// assert!(!key().verify(b"massage", &tag));
/// ```
///
/// ```compile_fail,E0382
/// use blindsum_crypto::{mac::OneTimeKey, secret::Secret};
/// let key = OneTimeKey::from(Secret::from([7; 32]));
/// let one = key.tag(b"one");
/// let two = key.tag(b"two"); // use of moved value
/// ```
pub struct OneTimeKey(Secret<32>);

impl From<Secret<32>> for OneTimeKey {
    fn from(key: Secret<32>) -> Self {
        OneTimeKey(key)
    }
}

impl OneTimeKey {
    /// The tag of `message`.
    ///
    /// # Panics
    ///
    /// If `message` is longer than AES-GCM allows (2^61 bytes).
    pub fn tag(self, message: &[u8]) -> [u8; 16] {
        gmac(self.0.expose(), message)
    }

    /// Whether `tag` is that of `message`, in constant time.
    ///
    /// # Panics
    ///
    /// As [`tag`](Self::tag).
    pub fn verify(self, message: &[u8], tag: &[u8; 16]) -> bool {
        self.tag(message).ct_eq(tag).into()
    }
}

/// AES-256-GMAC with a zero nonce.
pub(crate) fn gmac(key: &[u8; 32], message: &[u8]) -> [u8; 16] {
    let key = UnboundKey::new(&AES_256_GCM, key).expect("AES-256-GCM takes 32 bytes");
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    let sealed = LessSafeKey::new(key)
        .seal_in_place_separate_tag(nonce, Aad::from(message), &mut [])
        .expect("associated data within the limit of AES-GCM");
    let mut tag = [0; 16];
    tag.copy_from_slice(sealed.as_ref());
    tag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_util::hex_array;

    /// Test case 13 of the GCM proposal of McGrew and Viega: everything zero or empty.
    #[test]
    fn known_answer() {
        let expected = hex_array("530f8afbc74536b9a963b4f1c4cb738b");
        assert_eq!(gmac(&[0; 32], &[]), expected);
        assert!(OneTimeKey::from(Secret::from([0; 32])).verify(&[], &expected));
    }

    #[test]
    fn every_bit_of_message_tag_and_key_matters() {
        let key = |byte| OneTimeKey::from(Secret::from([byte; 32]));
        let message: Vec<u8> = (0..70).collect();
        let tag = key(1).tag(&message);
        assert!(key(1).verify(&message, &tag));
        assert!(!key(2).verify(&message, &tag));
        for bit in 0..8 * message.len() {
            let mut other = message.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!key(1).verify(&other, &tag), "bit {bit}");
        }
        for bit in 0..128 {
            let mut other = tag;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!key(1).verify(&message, &other), "bit {bit}");
        }
    }
}
