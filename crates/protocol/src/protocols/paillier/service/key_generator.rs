//! Which key serves a round, and when another one is made.

use std::sync::Arc;

use blindsum_he::paillier::{KeySize, SecretKey};
use rand_core::CryptoRng;

use crate::protocols::paillier::options::Options;
#[cfg(any(test, feature = "testing"))]
use crate::toys;

/// Makes the keys of a job. It holds the one that serves now.
#[derive(Default)]
pub(super) struct KeyGenerator(Option<Serving>);

struct Serving {
    key: Arc<SecretKey>,
    /// The round that it was made for.
    since: u64,
    /// When, in seconds.
    made: u64,
}

impl KeyGenerator {
    /// The key of a round that begins now.
    pub fn key_of(
        &mut self,
        options: &Options,
        round: u64,
        now: u64,
        rng: &mut dyn CryptoRng,
    ) -> Arc<SecretKey> {
        if let Some(serving) = self.0.as_ref().filter(|it| it.serves(options, round, now)) {
            return serving.key.clone();
        }
        let key = self.make(options.size, rng);
        self.0 = Some(Serving {
            key: key.clone(),
            since: round,
            made: now,
        });
        key
    }

    fn make(&self, size: KeySize, rng: &mut dyn CryptoRng) -> Arc<SecretKey> {
        #[cfg(any(test, feature = "testing"))]
        if let Some(shared) = toys::keys::draw(size, self.0.as_ref().map(|it| &it.key), rng) {
            return shared;
        }
        Arc::new(SecretKey::generate(size, rng))
    }
}

impl Serving {
    fn serves(&self, options: &Options, round: u64, now: u64) -> bool {
        let (rounds, seconds) = (options.key_rounds, options.key_seconds);
        // A clock that goes back must not make a key serve longer.
        let is_young = |age: u64| (age as f64) < seconds;
        // guard: a-key-serves-its-rounds
        (rounds == 0 || round.saturating_sub(self.since) < rounds)
            // guard: clocks-that-go-back-end-a-key
            && (seconds == 0.0 || now.checked_sub(self.made).is_some_and(is_young))
    }
}
