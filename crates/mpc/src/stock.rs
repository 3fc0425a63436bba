//! Random bits that were made before they were needed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Bits, Shares};

/// Random bits that no server knows, shared both as bits and as numbers 0 and 1, row by row.
pub(crate) struct DoubleBits<R> {
    pub numbers: Shares<R>,
    pub bits: Bits,
}

/// Double bits that were made ahead, by their shape.
pub(crate) struct Stock<R>(Mutex<Shelves<R>>);

type Shelves<R> = BTreeMap<(usize, usize), Vec<DoubleBits<R>>>;

impl<R> Default for Stock<R> {
    fn default() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }
}

impl<R> Stock<R> {
    fn shelves(&self) -> MutexGuard<'_, Shelves<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts bits on the shelf of their shape: numbers side by side, and bits of each.
    pub fn put(&self, shape: (usize, usize), bits: DoubleBits<R>) {
        self.shelves().entry(shape).or_default().push(bits);
    }

    /// Takes bits of a shape, if there are any.
    pub fn take(&self, shape: (usize, usize)) -> Option<DoubleBits<R>> {
        self.shelves().get_mut(&shape).and_then(Vec::pop)
    }
}
