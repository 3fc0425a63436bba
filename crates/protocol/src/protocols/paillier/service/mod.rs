//! The key service: it makes the keys of a job ([`KeyGenerator`]) and opens sums ([`Decryptor`]). It lives as long as the
//! process that has it, and its keys are nowhere else: a service that is restarted has new ones, with which nothing of
//! before can be read.

mod decryptor;
mod key_generator;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blindsum_he::paillier::SecretKey;
use rand_core::CryptoRng;

use super::options::Options;
use crate::{FaultKind, PartySet, Round};
use decryptor::Decryptor;
use key_generator::KeyGenerator;

/// What a server has that makes keys and opens sums. One for each job, for all its rounds.
#[derive(Default)]
pub(super) struct KeyService(Mutex<State>);

#[derive(Default)]
struct State {
    generator: KeyGenerator,
    decryptor: Decryptor,
}

impl KeyService {
    /// Opens a round: the key that all encrypt for. `now` is in seconds.
    pub fn open(
        &self,
        round: &Round,
        options: &Options,
        now: u64,
        rng: &mut dyn CryptoRng,
    ) -> Result<Arc<SecretKey>, FaultKind> {
        let mut state = self.state();
        let State {
            generator,
            decryptor,
        } = &mut *state;
        decryptor.may_open(round.number())?;
        let key = generator.key_of(options, round.number(), now, rng);
        decryptor.open(round, key.clone());
        Ok(key)
    }

    /// Opens the sum of a round, once, with the key that the round was opened with: where each part of it is declared to
    /// be of everybody.
    pub fn decrypt<T>(
        &self,
        round: &Round,
        declared: &[&PartySet],
        decrypt: impl FnOnce(&SecretKey) -> Result<T, FaultKind>,
    ) -> Result<T, FaultKind> {
        // Others may ask meanwhile.
        let key = self.state().decryptor.take(round, declared)?;
        decrypt(&key)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
