//! Makes sure that only one coordinator uses a store: a lock beside the store, so that others can still read the store
//! itself.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rusqlite::Connection;

use super::errors::store_error;
use super::opening;
use crate::StoreError;

/// Held until it is dropped, or the process ends, however that ends.
///
/// It is SQLite's own lock, on an empty file `STORE.lock`: unlike a lock by `flock` it is not handed down to a
/// process that is forked off.
pub(super) struct StoreLock {
    /// In a mutex because a store is shared between threads; nobody looks at it again.
    _held: Mutex<Connection>,
}

impl StoreLock {
    /// Takes the lock of a store.
    pub fn take(store: &Path) -> Result<Self, StoreError> {
        let name = store.display().to_string();
        let hold = || -> rusqlite::Result<Connection> {
            let connection = opening::open(&lock_file(store))?;
            connection.busy_timeout(Duration::from_millis(200))?;
            // Nothing is ever written: the transaction is only there to be open.
            // guard: one-coordinator-a-store
            connection.execute_batch("BEGIN EXCLUSIVE")?;
            Ok(connection)
        };
        let held = hold().map_err(|error| store_error(&name, &error))?;
        Ok(Self {
            _held: Mutex::new(held),
        })
    }
}

/// The same file by whatever name the store is called.
fn lock_file(store: &Path) -> PathBuf {
    let mut path = std::fs::canonicalize(store).unwrap_or_else(|_| {
        let folder = store.parent().unwrap_or(Path::new(""));
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        store
            .file_name()
            .map_or(folder.clone(), |name| folder.join(name))
    });
    path.as_mut_os_string().push(".lock");
    path
}
