//! Tests of Paillier's scheme.

mod abuse;
mod arithmetic;
mod laws;
mod primes;

use std::sync::LazyLock;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::*;

/// A key of each size: drawing one takes a while.
static KEYS: LazyLock<[SecretKey; 2]> =
    LazyLock::new(|| KeySize::ALL.map(|size| SecretKey::generate(size, &mut rng(1))));

fn rng(seed: u64) -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(seed)
}

fn key(size: KeySize) -> &'static SecretKey {
    match size {
        KeySize::Bits2048 => &KEYS[0],
        KeySize::Bits3072 => &KEYS[1],
    }
}

/// What encrypts with the key of 2048 bits.
static ENCRYPTOR: LazyLock<Encryptor> =
    LazyLock::new(|| Encryptor::new(key(KeySize::Bits2048).public(), Exponents::Full));

/// Backends of this machine.
fn backends() -> impl Iterator<Item = Backend> {
    Backend::ALL
        .into_iter()
        .filter(|backend| backend.is_available())
}
