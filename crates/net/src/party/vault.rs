//! What a party keeps of a job between rounds, in two files of its state folder: the sealed contents, and the
//! mark, which tells whether the contents are from an old backup.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

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

    fn key(&self) -> &StorageKey {
        self.state.key()
    }
}

impl Vault for FileVault {
    fn read(&self) -> Result<Kept, FaultKind> {
        let _turn = self
            .turn
            .lock()
            .map_err(|e| FaultKind::Vault(e.to_string()))?;
        let mark = match read(&self.mark()).map_err(unusable(&self.mark()))? {
            None => 0,
            Some(bytes) => u64::from_be_bytes(bytes.try_into().map_err(|_| {
                let rule = format!("{} must have 8 bytes", self.mark().display());
                FaultKind::Vault(rule)
            })?),
        };
        let sealed = read(&self.contents()).map_err(unusable(&self.contents()))?;
        let Some(sealed) = sealed else {
            let contents = None;
            return Ok(Kept { contents, mark });
        };
        let opened = self.key().open(HEADER, &sealed).map_err(|_| {
            let path = self.contents();
            let rule = format!(
                "{} is damaged or of another party; without it the other parties deliver the key again",
                path.display()
            );
            FaultKind::Vault(rule)
        })?;
        let contents = Some(opened);
        Ok(Kept { contents, mark })
    }

    fn write(&self, contents: &[u8], mark: u64) -> Result<(), FaultKind> {
        let failed = |error: String| FaultKind::Vault(error);
        let before = self.read()?.mark;
        let _turn = self.turn.lock().map_err(|e| failed(e.to_string()))?;
        let mut rng = random().map_err(|e| failed(e.to_string()))?;
        let sealed = self.key().seal(HEADER, contents, &mut rng);
        // The contents first: with a mark that is ahead of them they would count as an old backup.
        replace(&self.contents(), &[&sealed]).map_err(unusable(&self.contents()))?;
        let mark = mark.max(before).to_be_bytes();
        replace(&self.mark(), &[&mark]).map_err(unusable(&self.mark()))
    }
}

/// The error of a file that cannot be used.
fn unusable(path: &Path) -> impl FnOnce(std::io::Error) -> FaultKind {
    let path = path.display().to_string();
    move |error| FaultKind::Vault(format!("{path}: {error}"))
}
