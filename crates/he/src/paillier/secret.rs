//! Secret keys.

use std::fmt;

use blindsum_crypto::CryptoRng;
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{Odd, Uint};
use zeroize::Zeroizing;

use super::backend::Backend;
use super::crt::{Crt, Decrypt};
use super::portable::uint;
use super::prime::{self, passes};
use super::{Ciphertexts, KeySize, PaillierError, Plaintexts, PublicKey, number};

/// Bits in which the primes of a key must not be equal from the top, or N could be factored from its square root
/// (FIPS 186-5, appendix A.1.3).
const UNEQUAL_BITS: usize = 100;

/// p and q: what decrypts.
pub struct SecretKey {
    public: PublicKey,
    /// q above p, as words.
    primes: Zeroizing<Vec<u64>>,
    decrypt: Box<dyn Decrypt>,
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "SecretKey of {:?}", self.public)
    }
}

impl SecretKey {
    /// Draws a key. That takes a fraction of a second, which differs from key to key.
    #[must_use]
    pub fn generate(size: KeySize, rng: &mut dyn CryptoRng) -> Self {
        match size {
            KeySize::Bits2048 => generate::<16, 32>(size, rng),
            KeySize::Bits3072 => generate::<24, 48>(size, rng),
        }
    }

    /// The key with these bytes: p ‖ q ‖ h, all big-endian, p < q and half as long as N. The caller must have opened a
    /// seal: what is checked finds damage, not malice.
    ///
    /// # Errors
    /// [`PaillierError::Length`] and [`PaillierError::SecretKey`] or [`PaillierError::PublicKey`] for a rule that is
    /// broken.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PaillierError> {
        let size = KeySize::ALL
            .into_iter()
            .find(|size| size.secret_key_bytes() == bytes.len())
            .ok_or(PaillierError::Length {
                what: "secret key",
                got: bytes.len(),
                expected: KeySize::Bits2048.secret_key_bytes(),
            })?;
        match size {
            KeySize::Bits2048 => read::<16>(size, bytes),
            KeySize::Bits3072 => read::<24>(size, bytes),
        }
    }

    /// p ‖ q ‖ h, to be sealed.
    #[must_use]
    pub fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        let half = self.primes.len() / 2;
        let mut bytes = Zeroizing::new(vec![0; self.public.size().secret_key_bytes()]);
        let (primes, base) = bytes.split_at_mut(self.public.size().plaintext_bytes());
        let pieces = primes.chunks_exact_mut(half * number::WORD_BYTES);
        for (prime, piece) in self.primes.chunks_exact(half).zip(pieces) {
            number::write(prime, piece);
        }
        number::write(self.public.base(), base);
        bytes
    }

    /// The same key, computing with `backend`.
    ///
    /// # Panics
    /// If the machine cannot.
    #[must_use]
    pub fn with_backend(&self, backend: Backend) -> Self {
        let public = self.public.with_backend(backend);
        match public.size() {
            KeySize::Bits2048 => assemble::<16>(public, &self.primes),
            KeySize::Bits3072 => assemble::<24>(public, &self.primes),
        }
    }

    /// The key that encrypts.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Decrypts.
    ///
    /// # Errors
    /// * [`PaillierError::Key`] if they are of another key.
    /// * [`PaillierError::Ciphertext`] for the first that has a factor with N in common.
    pub fn decrypt(&self, ciphertexts: &Ciphertexts) -> Result<Plaintexts, PaillierError> {
        let numbers = ciphertexts.under(&self.public)?;
        let plaintexts = self.decrypt.decrypt(numbers)?;
        Ok(Plaintexts::of(self.public.size(), plaintexts))
    }
}

/// A key of a checked public key and its primes.
fn assemble<const P: usize>(public: PublicKey, primes: &[u64]) -> SecretKey {
    let (p, q) = primes.split_at(P);
    let (p, q) = (Zeroizing::new(uint::<P>(p)), Zeroizing::new(uint::<P>(q)));
    SecretKey {
        decrypt: Box::new(Crt::new(&p, &q, public.backend())),
        primes: Zeroizing::new(primes.to_vec()),
        public,
    }
}

/// Which rule two primes of a key break.
fn broken<const P: usize>(p: &Uint<P>, q: &Uint<P>) -> Option<&'static str> {
    let top = |prime: &Uint<P>| prime.as_words()[P - 1] >> 62;
    if p.as_words()[0] % 4 != 3 || q.as_words()[0] % 4 != 3 {
        return Some("p = q = 3 mod 4 must hold");
    }
    if top(p) != 3 || top(q) != 3 {
        return Some("p and q must have their full length");
    }
    let near = Zeroizing::new(
        q.wrapping_sub(p)
            .shr_vartime((64 * P - UNEQUAL_BITS) as u32),
    );
    if p >= q || bool::from(near.is_zero()) {
        return Some("p < q must hold, and not only just");
    }
    // gcd(p−1, q−1) = 2, as both are 2 mod 4.
    let halves = [p, q].map(|prime| Zeroizing::new(prime.shr_vartime(1)));
    if halves[0].gcd(&halves[1]) != Uint::ONE {
        return Some("gcd(p-1, q-1) = 2 must hold");
    }
    None
}

fn generate<const P: usize, const N: usize>(size: KeySize, rng: &mut dyn CryptoRng) -> SecretKey {
    let (p, q) = loop {
        let (one, other) = (prime::generate::<P>(rng), prime::generate::<P>(rng));
        // Which was drawn first is no secret.
        let (p, q) = if *one < *other {
            (one, other)
        } else {
            (other, one)
        };
        if broken(&p, &q).is_none() {
            break (p, q);
        }
    };
    let modulus = product(&p, &q);
    let base = base::<N>(&modulus, rng);
    let public = PublicKey::of(size, &modulus, &base, Backend::fastest());
    let primes = Zeroizing::new([p.to_words(), q.to_words()].concat());
    assemble::<P>(public, &primes)
}

/// p·q.
fn product<const P: usize>(p: &Uint<P>, q: &Uint<P>) -> Vec<u64> {
    let (low, high) = p.widening_mul(q);
    [low.to_words(), high.to_words()].concat()
}

/// h = −x² mod N for a random x that has no factor with N in common.
fn base<const N: usize>(modulus: &[u64], rng: &mut dyn CryptoRng) -> Vec<u64> {
    let odd: Odd<Uint<N>> = uint(modulus)
        .to_odd()
        .expect_copied("a product of odd primes");
    let params = FixedMontyParams::new_vartime(odd);
    loop {
        let x = prime::random::<N>(rng);
        if *x >= *odd.as_ref() || x.gcd(odd.as_ref()) != Uint::ONE {
            continue;
        }
        let form = Zeroizing::new(FixedMontyForm::new(&x, &params));
        return form.square().neg().retrieve().to_words().to_vec();
    }
}

fn read<const P: usize>(size: KeySize, bytes: &[u8]) -> Result<SecretKey, PaillierError> {
    let refused = |rule| Err(PaillierError::SecretKey { rule });
    let (primes, base) = bytes.split_at(size.plaintext_bytes());
    let mut words = Zeroizing::new(vec![0; 2 * P]);
    let pieces = primes.chunks_exact(P * number::WORD_BYTES);
    for (piece, prime) in pieces.zip(words.chunks_exact_mut(P)) {
        number::read(piece, prime);
    }
    let (p, q) = words.split_at(P);
    let (p, q) = (Zeroizing::new(uint::<P>(p)), Zeroizing::new(uint::<P>(q)));
    if let Some(rule) = broken(&p, &q) {
        return refused(rule);
    }
    let two = Uint::from(2u64);
    if !passes(&p, &two) || !passes(&q, &two) {
        return refused("p and q must be primes");
    }
    let mut public = number::to_bytes(&product(&p, &q), 2 * P);
    public.extend_from_slice(base);
    Ok(assemble::<P>(PublicKey::from_bytes(&public)?, &words))
}
