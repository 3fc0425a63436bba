//! A 32-byte secret as five field elements.
//!
//! The secret is a little-endian string of 256 bits; limb i is its bits 52·i to 52·i + 51, the last limb has 48.

use blindsum_math::field::Field;
use blindsum_math::field61::Field61;
use zeroize::Zeroizing;

use crate::SharingError;

/// Bytes of a secret.
pub const SECRET_LEN: usize = 32;
/// Limbs of a secret.
pub(super) const LIMBS: usize = 5;

const LIMB_BITS: usize = 52;
const WORDS: usize = SECRET_LEN / 8;

/// Cuts a secret into limbs.
pub(super) fn split(secret: &[u8; SECRET_LEN]) -> Zeroizing<[Field61; LIMBS]> {
    let mut words = Zeroizing::new([0u64; WORDS]);
    for (word, bytes) in words.iter_mut().zip(secret.chunks_exact(8)) {
        *word = bytes
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u64::from(byte));
    }
    let mut limbs = Zeroizing::new([Field61::ZERO; LIMBS]);
    for (i, limb) in limbs.iter_mut().enumerate() {
        let (word, shift) = position(i);
        let above = words.get(word + 1).copied().unwrap_or(0);
        let window = u128::from(words[word]) | u128::from(above) << 64;
        let value = (window >> shift) as u64 & mask(i);
        *limb = Field61::from_canonical(value).unwrap_or(Field61::ZERO);
    }
    limbs
}

/// Puts a secret together again. That a limb is out of range comes out, but neither which nor by how much.
///
/// # Errors
/// [`SharingError::NotASecret`] if a limb has more bits than a secret has there.
pub(super) fn join(limbs: &[Field61; LIMBS]) -> Result<Zeroizing<[u8; SECRET_LEN]>, SharingError> {
    let mut words = Zeroizing::new([0u64; WORDS]);
    let mut excess = 0;
    for (i, limb) in limbs.iter().enumerate() {
        let value = limb.to_canonical();
        excess |= value & !mask(i);
        let (word, shift) = position(i);
        let window = u128::from(value) << shift;
        words[word] |= window as u64;
        if let Some(above) = words.get_mut(word + 1) {
            *above |= (window >> 64) as u64;
        }
    }
    if excess != 0 {
        return Err(SharingError::NotASecret);
    }
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    for (bytes, word) in secret.chunks_exact_mut(8).zip(words.iter()) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Ok(secret)
}

/// Word and bit at which limb i begins.
fn position(i: usize) -> (usize, usize) {
    (i * LIMB_BITS / 64, i * LIMB_BITS % 64)
}

/// The bits that limb i may have.
fn mask(i: usize) -> u64 {
    let bits = LIMB_BITS.min(8 * SECRET_LEN - i * LIMB_BITS);
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limbs(values: [u64; LIMBS]) -> [Field61; LIMBS] {
        values.map(|value| Field61::from_canonical(value).expect("below p"))
    }

    #[test]
    fn all_ones_fill_the_limbs() {
        let (full, last) = ((1 << 52) - 1, (1 << 48) - 1);
        assert_eq!(*split(&[0xff; 32]), limbs([full, full, full, full, last]));
    }

    #[test]
    fn each_limb_is_checked() {
        for i in 0..LIMBS {
            let limit = if i == LIMBS - 1 { 1 << 48 } else { 1 << 52 };
            for beyond in [limit, limit + 1, Field61::MODULUS - 1] {
                let mut values = [0; LIMBS];
                values[i] = beyond;
                assert_eq!(join(&limbs(values)).err(), Some(SharingError::NotASecret));
            }
            let mut values = [0; LIMBS];
            values[i] = limit - 1;
            assert!(join(&limbs(values)).is_ok());
        }
    }

    proptest! {
        #[test]
        fn joining_undoes_splitting(secret: [u8; 32]) {
            let again = join(&split(&secret)).unwrap();
            prop_assert_eq!(*again, secret);
        }

        #[test]
        fn a_bit_goes_to_its_limb(bit in 0usize..256) {
            let mut secret = [0; 32];
            secret[bit / 8] = 1 << (bit % 8);
            let mut values = [0; LIMBS];
            values[bit / 52] = 1 << (bit % 52);
            prop_assert_eq!(*split(&secret), limbs(values));
        }
    }
}
