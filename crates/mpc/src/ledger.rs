//! What a server remembers of its computation until it has been verified.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blindsum_crypto::kdf::hash;

use crate::{Bits, Shares, Vectors};

/// Products, and what was computed for them.
pub(crate) enum Relation<R> {
    /// z are the dot products of every `length` values of x with as many of y.
    Dots {
        x: Shares<R>,
        y: Shares<R>,
        length: usize,
        z: Shares<R>,
    },
    /// z = Σ weight_c · vector_c.
    Weighted {
        weights: Shares<R>,
        vectors: Arc<Vectors>,
        z: Shares<R>,
    },
    /// z are all dot products of the vectors with each other.
    Gram { vectors: Arc<Vectors>, z: Shares<R> },
}

/// z = x AND y.
pub(crate) struct And {
    pub x: Bits,
    pub y: Bits,
    pub z: Bits,
}

/// Everything since the last verification.
pub(crate) struct Pending<R> {
    pub relations: Vec<Relation<R>>,
    pub ands: Vec<And>,
}

impl<R> Pending<R> {
    fn none() -> Self {
        let (relations, ands) = (Vec::new(), Vec::new());
        Self { relations, ands }
    }

    fn is_empty(&self) -> bool {
        self.relations.is_empty() && self.ands.is_empty()
    }
}

struct Entries<R> {
    pending: Pending<R>,
    /// Nothing was computed or opened since a verification that passed.
    is_settled: bool,
}

impl<R> Entries<R> {
    fn none() -> Self {
        let pending = Pending::none();
        Self {
            pending,
            is_settled: true,
        }
    }
}

/// Shares in it are the ones that were computed with, not copies.
struct Book<R> {
    entries: Mutex<Entries<R>>,
    /// A hash of every value that was opened, in order, here and in what runs beside.
    seen: Arc<Mutex<[u8; 32]>>,
}

/// A server's ledger: none where nothing is verified.
pub(crate) struct Ledger<R>(Option<Book<R>>);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<R> Ledger<R> {
    /// One in which nothing is written: servers follow the protocol.
    pub fn none() -> Self {
        Self(None)
    }

    /// One whose hash begins with the context of the computation.
    pub fn of(context: [u8; 32]) -> Self {
        Self(Some(Book {
            entries: Mutex::new(Entries::none()),
            seen: Arc::new(Mutex::new(context)),
        }))
    }

    /// An empty one with the same hash.
    pub fn branch(&self) -> Self {
        Self(self.0.as_ref().map(|book| Book {
            entries: Mutex::new(Entries::none()),
            seen: book.seen.clone(),
        }))
    }

    fn entries(&self) -> Option<MutexGuard<'_, Entries<R>>> {
        Some(locked(&self.0.as_ref()?.entries))
    }

    /// Whether anything is written in it.
    pub fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Writes down products.
    pub fn add(&self, relation: impl FnOnce() -> Relation<R>) {
        if let Some(mut entries) = self.entries() {
            entries.is_settled = false;
            entries.pending.relations.push(relation());
        }
    }

    /// Writes down ANDs.
    pub fn add_and(&self, x: &Bits, y: &Bits, z: &Bits) {
        if let Some(mut entries) = self.entries() {
            let (x, y, z) = (x.clone(), y.clone(), z.clone());
            entries.is_settled = false;
            entries.pending.ands.push(And { x, y, z });
        }
    }

    /// Writes down what was opened; the hash of it and all before.
    pub fn see(&self, opened: &[u8]) -> Option<[u8; 32]> {
        self.entries()?.is_settled = false;
        let mut seen = locked(&self.0.as_ref()?.seen);
        *seen = hash("mpc/seen", &[&*seen, opened]);
        Some(*seen)
    }

    /// Whether everything is verified; where nothing is, that is so.
    pub fn is_settled(&self) -> bool {
        self.entries().is_none_or(|entries| entries.is_settled)
    }

    /// Marks the taken relations as verified.
    pub fn settle(&self) {
        if let Some(mut entries) = self.entries() {
            entries.is_settled = entries.pending.is_empty();
        }
    }

    /// The hash of all that was opened; none where nothing is verified.
    pub fn seen(&self) -> Option<[u8; 32]> {
        Some(*locked(&self.0.as_ref()?.seen))
    }

    /// Takes the relations that are not verified yet.
    pub fn take(&self) -> Option<Pending<R>> {
        let mut entries = self.entries()?;
        // Until it has passed.
        entries.is_settled = false;
        Some(std::mem::replace(&mut entries.pending, Pending::none()))
    }
}
