//! The disk of a party, or of a server that is not the coordinator: records that outlive its machine, and backups of them.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use blindsum_job::records::{MemoryRecords, Records};

/// Backups that are kept.
const BACKUPS: usize = 40;

/// Records with a copy of them from before each change.
#[derive(Default)]
pub(super) struct Disk {
    records: MemoryRecords,
    backups: Mutex<Vec<BTreeMap<String, Vec<u8>>>>,
    written: AtomicU64,
}

impl Disk {
    /// The records come back as they were before the last `changes`; those that have no backup stay.
    pub fn restored(&self, changes: u64) -> Self {
        let mut backups = self.backups();
        let at = backups.len().saturating_sub(changes as usize);
        let old = backups.get(at).cloned();
        backups.truncate(at);
        Self {
            records: MemoryRecords::of(old.unwrap_or_else(|| self.records.snapshot())),
            backups: Mutex::new(backups.clone()),
            written: AtomicU64::new(self.written()),
        }
    }

    /// How many records were written, ever.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn backups(&self) -> MutexGuard<'_, Vec<BTreeMap<String, Vec<u8>>>> {
        self.backups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn back_up(&self) {
        let mut backups = self.backups();
        if backups.len() == BACKUPS {
            backups.remove(0);
        }
        backups.push(self.records.snapshot());
    }
}

impl Records for Disk {
    fn place(&self) -> &Path {
        self.records.place()
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        self.records.read(name)
    }

    fn replace(&self, name: &str, pieces: &[&[u8]]) -> io::Result<()> {
        self.back_up();
        self.written.fetch_add(1, Ordering::Relaxed);
        self.records.replace(name, pieces)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.back_up();
        self.records.remove(name)
    }
}
