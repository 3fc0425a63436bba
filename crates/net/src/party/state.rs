//! What a party must not forget: which rounds it took part in, with whom, and, sealed under a key of
//! its own, the machine of the round under way. With it a killed party goes on in the same round and
//! says nothing twice; without it, it never comes back to a round it was in.

use std::fs::{self, File, TryLockError};
use std::io::Read;
use std::path::{Path, PathBuf};

use blindsum_crypto::kdf::{self, Context};
use blindsum_crypto::seal::StorageKey;
use blindsum_crypto::secret::Secret;
use blindsum_crypto::sign::IdentityKey;
use serde::{Deserialize, Serialize};

use super::durable::replace;
use super::policy::Cohort;
use crate::NetError;

/// Cohorts that are remembered, the latest ones.
const COHORTS: usize = 256;

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Memory {
    /// Hash of the job specification, in hexadecimal digits; a job of the same name with another one
    /// is another job.
    pub job_hash: String,
    /// The last round that was answered with a Ready: it and all before it are never joined again.
    pub last_round: u64,
    /// The round under way.
    pub live: Option<Live>,
    /// Different cohorts of rounds that were taken part in, oldest first.
    pub cohorts: Vec<Cohort>,
}

/// A round under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Live {
    pub round: u64,
    pub nonce: [u8; 32],
    /// How many messages of the coordinator were answered.
    pub answered: u32,
    /// Whether something was said in the round: the machine's snapshot follows.
    pub begun: bool,
}

impl Memory {
    /// Remembers a cohort.
    pub fn add_cohort(&mut self, cohort: Cohort) {
        if self.cohorts.contains(&cohort) {
            return;
        }
        if self.cohorts.len() >= COHORTS {
            self.cohorts.remove(0);
        }
        self.cohorts.push(cohort);
    }
}

/// The file of one job in a party's state folder. While it is open no other process can use it.
pub(crate) struct StateFile {
    folder: PathBuf,
    file: PathBuf,
    key: StorageKey,
    _lock: File,
}

impl StateFile {
    /// Opens or makes `folder/job`, and reads what it remembers: the memory and the snapshot.
    pub fn open(
        folder: &Path,
        job: &str,
        identity: &IdentityKey,
    ) -> Result<(Self, Memory, Vec<u8>), NetError> {
        let folder = folder.join(job);
        let failed = |path: &Path, reason: String| NetError::State {
            path: path.to_owned(),
            reason,
        };
        fs::create_dir_all(&folder).map_err(|e| failed(&folder, e.to_string()))?;
        let lock_path = folder.join("lock");
        let lock = File::create(&lock_path).map_err(|e| failed(&lock_path, e.to_string()))?;
        lock.try_lock().map_err(|error| {
            let reason = match error {
                TryLockError::WouldBlock => {
                    "another process takes part in this job with it".to_owned()
                }
                TryLockError::Error(error) => error.to_string(),
            };
            failed(&folder, reason)
        })?;
        let file = folder.join("state");
        let state = Self {
            key: storage_key(identity)?,
            folder,
            file,
            _lock: lock,
        };
        let (memory, snapshot) = match File::open(&state.file) {
            Ok(mut open) => {
                let mut bytes = Vec::new();
                open.read_to_end(&mut bytes)
                    .map_err(|e| failed(&state.file, e.to_string()))?;
                read_state(&bytes).ok_or_else(|| {
                    let reason = "damaged; to go on without it, and never again in a round it was \
                                  in, leave the job and join under a new one";
                    failed(&state.file, reason.into())
                })?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Default::default(),
            Err(error) => return Err(failed(&state.file, error.to_string())),
        };
        Ok((state, memory, snapshot))
    }

    /// The folder that it lies in, for other files of the job.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The key that snapshots are sealed with.
    pub fn key(&self) -> &StorageKey {
        &self.key
    }

    /// Writes the state so that it survives a crash from the moment this returns.
    pub fn write(&self, memory: &Memory, snapshot: &[u8]) -> Result<(), NetError> {
        let write = || -> std::io::Result<()> {
            let header = serde_json::to_vec(memory)?;
            let length = (header.len() as u64).to_le_bytes();
            replace(&self.file, &[&length, &header, snapshot])
        };
        write().map_err(|error| NetError::State {
            path: self.file.clone(),
            reason: error.to_string(),
        })
    }
}

fn read_state(bytes: &[u8]) -> Option<(Memory, Vec<u8>)> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (header, snapshot) = rest.split_at_checked(length)?;
    let memory: Memory = serde_json::from_slice(header).ok()?;
    Some((memory, snapshot.to_vec()))
}

/// A key that only the holder of the identity key has.
fn storage_key(identity: &IdentityKey) -> Result<StorageKey, NetError> {
    let pem = identity.to_pem()?;
    let secret = Secret::<32>::from(kdf::hash("blindsum identity", &[pem.as_bytes()]));
    let key = kdf::derive32(&secret, &Context([0; 32]), "party state", &[]);
    Ok(StorageKey::from(key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blindsum_crypto::sign::Algorithm;

    fn identity() -> IdentityKey {
        IdentityKey::generate(Algorithm::Ed25519, &mut crate::system::random().unwrap()).unwrap()
    }

    #[test]
    fn what_is_written_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let identity = identity();
        let (state, memory, snapshot) = StateFile::open(folder.path(), "j", &identity).unwrap();
        assert_eq!((memory, snapshot.len()), (Memory::default(), 0));
        let mut memory = Memory {
            last_round: 7,
            ..Memory::default()
        };
        memory.add_cohort(["a".to_owned(), "b".to_owned()].into());
        memory.add_cohort(["a".to_owned(), "b".to_owned()].into());
        state.write(&memory, b"sealed").unwrap();
        drop(state);
        let (_state, again, snapshot) = StateFile::open(folder.path(), "j", &identity).unwrap();
        assert_eq!(again, memory);
        assert_eq!(again.cohorts.len(), 1);
        assert_eq!(snapshot, b"sealed");
    }

    #[test]
    fn two_processes_cannot_use_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        let identity = identity();
        let _open = StateFile::open(folder.path(), "j", &identity).unwrap();
        let Err(error) = StateFile::open(folder.path(), "j", &identity) else {
            panic!("opened twice");
        };
        assert!(error.to_string().contains("another process"), "{error}");
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("j")).unwrap();
        fs::write(folder.path().join("j/state"), b"nonsense").unwrap();
        let Err(error) = StateFile::open(folder.path(), "j", &identity()) else {
            panic!("a damaged file was read");
        };
        assert!(error.to_string().contains("damaged"), "{error}");
    }
}
