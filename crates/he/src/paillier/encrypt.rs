//! Encryption and new randomness.

use std::fmt;

use blindsum_crypto::CryptoRng;
use crypto_bigint::{Limb, Uint};
use rayon::prelude::*;
use zeroize::Zeroizing;

use super::kernel::Powers;
use super::number::is_less;
use super::portable::uint;
use super::{Ciphertexts, KeySize, PaillierError, Plaintexts, PublicKey};

/// How long the random exponents α are. The page of the module says what each length rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Exponents {
    /// Half as long as N: 1024 or 1536 bits.
    #[default]
    Full,
    /// Four times the level of security: 448 or 512 bits.
    Short,
}

impl Exponents {
    /// Bytes of an exponent.
    #[must_use]
    pub const fn bytes(self, size: KeySize) -> usize {
        match (self, size) {
            (Exponents::Full, size) => size.bits() / 16,
            (Exponents::Short, KeySize::Bits2048) => 448 / 8,
            (Exponents::Short, KeySize::Bits3072) => 512 / 8,
        }
    }
}

/// A public key with the table that encryption takes: 12 MB for 2048 bits and full exponents on IFMA, 27 MB for 3072.
pub struct Encryptor {
    key: PublicKey,
    exponent_bytes: usize,
    powers: Box<dyn Powers>,
}

impl fmt::Debug for Encryptor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = 8 * self.exponent_bytes;
        write!(out, "Encryptor({:?}, exponents of {bits} bits)", self.key)
    }
}

impl Encryptor {
    /// Computes the table.
    #[must_use]
    pub fn new(key: &PublicKey, exponents: Exponents) -> Self {
        let exponent_bytes = exponents.bytes(key.size());
        let base = key.power_of_base();
        Self {
            key: key.clone(),
            exponent_bytes,
            powers: key.arithmetic().powers(&base, exponent_bytes),
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &PublicKey {
        &self.key
    }

    /// Encrypts: c = (1 + m·N)·h_N^α mod N². The α are drawn first, in order, each as its bytes from the least
    /// significant on.
    ///
    /// # Errors
    /// [`PaillierError::Plaintext`] for the first number that is not below N, as one packed for a longer key may be.
    pub fn encrypt(
        &self,
        plaintexts: &Plaintexts,
        rng: &mut dyn CryptoRng,
    ) -> Result<Ciphertexts, PaillierError> {
        Ok(self.randomised(self.factors(plaintexts)?, rng))
    }

    /// Draws h_N^α for so many ciphertexts before there is something to encrypt; the α as [`encrypt`](Self::encrypt)
    /// draws them.
    #[must_use]
    pub fn noise(&self, count: usize, rng: &mut dyn CryptoRng) -> Noise {
        let width = 2 * self.key.size().words();
        let mut ones = vec![0; count * width];
        for one in ones.chunks_exact_mut(width) {
            one[0] = 1;
        }
        Noise(self.randomised(ones, rng))
    }

    /// Encrypts with noise that was drawn before, which takes one multiplication for each ciphertext. The noise is used
    /// up: nothing else may ever be encrypted with it.
    ///
    /// # Errors
    /// As [`encrypt`](Self::encrypt); [`PaillierError::Key`], [`PaillierError::Count`] for noise of another key or length.
    pub fn encrypt_with(
        &self,
        plaintexts: &Plaintexts,
        noise: Noise,
    ) -> Result<Ciphertexts, PaillierError> {
        let mut plain = Ciphertexts::of(&self.key, self.factors(plaintexts)?);
        let encrypted = self.key.sum(&[&plain, &noise.0]);
        plain.wipe();
        encrypted
    }

    /// 1 + m·N of each plaintext.
    fn factors(&self, plaintexts: &Plaintexts) -> Result<Vec<u64>, PaillierError> {
        let modulus = self.key.modulus();
        if plaintexts.size() != self.key.size() {
            return Err(PaillierError::Length {
                what: "plaintext",
                got: plaintexts.size().plaintext_bytes(),
                expected: self.key.size().plaintext_bytes(),
            });
        }
        let numbers = plaintexts.words();
        let mut each = numbers.chunks_exact(modulus.len());
        if let Some(index) = each.position(|number| !is_less(number, modulus)) {
            return Err(PaillierError::Plaintext { index });
        }
        // They become ciphertexts where they stand.
        let mut factors = vec![0; 2 * numbers.len()];
        let one_plus = match self.key.size() {
            KeySize::Bits2048 => one_plus::<32>,
            KeySize::Bits3072 => one_plus::<48>,
        };
        numbers
            .par_chunks_exact(modulus.len())
            .zip(factors.par_chunks_exact_mut(2 * modulus.len()))
            .for_each(|(number, factor)| one_plus(number, modulus, factor));
        Ok(factors)
    }

    /// Other ciphertexts of the same plaintexts: each is multiplied by a new h_N^α.
    ///
    /// # Errors
    /// [`PaillierError::Key`] if they are of another key.
    pub fn rerandomise(
        &self,
        ciphertexts: &Ciphertexts,
        rng: &mut dyn CryptoRng,
    ) -> Result<Ciphertexts, PaillierError> {
        let factors = ciphertexts.under(&self.key)?.to_vec();
        Ok(self.randomised(factors, rng))
    }

    /// Each factor times a random power of h_N.
    fn randomised(&self, mut factors: Vec<u64>, rng: &mut dyn CryptoRng) -> Ciphertexts {
        let count = factors.len() / (2 * self.key.size().words());
        let mut exponents = Zeroizing::new(vec![0; count * self.exponent_bytes]);
        rng.fill_bytes(&mut exponents);
        self.powers.multiply(&mut factors, &exponents);
        Ciphertexts::of(&self.key, factors)
    }
}

/// Powers h_N^α that were drawn ahead, one for each ciphertext. Whoever sees them can take them out of what is encrypted
/// with them.
pub struct Noise(Ciphertexts);

impl Noise {
    /// For how many ciphertexts it is.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// The key that it is for.
    #[must_use]
    pub fn key(&self) -> super::KeyId {
        self.0.key()
    }
}

impl fmt::Debug for Noise {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Noise({} ciphertexts)", self.count())
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        self.0.wipe();
    }
}

/// 1 + m·N, which is below N² as m < N.
fn one_plus<const W: usize>(plaintext: &[u64], modulus: &[u64], factor: &mut [u64]) {
    let plaintext = Zeroizing::new(uint::<W>(plaintext));
    let (low, high) = plaintext.widening_mul(&uint::<W>(modulus));
    let (low, high) = (Zeroizing::new(low), Zeroizing::new(high));
    let (low, carry) = low.carrying_add(&Uint::ONE, Limb::ZERO);
    let (high, _) = high.carrying_add(&Uint::ZERO, carry);
    let (lower, upper) = factor.split_at_mut(W);
    lower.copy_from_slice(low.as_words());
    upper.copy_from_slice(high.as_words());
}
