//! Public keys.

use std::fmt;
use std::sync::Arc;

use blindsum_crypto::kdf::hash;
use crypto_bigint::modular::{FixedMontyForm, FixedMontyParams};
use crypto_bigint::{JacobiSymbol, Uint};

use super::backend::Backend;
use super::kernel::Arithmetic;
use super::portable::uint;
use super::prime::has_small_factor;
use super::{KeySize, PaillierError, number};

/// An identifier of a [`PublicKey`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyId(pub [u8; 16]);

/// N and h, checked, and what adding ciphertexts takes. Clones share it.
#[derive(Clone)]
pub struct PublicKey(Arc<Parts>);

struct Parts {
    size: KeySize,
    id: KeyId,
    backend: Backend,
    modulus: Vec<u64>,
    base: Vec<u64>,
    square: Vec<u64>,
    arithmetic: Box<dyn Arithmetic>,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "PublicKey({} bits, {:?})",
            self.size().bits(),
            self.id()
        )
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        (&self.0.modulus, &self.0.base) == (&other.0.modulus, &other.0.base)
    }
}

impl Eq for PublicKey {}

impl PublicKey {
    /// The key with these bytes: N ‖ h, both big-endian and as long as N.
    ///
    /// # Errors
    /// [`PaillierError::Length`] and [`PaillierError::PublicKey`]: the page of the module says what is checked.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PaillierError> {
        let size = KeySize::ALL
            .into_iter()
            .find(|size| size.public_key_bytes() == bytes.len())
            .ok_or(PaillierError::Length {
                what: "public key",
                got: bytes.len(),
                expected: KeySize::Bits2048.public_key_bytes(),
            })?;
        let mut words = vec![0; 2 * size.words()];
        // The number that comes first is the upper half.
        number::read(bytes, &mut words);
        let (base, modulus) = words.split_at(size.words());
        match size {
            KeySize::Bits2048 => check::<32>(modulus, base)?,
            KeySize::Bits3072 => check::<48>(modulus, base)?,
        }
        Ok(Self::of(size, modulus, base, Backend::fastest()))
    }

    /// A key of numbers that are known to be right.
    pub(super) fn of(size: KeySize, modulus: &[u64], base: &[u64], backend: Backend) -> Self {
        let square = match size {
            KeySize::Bits2048 => squared::<32>(modulus),
            KeySize::Bits3072 => squared::<48>(modulus),
        };
        let bytes = number::to_bytes(&[modulus, base].concat(), size.words());
        let hash = hash("paillier key id", &[&bytes]);
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        Self(Arc::new(Parts {
            size,
            id: KeyId(id),
            backend,
            modulus: modulus.to_vec(),
            base: base.to_vec(),
            arithmetic: backend.modulo(&square),
            square,
        }))
    }

    /// The same key, computing with `backend`.
    ///
    /// # Panics
    /// If the machine cannot.
    #[must_use]
    pub fn with_backend(&self, backend: Backend) -> Self {
        Self::of(self.size(), &self.0.modulus, &self.0.base, backend)
    }

    /// N ‖ h.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        number::to_bytes(&[self.modulus(), self.base()].concat(), self.size().words())
    }

    /// Bits of N.
    #[must_use]
    pub fn size(&self) -> KeySize {
        self.0.size
    }

    /// The first 16 bytes of H("paillier key id"; N ‖ h).
    #[must_use]
    pub fn id(&self) -> KeyId {
        self.0.id
    }

    /// What computes.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.0.backend
    }

    /// N.
    pub(super) fn modulus(&self) -> &[u64] {
        &self.0.modulus
    }

    /// h.
    pub(super) fn base(&self) -> &[u64] {
        &self.0.base
    }

    /// N².
    pub(super) fn square(&self) -> &[u64] {
        &self.0.square
    }

    /// Arithmetic modulo N².
    pub(super) fn arithmetic(&self) -> &dyn Arithmetic {
        &*self.0.arithmetic
    }

    /// Whether one of these numbers below N² has a factor with N in common.
    pub(super) fn shares_factor(&self, numbers: &[u64]) -> bool {
        if numbers.is_empty() {
            return false;
        }
        let folded = self.arithmetic().fold(numbers);
        match self.size() {
            KeySize::Bits2048 => shares_factor::<64>(&folded, self.modulus()),
            KeySize::Bits3072 => shares_factor::<96>(&folded, self.modulus()),
        }
    }

    /// h^N mod N².
    pub(super) fn power_of_base(&self) -> Vec<u64> {
        match self.size() {
            KeySize::Bits2048 => power::<64>(self.base(), self.modulus(), self.square()),
            KeySize::Bits3072 => power::<96>(self.base(), self.modulus(), self.square()),
        }
    }
}

/// Whether N and h can be a key's.
fn check<const W: usize>(modulus: &[u64], base: &[u64]) -> Result<(), PaillierError> {
    let refused = |rule| Err(PaillierError::PublicKey { rule });
    let (modulus, base) = (uint::<W>(modulus), uint::<W>(base));
    if modulus.as_words()[0] % 4 != 1 {
        return refused("N = 1 mod 4 must hold");
    }
    if modulus.as_words()[W - 1] >> 63 == 0 {
        return refused("N must have its full length");
    }
    // guard: moduli-have-no-small-factors
    if has_small_factor(&modulus) {
        return refused("N must have no small factor");
    }
    if modulus.checked_sqrt_vartime().is_some() {
        return refused("N must be no square");
    }
    let odd = modulus.to_odd().expect_copied("1 mod 4");
    let params = FixedMontyParams::new_vartime(odd);
    let less = modulus.wrapping_sub(&Uint::ONE);
    let two = FixedMontyForm::new(&Uint::from(2u64), &params);
    // guard: prime-moduli-are-refused
    if two.pow_vartime(&less).retrieve() == Uint::ONE {
        return refused("N must be no prime");
    }
    if base <= Uint::ONE || base >= less {
        return refused("1 < h < N - 1 must hold");
    }
    // guard: noise-is-of-the-right-form
    if base.jacobi_symbol_vartime(&odd) != JacobiSymbol::One {
        return refused("the Jacobi symbol of h must be 1");
    }
    Ok(())
}

/// The square of a number.
fn squared<const W: usize>(number: &[u64]) -> Vec<u64> {
    let (low, high) = uint::<W>(number).widening_square();
    [low.to_words(), high.to_words()].concat()
}

/// A number of any length as one of `W` words.
fn widened<const W: usize>(words: &[u64]) -> Uint<W> {
    let mut wide = [0; W];
    wide[..words.len()].copy_from_slice(words);
    Uint::from_words(wide)
}

fn shares_factor<const W: usize>(number: &[u64], modulus: &[u64]) -> bool {
    uint::<W>(number).gcd_vartime(&widened(modulus)) != Uint::ONE
}

fn power<const W: usize>(base: &[u64], exponent: &[u64], modulus: &[u64]) -> Vec<u64> {
    let odd = uint::<W>(modulus)
        .to_odd()
        .expect_copied("a square of an odd number");
    let params = FixedMontyParams::new_vartime(odd);
    let form = FixedMontyForm::new(&widened(base), &params);
    let power = form.pow_vartime(&widened::<W>(exponent));
    power.retrieve().to_words().to_vec()
}
