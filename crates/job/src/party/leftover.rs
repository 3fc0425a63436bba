//! The part of its updates that a party has not sent yet, in sparse rounds.

use std::sync::{Arc, Mutex, PoisonError};

use blindsum_encode::{EncodeError, Selection, Sparsifier, Update};
use blindsum_protocol::Round;

/// What a party has not sent of its updates yet, for all rounds of a job.
#[derive(Clone)]
pub(super) struct Leftover(Arc<Mutex<Sparsifier>>);

impl Leftover {
    /// All that is in here.
    pub fn of(sparsifier: Sparsifier) -> Self {
        Self(Arc::new(Mutex::new(sparsifier)))
    }

    /// Does something with it, alone.
    pub fn with<T>(&self, work: impl FnOnce(&mut Sparsifier) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is sent of an update, and of what was left before it.
    pub fn select(&self, round: &Round, update: &Update) -> Result<Selection, EncodeError> {
        let before = round.sums_before();
        self.with(|sparsifier| sparsifier.select(round.encoding(), before, update.values()))
    }
}
