//! What a party computes while it waits, so that its answer takes less time when it has its update.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

/// Room for what was computed ahead of one party's round: [`Client::prepare`](crate::Client::prepare) fills it, and
/// the machine takes it when it starts.
#[derive(Default)]
pub struct Prepared(Mutex<Option<Box<dyn Any + Send>>>);

impl Prepared {
    pub(crate) fn put(&self, made: impl Any + Send) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(made));
    }

    pub(crate) fn take<T: 'static>(&self) -> Option<T> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.take()?.downcast().ok().map(|made| *made)
    }
}
