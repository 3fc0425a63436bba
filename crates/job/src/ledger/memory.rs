//! A ledger in memory: for a party that keeps none beyond its process, and for tests.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{LedgerFile, OpenLedger, Witness};

/// The records of a ledger in memory, and perhaps a witness.
#[derive(Default)]
pub struct MemoryLedger(Mutex<Held>);

/// What it holds.
#[derive(Clone, Default)]
struct Held {
    bytes: Vec<u8>,
    witness: Option<Vec<u8>>,
    prepared: Vec<u8>,
}

impl MemoryLedger {
    /// One with these bytes.
    pub fn of(bytes: Vec<u8>) -> Self {
        Self(Mutex::new(Held {
            bytes,
            ..Held::default()
        }))
    }

    /// The same with a witness, which has these bytes.
    pub fn with_witness(self, witness: Vec<u8>) -> Self {
        self.held().witness = Some(witness);
        self
    }

    /// A copy of its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.held().bytes.clone()
    }

    /// Puts other bytes there, as a backup does.
    pub fn restore(&self, bytes: Vec<u8>) {
        self.held().bytes = bytes;
    }

    /// A copy of what the witness has.
    pub fn witness(&self) -> Option<Vec<u8>> {
        self.held().witness.clone()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for MemoryLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLedger").finish_non_exhaustive()
    }
}

impl LedgerFile for MemoryLedger {
    fn place(&self) -> &Path {
        Path::new("memory")
    }

    fn open(&self) -> io::Result<Box<dyn OpenLedger + '_>> {
        Ok(Box::new(self.held()))
    }
}

impl OpenLedger for MutexGuard<'_, Held> {
    fn read_from(&mut self, start: u64) -> io::Result<Option<Vec<u8>>> {
        let start = usize::try_from(start).ok();
        Ok(start
            .and_then(|start| self.bytes.get(start..))
            .map(Into::into))
    }

    fn append(&mut self, behind: u64, bytes: &[u8]) -> io::Result<()> {
        self.bytes
            .truncate(usize::try_from(behind).unwrap_or(usize::MAX));
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn witness(&mut self) -> io::Result<Witness> {
        Ok(self.witness.clone().map_or(Witness::None, Witness::Has))
    }

    fn prepare_witness(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.prepared = bytes.into();
        Ok(())
    }

    fn tell_witness(&mut self) -> io::Result<()> {
        let prepared = std::mem::take(&mut self.prepared);
        if let Some(witness) = &mut self.witness {
            *witness = prepared;
        }
        Ok(())
    }
}
