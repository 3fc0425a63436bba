//! The keys that two servers have in common and the third one lacks.

use std::sync::atomic::{AtomicU64, Ordering};

use blindsum_crypto::mask::{MaskKey, MaskSeed, MaskStream, Sign};
use blindsum_crypto::secret::Secret;

/// A server's two keys of one attempt at one round. Key j is known to server j and server j − 1, so server i has key i
/// and key i + 1. Each key gives one stream for each step, and no stream is used twice: steps are counted here, and all
/// three servers take the same steps.
pub struct PairKeys {
    own: MaskKey,
    next: MaskKey,
    step: AtomicU64,
}

impl PairKeys {
    /// The keys of server i: `own` is key i, `next` is key i + 1.
    pub fn new(own: Secret<32>, next: Secret<32>) -> Self {
        Self {
            own: MaskKey::new(MaskSeed::from(own)),
            next: MaskKey::new(MaskSeed::from(next)),
            step: AtomicU64::new(0),
        }
    }

    /// The streams of the next step, of key i and of key i + 1.
    pub(crate) fn streams(&self) -> (MaskStream, MaskStream) {
        let step = self.step.fetch_add(1, Ordering::Relaxed);
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&step.to_be_bytes());
        (
            self.own.stream(nonce, Sign::Add),
            self.next.stream(nonce, Sign::Add),
        )
    }
}
