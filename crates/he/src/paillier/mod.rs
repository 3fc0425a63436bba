//! Paillier's scheme: everybody encrypts and adds, and only the holder of the secret key decrypts.
//!
//! Sources: P. Paillier, "Public-Key Cryptosystems Based on Composite Degree Residuosity Classes", EUROCRYPT 1999;
//! I. Damgård, M. Jurik, J. B. Nielsen, "A generalization of Paillier's public-key system with applications to
//! electronic voting", International Journal of Information Security 9, 2010 (DJN); C. Jost, H. Lam, A. Maximov,
//! B. Smeets, "Encryption Performance Improvements of the Paillier Cryptosystem", IACR ePrint 2015/864.
//!
//! * **Key.** N = p·q for primes p < q of equal length with both ≡ 3 mod 4 and gcd(p−1, q−1) = 2. Equal lengths make
//!   gcd(N, φ(N)) = 1. h = −x² mod N for a random x; h_N = h^N mod N².
//! * **Encryption** of m < N is c = (1 + m·N)·h_N^α mod N² for a random α. As h_N is fixed, h_N^α is a product of
//!   entries of a table, one for each window of α.
//! * **Sums.** A product of ciphertexts modulo N² is a ciphertext of the sum modulo N.
//! * **Decryption** works modulo p² and q² and puts both parts together.
//! * **Packing.** A plaintext has many lanes. A lane has the bits of a value and ⌈log2 P⌉ more, so that the sum of P
//!   of them stays in it; [`Packing`] has the rules. [`WordPacking`] takes words that have this room already.
//!
//! **What the length of α rests on.** [`Exponents::Full`] is half the length of N, as in DJN. Under the assumption that
//! factoring is hard, powers with such exponents cannot be told from those with exponents of full length (O. Goldreich,
//! V. Rosen, "On the Security of Modular Exponentiation with Application to the Construction of Pseudorandom
//! Generators", Journal of Cryptology 16, 2003). [`Exponents::Short`] has four times the bits of the level of security,
//! 448 and 512: the length in H. Ma, S. Han, H. Lei, "Optimized Paillier's Cryptosystem with Fast Encryption and
//! Decryption", ACSAC 2021. There h generates a subgroup of that order; here it does not, and one has to assume that short
//! exponents cannot be told from long ones (T. Koshiba, K. Kurosawa, "Short Exponent Diffie-Hellman Problems", PKC 2004).
//! The best attack known takes the square root of the number of exponents: 2^224 steps.
//!
//! **What is checked.** A public key: its length, that N has that full length, is 1 mod 4, is neither prime nor square and
//! has no factor below 2^11; that h is none of 0, 1 and N − 1, and that its Jacobi symbol is 1. That N has two factors
//! of the right form cannot be seen without them. Ciphertexts: that each is below N², is not 1 (which hides nothing) and
//! has no factor with N in common. Anybody can make a multiple of N, and it would wipe out a sum. One common divisor is
//! computed for all ciphertexts that come together, which makes the check as cheap as an addition for each.
//! The holder of the secret key sees it once more, for nothing.
//!
//! **What is secret.** Primes, exponents and plaintexts are wiped when dropped and never printed. No branch and no
//! address depends on them: exponents go through windows of fixed length, tables are read as a whole, and subtractions
//! are masked. Limits: candidates that turn out not to be prime may take a time of their own; copies that the compiler
//! makes on the stack or in registers are not wiped; whether a multiplication takes the same time for all numbers is up
//! to the processor.
//!
//! **Who is trusted.** Whoever holds the secret key reads every ciphertext, not only sums. Nothing shows that a
//! ciphertext holds what it should: a sum is as good as those who added to it.
//!
//! ```
//! use blindsum_he::paillier::{Encryptor, Exponents, KeySize, PaillierError, Packing, SecretKey};
//! use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};
//!
//! # fn main() -> Result<(), PaillierError> {
//! # let mut rng = ChaCha20Rng::seed_from_u64(7);
//! let secret = SecretKey::generate(KeySize::Bits2048, &mut rng);
//! let public = secret.public();
//!
//! // Each of two parties encrypts 1000 values of 16 bits.
//! let packing = Packing::new(KeySize::Bits2048, 16, 2)?;
//! let encryptor = Encryptor::new(public, Exponents::Full);
//! let values: Vec<i64> = (-500..500).collect();
//! let ciphertexts = [(); 2].map(|()| encryptor.encrypt(&packing.pack(&values)?, &mut rng));
//! let [first, second] = ciphertexts;
//!
//! // Anybody adds, the holder of the key decrypts.
//! let sum = public.sum(&[&first?, &second?])?;
//! let sums = packing.unpack(&secret.decrypt(&sum)?, 1000, 2)?;
//! assert_eq!(sums[0], -1000);
//! # Ok(())
//! # }
//! ```

mod backend;
mod ciphertext;
mod crt;
mod encrypt;
mod error;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ifma;
mod kernel;
mod montgomery;
mod number;
mod packing;
mod portable;
mod prime;
mod public;
mod secret;
#[cfg(test)]
mod tests;
mod words;

pub use backend::Backend;
pub use ciphertext::Ciphertexts;
pub use encrypt::{Encryptor, Exponents, Noise};
pub use error::PaillierError;
pub use packing::{Packing, Plaintexts};
pub use public::{KeyId, PublicKey};
pub use secret::SecretKey;
pub use words::WordPacking;

/// Bits of N.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeySize {
    /// 2048: a level of security of 112 bits.
    Bits2048,
    /// 3072: a level of security of 128 bits.
    Bits3072,
}

impl KeySize {
    /// Both sizes.
    pub const ALL: [KeySize; 2] = [KeySize::Bits2048, KeySize::Bits3072];

    /// Bits of N.
    #[must_use]
    pub const fn bits(self) -> usize {
        match self {
            KeySize::Bits2048 => 2048,
            KeySize::Bits3072 => 3072,
        }
    }

    /// Bytes of a plaintext, which are those of N.
    #[must_use]
    pub const fn plaintext_bytes(self) -> usize {
        self.bits() / 8
    }

    /// Bytes of a ciphertext, which are those of N².
    #[must_use]
    pub const fn ciphertext_bytes(self) -> usize {
        2 * self.plaintext_bytes()
    }

    /// Bytes of a public key: N and h.
    #[must_use]
    pub const fn public_key_bytes(self) -> usize {
        2 * self.plaintext_bytes()
    }

    /// Bytes of a secret key: p, q and h.
    #[must_use]
    pub const fn secret_key_bytes(self) -> usize {
        2 * self.plaintext_bytes()
    }

    /// Words of N.
    const fn words(self) -> usize {
        self.bits() / 64
    }
}
