//! Recognising a message that was received before.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::kdf::{self, Context};

/// 128 bits that tell the messages of a round apart: the tag of AES-256-GCM (NIST SP 800-38D) over an
/// empty plaintext with `message` as associated data, a zero nonce and the key
/// `hash("fingerprint", [context])`.
///
/// It runs at the speed of memory, some 20 times that of SHA-256. Two messages of at most 4 GiB that nobody chose to
/// collide have the same fingerprint with probability below 2^-99. It is **no** commitment: whoever knows the context
/// can make two messages with one fingerprint. So use it only for decisions from which such a person gains nothing,
/// such as whether a message is a repetition that gets the stored answer again.
///
/// # Panics
///
/// If `message` is longer than AES-GCM allows (2^61 bytes).
pub fn fingerprint(context: &Context, message: &[u8]) -> [u8; 16] {
    let key = kdf::hash("fingerprint", &[&context.0]);
    gmac(&key, message)
}

/// AES-256-GMAC with a zero nonce.
fn gmac(key: &[u8; 32], message: &[u8]) -> [u8; 16] {
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
    }

    #[test]
    fn every_bit_and_the_length_and_the_context_matter() {
        let context = Context([1; 32]);
        let message: Vec<u8> = (0..300u16).map(|i| i as u8).collect();
        let base = fingerprint(&context, &message);
        assert_eq!(base, fingerprint(&context, &message));
        assert_ne!(base, fingerprint(&Context([2; 32]), &message));
        for bit in 0..8 * message.len() {
            let mut other = message.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(base, fingerprint(&context, &other), "bit {bit}");
        }
        let mut zeros: Vec<_> = (0..100)
            .map(|length| fingerprint(&context, &vec![0; length]))
            .collect();
        zeros.sort_unstable();
        zeros.dedup();
        assert_eq!(zeros.len(), 100);
    }

    /// The tag that the AES and GHASH of SP 800-38D give, computed by other means: for an empty message it
    /// is the encrypted first counter block.
    #[test]
    fn empty_message_is_the_encrypted_counter_block() {
        use aes::cipher::{BlockCipherEncrypt, KeyInit};
        let context = Context([3; 32]);
        let key = kdf::hash("fingerprint", &[&context.0]);
        let mut block = aes::Block::default();
        block[15] = 1;
        aes::Aes256::new(&key.into()).encrypt_block(&mut block);
        assert_eq!(fingerprint(&context, &[]), <[u8; 16]>::from(block));
    }
}
