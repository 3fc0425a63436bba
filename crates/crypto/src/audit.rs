//! Watching the use of sealing keys, for tests: every message between parties must be sealed under a
//! (key, nonce) pair of its own.
//!
//! Only compiled with the feature `audit`, which tests of protocols switch on; nothing is recorded
//! outside [`watch`].

use std::{cell::RefCell, collections::HashSet};

use crate::kdf;

/// What [`watch`] saw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sealings {
    /// Messages sealed.
    pub sealed: u64,
    /// Messages sealed under a (key, nonce) pair that had been used before.
    pub repeated: u64,
}

#[derive(Default)]
struct Recorder {
    pairs: HashSet<[u8; 32]>,
    seen: Sealings,
}

thread_local! {
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// Runs `work` and reports what was sealed by this thread in the meantime.
pub fn watch<R>(work: impl FnOnce() -> R) -> (R, Sealings) {
    RECORDER.set(Some(Recorder::default()));
    let result = work();
    let seen = RECORDER.take().map(|recorder| recorder.seen);
    (result, seen.unwrap_or_default())
}

/// Called before every sealing. Keeps only a hash of the pair.
pub(crate) fn record(key: &[u8], nonce: &[u8]) {
    RECORDER.with_borrow_mut(|recorder| {
        if let Some(recorder) = recorder {
            recorder.seen.sealed += 1;
            let fresh = recorder.pairs.insert(kdf::hash("audit", &[key, nonce]));
            recorder.seen.repeated += u64::from(!fresh);
        }
    });
}
