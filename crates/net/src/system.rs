//! The clock and the system's random numbers: the only places where either is read.

use std::time::{SystemTime, UNIX_EPOCH};

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::NetError;

/// Seconds since 1970-01-01 00:00 UTC.
pub(crate) fn unix_seconds() -> u64 {
    unix_millis() / 1000
}

/// Milliseconds since 1970-01-01 00:00 UTC.
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as u64)
}

/// A generator with a fresh seed of the system.
pub(crate) fn random() -> Result<ChaCha20Rng, NetError> {
    let mut seed = blindsum_crypto::Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)
        .map_err(|e| NetError::system(format!("the system gives no random numbers: {e}")))?;
    Ok(ChaCha20Rng::from_seed(*seed))
}
