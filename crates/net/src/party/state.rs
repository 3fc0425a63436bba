//! What a party must not forget: which rounds it took part in and, once its vector is out, sealed under a key of
//! its own, the machine of the round under way (its model lies beside it: `kept.rs`). With both a killed party goes on
//! in the same round and says nothing twice; without them it never comes back to a round it was in.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use blindsum_crypto::kdf::{self, Context};
use blindsum_crypto::seal::StorageKey;
use blindsum_crypto::secret::Secret;
use blindsum_crypto::sign::IdentityKey;
use serde::{Deserialize, Serialize};

use super::durable;
use crate::NetError;
use crate::error::hex;

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Memory {
    /// The last round that was answered with a Ready: it and all before it are never joined again. In a file, the
    /// last one in which something was said.
    pub last_round: u64,
    /// The round under way. In a file only with the machine's snapshot: nothing else could go on in it.
    pub live: Option<Live>,
}

/// A round under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Live {
    pub round: u64,
    /// How many messages of the coordinator were answered.
    pub answered: u32,
}

/// What a party's state folder has under one job name: a folder for every job specification that came under
/// it, so that nothing of one job is lost where another one takes its name. While it is open no other process
/// can use it.
pub(crate) struct JobFolder {
    path: PathBuf,
    key: StorageKey,
    _lock: File,
}

/// The file of one job, with its contents.
pub(crate) struct Opened {
    pub state: StateFile,
    pub memory: Memory,
    /// The machine of the round under way, sealed.
    pub snapshot: Vec<u8>,
}

/// The file of one job.
pub(crate) struct StateFile {
    folder: PathBuf,
    file: PathBuf,
    of: Arc<JobFolder>,
}

impl JobFolder {
    /// Opens or makes `folder/job`.
    pub fn open(folder: &Path, job: &str, identity: &IdentityKey) -> Result<Arc<Self>, NetError> {
        let path = folder.join(job);
        fs::create_dir_all(&path).map_err(|e| failed(&path, e.to_string()))?;
        let lock_path = path.join("lock");
        let lock = File::create(&lock_path).map_err(|e| failed(&lock_path, e.to_string()))?;
        lock.try_lock().map_err(|error| {
            let reason = match error {
                TryLockError::WouldBlock => {
                    "another process takes part in this job with it".to_owned()
                }
                TryLockError::Error(error) => error.to_string(),
            };
            failed(&path, reason)
        })?;
        Ok(Arc::new(Self {
            path,
            key: storage_key(identity)?,
            _lock: lock,
        }))
    }

    /// The file of the parties of earlier sums, by the fingerprint of the CA.
    pub fn sums(&self, ca: &[u8; 32]) -> PathBuf {
        self.path.join(format!("sums-{}", hex(ca)))
    }

    /// What is remembered of the job that was taken part in last; nothing if there was none.
    pub fn last(self: &Arc<Self>) -> Result<Memory, NetError> {
        let path = self.path.join("last");
        let name = durable::read(&path).map_err(|e| failed(&path, e.to_string()))?;
        let Some(name) = name else {
            return Ok(Memory::default());
        };
        let name = String::from_utf8(name).ok().filter(|name| is_hash(name));
        let name = name.ok_or_else(|| failed(&path, "damaged; remove it".into()))?;
        Ok(self.read(&name)?.memory)
    }

    /// Opens or makes the folder of a job, by the hash of its specification.
    pub fn enter(self: &Arc<Self>, job_hash: &[u8; 32]) -> Result<Opened, NetError> {
        let name = hex(job_hash);
        let folder = self.path.join(&name);
        fs::create_dir_all(&folder).map_err(|e| failed(&folder, e.to_string()))?;
        let last = self.path.join("last");
        durable::replace(&last, &[name.as_bytes()]).map_err(|e| failed(&last, e.to_string()))?;
        self.read(&name)
    }

    fn read(self: &Arc<Self>, name: &str) -> Result<Opened, NetError> {
        let folder = self.path.join(name);
        let file = folder.join("state");
        let bytes = durable::read(&file).map_err(|e| failed(&file, e.to_string()))?;
        let (memory, snapshot) = match bytes {
            None => Default::default(),
            Some(bytes) => read_state(&bytes).ok_or_else(|| {
                let reason = "damaged, or of another version of Blindsum; to go on without it, and never again in a round it was in, \
                              leave the job and join under a new one";
                failed(&file, reason.into())
            })?,
        };
        let state = StateFile {
            folder,
            file,
            of: self.clone(),
        };
        Ok(Opened {
            state,
            memory,
            snapshot,
        })
    }
}

impl StateFile {
    /// The folder that it lies in, for other files of the job.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The key that snapshots are sealed with.
    pub fn key(&self) -> &StorageKey {
        &self.of.key
    }

    /// Writes the state so that it survives a crash from the moment this returns.
    ///
    /// Whatever is in a file may come back later, when more was said since. So nothing with which a party could
    /// encrypt, mask or seal a second time is ever written: no nonce, on which the keys of a round depend, and no
    /// machine that still has its vector before it.
    pub fn write(&self, memory: &Memory, snapshot: Option<&[u8]>) -> Result<(), NetError> {
        let memory = Memory {
            live: memory.live.clone().filter(|_| snapshot.is_some()),
            ..memory.clone()
        };
        let snapshot = snapshot.unwrap_or_default();
        let write = || -> std::io::Result<()> {
            let header = serde_json::to_vec(&memory)?;
            let length = (header.len() as u64).to_le_bytes();
            durable::replace(&self.file, &[&length, &header, snapshot])
        };
        write().map_err(|error| failed(&self.file, error.to_string()))
    }
}

/// Whether this is a hash in hexadecimal digits: nothing else is made a part of a path.
fn is_hash(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn failed(path: &Path, reason: String) -> NetError {
    NetError::State {
        path: path.to_owned(),
        reason,
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

    fn open(folder: &Path, identity: &IdentityKey) -> Result<Arc<JobFolder>, NetError> {
        JobFolder::open(folder, "j", identity)
    }

    #[test]
    fn what_is_written_is_there_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let identity = identity();
        let job = open(folder.path(), &identity).unwrap();
        assert_eq!(job.last().unwrap(), Memory::default());
        let opened = job.enter(&[1; 32]).unwrap();
        assert_eq!(
            (opened.memory, opened.snapshot.len()),
            (Memory::default(), 0)
        );
        let memory = Memory {
            last_round: 7,
            ..Memory::default()
        };
        opened.state.write(&memory, Some(b"sealed")).unwrap();
        drop((opened.state, job));
        let job = open(folder.path(), &identity).unwrap();
        assert_eq!(job.last().unwrap(), memory);
        let again = job.enter(&[1; 32]).unwrap();
        assert_eq!(again.memory, memory);
        assert_eq!(again.snapshot, b"sealed");
    }

    #[test]
    fn a_round_under_way_is_written_with_its_machine_only() {
        let folder = tempfile::tempdir().unwrap();
        let job = open(folder.path(), &identity()).unwrap();
        let opened = job.enter(&[1; 32]).unwrap();
        let (round, answered) = (7, 2);
        let memory = Memory {
            last_round: round,
            live: Some(Live { round, answered }),
        };
        opened.state.write(&memory, Some(b"sealed")).unwrap();
        assert_eq!(job.last().unwrap(), memory);
        opened.state.write(&memory, None).unwrap();
        assert_eq!(job.last().unwrap().live, None);
        assert_eq!(job.last().unwrap().last_round, 7);
    }

    #[test]
    fn another_job_of_the_same_name_takes_nothing_away() {
        let folder = tempfile::tempdir().unwrap();
        let job = open(folder.path(), &identity()).unwrap();
        let memory = |last_round| Memory {
            last_round,
            ..Memory::default()
        };
        for number in 1..=2 {
            let opened = job.enter(&[number; 32]).unwrap();
            assert_eq!(opened.memory, Memory::default());
            opened.state.write(&memory(number.into()), None).unwrap();
            assert_eq!(job.last().unwrap(), memory(number.into()));
        }
        assert_eq!(job.enter(&[1; 32]).unwrap().memory, memory(1));
        assert_eq!(job.last().unwrap(), memory(1));
    }

    #[test]
    fn two_processes_cannot_use_one_folder() {
        let folder = tempfile::tempdir().unwrap();
        let identity = identity();
        let opened = open(folder.path(), &identity).unwrap().enter(&[1; 32]);
        let refused = || open(folder.path(), &identity).err().map(|e| e.to_string());
        let error = refused().unwrap();
        assert!(error.contains("another process"), "{error}");
        drop(opened);
        assert_eq!(refused(), None);
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let job = open(folder.path(), &identity()).unwrap();
        let opened = job.enter(&[1; 32]).unwrap();
        fs::write(opened.state.folder().join("state"), b"nonsense").unwrap();
        let error = job.enter(&[1; 32]).err().unwrap().to_string();
        assert!(error.contains("damaged"), "{error}");
        fs::write(folder.path().join("j/last"), b"../../elsewhere").unwrap();
        let error = job.last().unwrap_err().to_string();
        assert!(error.contains("last: damaged"), "{error}");
    }
}
