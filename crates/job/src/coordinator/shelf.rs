//! Storage for answers that are passed on, piece by piece, from parties to parties. Those of a stage are kept until
//! everybody has received its pieces.

use std::collections::BTreeMap;
use std::ops::Range;

use blindsum_protocol::PartyId;
use bytes::Bytes;

/// The answers of one stage. Written while they come, then only read.
pub trait Shelf: Send + Sync {
    /// Keeps a party's answer. May wait for a disk.
    ///
    /// # Errors
    /// There is no room for the answer.
    fn keep(&mut self, party: PartyId, answer: Bytes) -> Result<(), ShelfError>;

    /// Appends a range of bytes of a party's answer to `out`. May wait for a disk if [`waits`](Self::waits).
    ///
    /// # Errors
    /// The bytes cannot be read, or do not exist.
    fn read(
        &self,
        party: PartyId,
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), ShelfError>;

    /// Whether reading may wait for a disk.
    fn waits(&self) -> bool;
}

/// Makes shelves, which share the memory and the disk of a coordinator.
pub trait Shelves: Send + Sync {
    /// Makes an empty shelf. It takes no room until something is kept.
    fn shelf(&self) -> Box<dyn Shelf>;
}

/// Why answers could not be kept or read, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ShelfError(pub String);

impl ShelfError {
    /// An answer of this party is asked for that was not kept.
    pub fn missing(party: PartyId) -> Self {
        Self(format!("bytes of {party} that did not come"))
    }
}

/// Shelves in memory, without a limit, for simulations and tests, where all parties are in one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryShelves;

/// A shelf in memory.
#[derive(Default)]
struct MemoryShelf(BTreeMap<PartyId, Bytes>);

impl Shelves for MemoryShelves {
    fn shelf(&self) -> Box<dyn Shelf> {
        Box::<MemoryShelf>::default()
    }
}

impl Shelf for MemoryShelf {
    fn keep(&mut self, party: PartyId, answer: Bytes) -> Result<(), ShelfError> {
        self.0.insert(party, answer);
        Ok(())
    }

    fn read(
        &self,
        party: PartyId,
        range: Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<(), ShelfError> {
        let bytes = self.0.get(&party).and_then(|answer| answer.get(range));
        out.extend_from_slice(bytes.ok_or_else(|| ShelfError::missing(party))?);
        Ok(())
    }

    fn waits(&self) -> bool {
        false
    }
}
