//! Named records for what a party must not forget. A host provides them, wherever it keeps them.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use blindsum_crypto::kdf::{self, Context};
use blindsum_crypto::seal::StorageKey;
use blindsum_crypto::secret::Secret;
use blindsum_crypto::sign::IdentityKey;
use prost::Message as _;
use rand_core::CryptoRng;

use crate::JobError;

/// Records by name. A name consists of lowercase letters, digits, `-` and at most one `/`.
///
/// Calls may wait for a disk: a machine makes them in its tasks.
pub trait Records: Send + Sync {
    /// Where the records are, for messages to people.
    fn place(&self) -> &Path;

    /// The contents of a record; `None` if it does not exist.
    ///
    /// # Errors
    /// Reading failed.
    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>>;

    /// Makes or replaces a record. Its contents are these pieces, one after the other. When this returns, they survive
    /// a crash; after a crash before that, the record has the old contents or the new ones.
    ///
    /// # Errors
    /// Writing failed.
    fn replace(&self, name: &str, pieces: &[&[u8]]) -> io::Result<()>;

    /// Removes a record, if it is there.
    ///
    /// # Errors
    /// Writing failed.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// A secret that only the holder of the identity key has.
pub(crate) fn root_secret(identity: &IdentityKey) -> Result<Secret<32>, JobError> {
    let pem = identity.to_pem()?;
    Ok(Secret::from(kdf::hash(
        "blindsum identity",
        &[pem.as_bytes()],
    )))
}

/// The key that only the holder of the identity key has.
pub(crate) fn storage_key(identity: &IdentityKey) -> Result<StorageKey, JobError> {
    let secret = root_secret(identity)?;
    let key = kdf::derive32(&secret, &Context([0; 32]), "party state", &[]);
    Ok(StorageKey::from(key))
}

/// What is authenticated with records in one piece.
const HEADER: &[u8] = b"blindsum records 1";

/// Records in one piece.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct AllRecords {
    #[prost(btree_map = "string, bytes", tag = "1")]
    records: BTreeMap<String, Vec<u8>>,
}

/// Records in memory. A host that keeps state by itself takes a [`snapshot`](Self::snapshot) after each message, and
/// begins with it again. Secrets in the records are sealed.
pub struct MemoryRecords {
    place: PathBuf,
    records: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Default for MemoryRecords {
    fn default() -> Self {
        Self::of(BTreeMap::new())
    }
}

impl MemoryRecords {
    /// The records of an earlier [`snapshot`](Self::snapshot).
    pub fn of(records: BTreeMap<String, Vec<u8>>) -> Self {
        Self {
            place: "memory".into(),
            records: Mutex::new(records),
        }
    }

    /// All records as one sealed piece, for a host that keeps them wherever it likes. Only the holder of this identity
    /// key can open it.
    ///
    /// # Errors
    /// The key cannot be used.
    pub fn seal(
        &self,
        identity: &IdentityKey,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<u8>, JobError> {
        let records = self.snapshot();
        let all = AllRecords { records }.encode_to_vec();
        Ok(storage_key(identity)?.seal(HEADER, &all, rng))
    }

    /// Opens what [`seal`](Self::seal) gave.
    ///
    /// # Errors
    /// They are damaged, or of another party.
    pub fn unseal(identity: &IdentityKey, sealed: &[u8]) -> Result<Self, JobError> {
        let place = PathBuf::from("memory");
        let damaged = || JobError::State {
            path: place.clone(),
            reason: "the state is damaged, or another party's".into(),
        };
        let all = storage_key(identity)?.open(HEADER, sealed);
        let all = AllRecords::decode(&all.map_err(|_| damaged())?[..]);
        Ok(Self::of(all.map_err(|_| damaged())?.records))
    }

    /// A copy of all records.
    pub fn snapshot(&self) -> BTreeMap<String, Vec<u8>> {
        self.records().clone()
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Records for MemoryRecords {
    fn place(&self) -> &Path {
        &self.place
    }

    fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(self.records().get(name).cloned())
    }

    fn replace(&self, name: &str, pieces: &[&[u8]]) -> io::Result<()> {
        self.records().insert(name.into(), pieces.concat());
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.records().remove(name);
        Ok(())
    }
}
