//! The audit trail of a coordinator: who came and who was refused, how every round ended, what members did wrong. Each is a line
//! of JSON that has the hash of the line before, so no line can be changed, taken out or put in without all that follow.
//!
//! Whoever can write the file can also write all of it anew: note the hash of its last line elsewhere from time to time. The log
//! has it at every stop, and `blindsum audit verify` says it.

mod chain;
mod crowd;
mod entry;
mod recorded;
#[cfg(test)]
mod tests;
mod trail;

use std::path::Path;
use std::sync::Arc;

pub(crate) use entry::{Entry, Guest, OrderEntry, Times};
use recorded::Recorded;
use trail::Trail;

use crate::NetError;
use crate::store::Store;
use crate::system::WallClock;

/// Where what happens is recorded, if anywhere. Copies write the same trail.
#[derive(Clone, Default)]
pub(crate) struct Audit(Option<Arc<Trail>>);

impl Audit {
    /// Takes up the trail in this file, if one is wanted, and gives the store that records in it, too.
    ///
    /// # Errors
    /// The file cannot be used, or it was changed.
    pub fn open(
        path: Option<&Path>,
        clock: WallClock,
        store: Arc<dyn Store>,
    ) -> Result<(Self, Arc<dyn Store>), NetError> {
        let Some(path) = path else {
            return Ok((Self::default(), store));
        };
        let (trail, known) = Trail::open(path, clock)?;
        let trail = Arc::new(trail);
        let store = Recorded::new(store, trail.clone(), known);
        Ok((Self(Some(trail)), Arc::new(store)))
    }

    /// Verifies the trail in this file, if there is one, and changes nothing.
    ///
    /// # Errors
    /// The file cannot be read, or it was changed.
    pub fn check(path: &Path) -> Result<(), NetError> {
        Trail::check_file(path)
    }

    /// Writes an entry, where there is a trail.
    pub fn note(&self, entry: impl FnOnce() -> Entry) {
        if let Some(trail) = &self.0 {
            trail.note(entry());
        }
    }

    /// Writes that the coordinator has ended.
    pub fn end(&self) {
        if let Some(trail) = &self.0 {
            trail.end();
        }
    }
}
