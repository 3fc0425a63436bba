//! What a party keeps of a job between rounds, if the protocol needs it: the key of the job, and the rounds in which it
//! was used.

use std::sync::Mutex;

use zeroize::Zeroizing;

use crate::FaultKind;

/// Where a party keeps the secrets of one job. Give the same vault to the machines of all rounds of a job. Only the
/// protocol reads and writes its contents.
pub trait Vault: Send + Sync {
    /// Reads what was written last; nothing at first.
    ///
    /// # Errors
    /// [`FaultKind::Vault`] if it cannot be read.
    fn read(&self) -> Result<Kept, FaultKind>;

    /// Replaces the contents and raises the mark to `mark`, unless it is higher. When this returns, both survive a loss
    /// of power. The contents are secret.
    ///
    /// # Errors
    /// [`FaultKind::Vault`] if it cannot be written.
    fn write(&self, contents: &[u8], mark: u64) -> Result<(), FaultKind>;
}

/// The name of a key that parties share. It is no secret.
pub type KeyName = [u8; 16];

/// The contents of a vault.
#[derive(Default)]
pub struct Kept {
    /// The latest contents written; `None` at first. Wiped on drop.
    pub contents: Option<Zeroizing<Vec<u8>>>,
    /// The largest mark that was written. It is kept apart from the contents, so that contents from an old backup are
    /// noticed.
    pub mark: u64,
}

/// A vault in memory, which is lost when the process ends: a party that restarts must get the key of the job again.
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
