//! What a party computes while it waits for its update, so that its answer takes less time then.

use std::sync::{Arc, Mutex, PoisonError};

use rand_core::CryptoRng;

use super::ClientSetup;
use crate::Fault;
use crate::core::round::{ClientStep, InputRef};

/// The start of a client, with what was computed ahead for it.
pub(crate) trait Starter: Send {
    /// As that of the machines of the round.
    fn start(
        self: Box<Self>,
        setup: &Arc<ClientSetup>,
        input: InputRef<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault>;
}

/// What was computed ahead, and the bytes that it fills.
pub(crate) struct Ahead {
    pub starter: Box<dyn Starter>,
    pub bytes: usize,
}

/// A place for what is computed ahead of time for one party's round: [`Client::prepare`](crate::Client::prepare) fills
/// it, and the client takes it when it starts.
#[derive(Default)]
pub struct Prepared(Mutex<Option<Box<dyn Starter>>>);

impl Prepared {
    pub(crate) fn put(&self, starter: Box<dyn Starter>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(starter);
    }

    pub(crate) fn take(&self) -> Option<Box<dyn Starter>> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.take()
    }
}
