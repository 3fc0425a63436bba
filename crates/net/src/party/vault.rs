//! What a party keeps of a job between rounds, in two files of its state folder: the sealed contents, and the
//! mark, which tells whether the contents are from an old backup.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use blindsum_crypto::seal::StorageKey;
use blindsum_protocol::{FaultKind, Kept, Vault};

use super::durable::{read, replace};
use super::state::StateFile;
use crate::system::random;

/// What is authenticated with the contents.
const HEADER: &[u8] = b"blindsum vault";

/// The vault of a party with a state folder.
pub(super) struct FileVault {
    state: Arc<StateFile>,
    /// One call at a time: the files belong together.
    turn: Mutex<()>,
}

impl FileVault {
    pub fn new(state: Arc<StateFile>) -> Self {
        let turn = Mutex::new(());
        Self { state, turn }
    }

    fn contents(&self) -> PathBuf {
        self.state.folder().join("vault")
    }

    fn mark(&self) -> PathBuf {
        self.state.folder().join("mark")
    }

    fn turn(&self) -> Result<MutexGuard<'_, ()>, FaultKind> {
        let turn = self.turn.lock();
        turn.map_err(|error| FaultKind::Vault(error.to_string()))
    }

    fn read_mark(&self) -> Result<u64, FaultKind> {
        let path = self.mark();
        let Some(bytes) = read(&path).map_err(unusable(&path))? else {
            return Ok(0);
        };
        let bytes = bytes.try_into().map_err(|_| {
            let rule = format!("{} must have 8 bytes", path.display());
            FaultKind::Vault(rule)
        })?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn key(&self) -> &StorageKey {
        self.state.key()
    }
}

impl Vault for FileVault {
    fn read(&self) -> Result<Kept, FaultKind> {
        let _turn = self.turn()?;
        let mark = self.read_mark()?;
        let sealed = read(&self.contents()).map_err(unusable(&self.contents()))?;
        let contents = match sealed {
            None => None,
            Some(sealed) => Some(self.key().open(HEADER, &sealed).map_err(|_| {
                let path = self.contents();
                let rule = format!(
                    "{} is damaged or of another party; without it the other parties deliver the key again",
                    path.display()
                );
                FaultKind::Vault(rule)
            })?),
        };
        Ok(Kept { contents, mark })
    }

    fn write(&self, contents: &[u8], mark: u64) -> Result<(), FaultKind> {
        let _turn = self.turn()?;
        let mark = mark.max(self.read_mark()?).to_be_bytes();
        let mut rng = random().map_err(|e| FaultKind::Vault(e.to_string()))?;
        let sealed = self.key().seal(HEADER, contents, &mut rng);
        // The contents first: with a mark that is ahead of them they would count as an old backup.
        replace(&self.contents(), &[&sealed]).map_err(unusable(&self.contents()))?;
        replace(&self.mark(), &[&mark]).map_err(unusable(&self.mark()))
    }
}

/// The error of a file that cannot be used.
fn unusable(path: &Path) -> impl FnOnce(std::io::Error) -> FaultKind {
    let path = path.display().to_string();
    move |error| FaultKind::Vault(format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use blindsum_crypto::sign::{Algorithm, IdentityKey};

    use super::*;
    use crate::party::state::JobFolder;

    #[test]
    fn what_is_written_is_read_again_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let identity = IdentityKey::generate(Algorithm::Ed25519, &mut random().unwrap()).unwrap();
        let open = |identity| {
            let job = JobFolder::open(folder.path(), "j", identity).unwrap();
            job.enter(&[1; 32]).unwrap().state
        };
        let vault = FileVault::new(Arc::new(open(&identity)));
        let kept = vault.read().unwrap();
        assert_eq!((kept.contents.is_none(), kept.mark), (true, 0));
        vault.write(b"the key of the job", 7).unwrap();
        vault.write(b"another key of the job", 3).unwrap();
        let path = vault.contents();
        drop(vault);
        let sealed = std::fs::read(&path).unwrap();
        assert!(!sealed.windows(3).any(|window| window == b"key"));
        let vault = FileVault::new(Arc::new(open(&identity)));
        let kept = vault.read().unwrap();
        assert_eq!(&**kept.contents.unwrap(), b"another key of the job");
        assert_eq!(kept.mark, 7);
        std::fs::write(&path, &sealed[1..]).unwrap();
        let damaged = vault.read().err().unwrap().to_string();
        assert!(damaged.contains("vault is damaged"), "{damaged}");
        std::fs::write(vault.mark(), b"7").unwrap();
        let short = vault.read().err().unwrap().to_string();
        assert!(short.contains("must have 8 bytes"), "{short}");
    }
}
