//! What a party must not forget, as named records: a host provides them, whatever they lie in.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Records by name. A name is made of lowercase letters, digits and `-`, with one `/` in it at most.
///
/// Calls may wait for a disk: a machine makes them in its tasks.
pub trait Records: Send + Sync {
    /// Where they lie, for messages.
    fn place(&self) -> &Path;

    /// The contents of a record; none where there is none.
    ///
    /// # Errors
    /// Reading failed.
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Makes or replaces a record by these pieces, one behind the other. The new contents survive a crash from the
    /// moment this returns; a crash before leaves the old ones or the new ones.
    ///
    /// # Errors
    /// Writing failed.
    fn replace(&self, name: &str, pieces: &[&[u8]]) -> io::Result<()>;

    /// Removes a record, if it is there.
    ///
    /// # Errors
    /// Writing failed.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// Records in memory. A host that keeps state by itself takes them out after each message
/// ([`snapshot`](Self::snapshot)) and begins with them again; what is secret in them is sealed.
#[derive(Debug)]
pub struct MemoryRecords {
    place: PathBuf,
    records: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Default for MemoryRecords {
    fn default() -> Self {
        Self::of(BTreeMap::new())
    }
}

impl MemoryRecords {
    /// Those of an earlier [`snapshot`](Self::snapshot).
    pub fn of(records: BTreeMap<String, Vec<u8>>) -> Self {
        Self {
            place: "memory".into(),
            records: Mutex::new(records),
        }
    }

    /// All records as they are now.
    pub fn snapshot(&self) -> BTreeMap<String, Vec<u8>> {
        self.records().clone()
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Records for MemoryRecords {
    fn place(&self) -> &Path {
        &self.place
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.records().get(name).cloned())
    }

    fn replace(&self, name: &str, pieces: &[&[u8]]) -> io::Result<()> {
        self.records().insert(name.into(), pieces.concat());
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.records().remove(name);
        Ok(())
    }
}
