//! The clock and the system's random numbers.

use std::time::{SystemTime, UNIX_EPOCH};

use blindsum_crypto::Zeroizing;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

/// Seconds since 1970-01-01 00:00 UTC.
pub fn unix_seconds() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_secs())
}

/// A fresh seed of the system.
pub fn entropy() -> PyResult<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(no_randomness)?;
    Ok(seed)
}

fn no_randomness(error: getrandom::Error) -> PyErr {
    PyOSError::new_err(format!("the system gives no random numbers: {error}"))
}

/// A generator with a fresh seed of the system.
pub fn random() -> PyResult<ChaCha20Rng> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed).map_err(no_randomness)?;
    Ok(ChaCha20Rng::from_seed(*seed))
}
