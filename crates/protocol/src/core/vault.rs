//! What a party keeps of a job between rounds, where a protocol needs it: the key of the job, and which
//! rounds it was used in.

use std::sync::Mutex;

use zeroize::Zeroizing;

use crate::FaultKind;

/// Where a party keeps the secrets of one job. Whoever drives machines gives the same vault to all rounds
/// of a job; what it holds is only read and written by the protocol.
pub trait Vault: Send + Sync {
    /// What was written last; nothing at first.
    ///
    /// # Errors
    /// [`FaultKind::Vault`] where it cannot be read.
    fn read(&self) -> Result<Kept, FaultKind>;

    /// Replaces the contents. When this returns they survive a loss of power, and `mark` with them, which
    /// never gets smaller. What is written is secret.
    ///
    /// # Errors
    /// [`FaultKind::Vault`] where it cannot be written.
    fn write(&self, contents: &[u8], mark: u64) -> Result<(), FaultKind>;
}

/// The name of a key that parties share; no secret.
pub type KeyName = [u8; 16];

/// What a vault holds.
#[derive(Default)]
pub struct Kept {
    /// What was written last; nothing at first. Wiped on drop.
    pub contents: Option<Zeroizing<Vec<u8>>>,
    /// The largest mark that was written: kept apart from the contents, so that contents from an old backup
    /// are noticed.
    pub mark: u64,
}

/// A vault that is gone with the process: a party that restarts gets the key of the job again.
#[derive(Default)]
pub struct MemoryVault(Mutex<Kept>);

impl Vault for MemoryVault {
    fn read(&self) -> Result<Kept, FaultKind> {
        let kept = self.0.lock().map_err(poisoned)?;
        Ok(Kept {
            contents: kept.contents.clone(),
            mark: kept.mark,
        })
    }

    fn write(&self, contents: &[u8], mark: u64) -> Result<(), FaultKind> {
        let mut kept = self.0.lock().map_err(poisoned)?;
        kept.contents = Some(Zeroizing::new(contents.to_vec()));
        kept.mark = kept.mark.max(mark);
        Ok(())
    }
}

fn poisoned<T>(_: T) -> FaultKind {
    FaultKind::Vault("a thread that used it panicked".into())
}
