//! What every prime field here offers, and batch inversion over any of them.
//!
//! Operations take the same time whatever the elements are, as far as the compiler keeps branch-free code branch-free.
//! Only public values may steer control flow: exponents, counts, and whether bytes were canonical.

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use rand_core::CryptoRng;
use zeroize::{DefaultIsZeroes, Zeroizing};

use crate::MathError;

/// Bytes taken from the generator at a time by [`Field::fill_random`].
const DRAW_BYTES: usize = 512;

/// An element of the field of integers modulo a prime p < 2^64.
///
/// The default value is zero, so that containers of elements can be wiped by `zeroize`.
pub trait Field:
    Copy
    + Eq
    + Debug
    + Send
    + Sync
    + 'static
    + DefaultIsZeroes
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + SubAssign
    + Mul<Output = Self>
    + MulAssign
    + Neg<Output = Self>
{
    /// The prime p.
    const MODULUS: u64;
    /// The element 0.
    const ZERO: Self;
    /// The element 1.
    const ONE: Self;
    /// Bits of an encoded element: ⌈log2 p⌉.
    const BITS: u32 = u64::BITS - Self::MODULUS.leading_zeros();
    /// Bytes of an encoded element.
    const ENCODED_LEN: usize = Self::BITS.div_ceil(8) as usize;

    /// The element with the representative `value`, or `None` if `value` ≥ p. Which of the two it is, is not secret.
    fn from_canonical(value: u64) -> Option<Self>;

    /// The representative in 0 ≤ value < p.
    fn to_canonical(self) -> u64;

    /// `self` to the power `exponent`; the time depends on the exponent, which is public.
    #[must_use]
    fn power(self, exponent: u64) -> Self {
        let mut result = Self::ONE;
        for bit in (0..u64::BITS - exponent.leading_zeros()).rev() {
            result *= result;
            if exponent >> bit & 1 == 1 {
                result *= self;
            }
        }
        result
    }

    /// The multiplicative inverse by Fermat's little theorem; 0 for 0.
    #[must_use]
    fn inverse(self) -> Self {
        self.power(Self::MODULUS - 2)
    }

    /// Writes the representative, little-endian.
    ///
    /// # Panics
    /// If `out` is not [`Field::ENCODED_LEN`] bytes long.
    fn write_to(self, out: &mut [u8]) {
        out.copy_from_slice(&self.to_canonical().to_le_bytes()[..Self::ENCODED_LEN]);
    }

    /// Reads an element that [`Field::write_to`] wrote.
    ///
    /// # Errors
    /// [`MathError::ElementLength`] or, for a representative ≥ p, [`MathError::NonCanonical`].
    fn read_from(bytes: &[u8]) -> Result<Self, MathError> {
        if bytes.len() != Self::ENCODED_LEN {
            return Err(MathError::ElementLength {
                got: bytes.len(),
                need: Self::ENCODED_LEN,
            });
        }
        Self::from_canonical(load_little_endian(bytes)).ok_or(MathError::NonCanonical {
            modulus: Self::MODULUS,
        })
    }

    /// Fills `out` with independent uniform elements.
    ///
    /// Draws of [`Field::BITS`] bits are rejected until they are below p; a rejected draw says nothing about the
    /// accepted ones. The result depends on the generator's bytes only. Does not return if the generator is stuck at
    /// draws ≥ p.
    fn fill_random(out: &mut [Self], rng: &mut dyn CryptoRng) {
        let mask = u64::MAX >> (u64::BITS - Self::BITS);
        let mut draws = Zeroizing::new([0u8; DRAW_BYTES]);
        let mut filled = 0;
        while filled < out.len() {
            let wanted = (out.len() - filled).min(DRAW_BYTES / Self::ENCODED_LEN);
            let bytes = &mut draws[..wanted * Self::ENCODED_LEN];
            rng.fill_bytes(bytes);
            for draw in bytes.chunks_exact(Self::ENCODED_LEN) {
                if let Some(element) = Self::from_canonical(load_little_endian(draw) & mask) {
                    out[filled] = element;
                    filled += 1;
                }
            }
        }
    }

    /// One uniform element; see [`Field::fill_random`].
    fn random(rng: &mut dyn CryptoRng) -> Self {
        let mut element = [Self::ZERO];
        Self::fill_random(&mut element, rng);
        element[0]
    }
}

/// Replaces every element by its inverse. Takes one inversion, and three multiplications for each element (Montgomery's
/// trick).
///
/// # Errors
/// [`MathError::InverseOfZero`] if an element is zero; the slice is unchanged then.
pub fn batch_invert<F: Field>(elements: &mut [F]) -> Result<(), MathError> {
    let mut before = Zeroizing::new(Vec::with_capacity(elements.len()));
    let mut product = F::ONE;
    for &element in elements.iter() {
        before.push(product);
        product *= element;
    }
    if product == F::ZERO {
        return Err(MathError::InverseOfZero);
    }
    let mut after = product.inverse();
    for (element, &before) in elements.iter_mut().zip(before.iter()).rev() {
        let inverse = after * before;
        after *= *element;
        *element = inverse;
    }
    Ok(())
}

/// The little-endian number in at most 8 bytes.
fn load_little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, &byte| value << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::field61::Field61;
    use crate::tiny_field::TinyField;

    #[test]
    fn batch_inversion_refuses_zero_and_leaves_the_slice() {
        let five = Field61::from_canonical(5).unwrap();
        let mut elements = [five, Field61::ZERO, five];
        assert_eq!(batch_invert(&mut elements), Err(MathError::InverseOfZero));
        assert_eq!(elements, [five, Field61::ZERO, five]);
        assert_eq!(batch_invert::<Field61>(&mut []), Ok(()));
    }

    #[test]
    fn encoded_length_follows_the_modulus() {
        assert_eq!((Field61::BITS, Field61::ENCODED_LEN), (61, 8));
        assert_eq!((TinyField::<7>::BITS, TinyField::<7>::ENCODED_LEN), (3, 1));
    }

    #[test]
    fn decoding_refuses_wrong_lengths() {
        let need = Field61::ENCODED_LEN;
        for got in [0, 7, 9] {
            let result = Field61::read_from(&vec![0; got]);
            assert_eq!(result, Err(MathError::ElementLength { got, need }));
        }
    }

    /// Gives the bytes of a list, in order.
    struct Scripted(Vec<u8>);

    impl rand_core::TryRng for Scripted {
        type Error = std::convert::Infallible;
        fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
            rand_core::utils::next_word_via_fill(self)
        }
        fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
            rand_core::utils::next_word_via_fill(self)
        }
        fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), Self::Error> {
            let rest = self.0.split_off(out.len());
            out.copy_from_slice(&self.0);
            self.0 = rest;
            Ok(())
        }
    }

    impl rand_core::TryCryptoRng for Scripted {}

    #[test]
    fn sampling_masks_and_rejects() {
        // Modulo 5 a draw is the low 3 bits: 7 and 13 (5) are rejected, 0xfb is 3, then the two missing are redrawn.
        let mut rng = Scripted(vec![7, 0xfb, 13, 1, 6, 4, 2]);
        let mut elements = [TinyField::<5>::ZERO; 4];
        TinyField::fill_random(&mut elements, &mut rng);
        let values: Vec<u64> = elements.iter().map(|e| e.to_canonical()).collect();
        assert_eq!(values, [3, 1, 4, 2]);
        assert!(rng.0.is_empty());
    }

    proptest! {
        #[test]
        fn batch_inversion_is_inversion(values in prop::collection::vec(1..Field61::MODULUS, 0..40)) {
            let mut elements: Vec<Field61> = values.iter().map(|&v| Field61::from_canonical(v).unwrap()).collect();
            let expected: Vec<Field61> = elements.iter().map(|e| e.inverse()).collect();
            batch_invert(&mut elements).unwrap();
            prop_assert_eq!(elements, expected);
        }
    }
}
