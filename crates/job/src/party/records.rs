//! What a party must not forget: the rounds in which it took part and, once its vector is sent, the machine of the
//! round under way, sealed under a key of its own (the model is in another record: `saving.rs`). With both, a killed
//! party goes on in the same round and says nothing twice. Without them it never comes back to a round that it was in.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use blindsum_crypto::certificate::UnixSeconds;
use blindsum_crypto::seal::StorageKey;
use blindsum_crypto::sign::IdentityKey;
use serde::{Deserialize, Serialize};

use super::draws::Draws;
use crate::records::{Records, storage_key};
use crate::{JobError, hex};

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Memory {
    /// The last round that was answered with a Ready: it and all before it are never joined again. In a record, the
    /// last one in which something was said.
    pub last_round: u64,
    /// The round under way. In a record only with the machine's snapshot: nothing else could go on in it.
    pub live: Option<Live>,
    /// The graphs that were drawn with this party's nonces.
    #[serde(default)]
    pub draws: Draws,
}

/// A round under way.
#[derive(Clone, PartialEq, Serialize, Deserialize, prost::Message)]
#[serde(deny_unknown_fields)]
pub(crate) struct Live {
    #[prost(uint64, tag = "1")]
    pub round: u64,
    /// The stage behind that of the coordinator's latest message that was heard.
    #[prost(uint32, tag = "2")]
    pub answered: u32,
    /// When the certificates of its members were checked. Those that end while it is under way count to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[prost(uint64, optional, tag = "3")]
    pub certified: Option<UnixSeconds>,
    /// Whether it only gives parties the key of the job: no update is in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[prost(bool, tag = "4")]
    pub key_setup: bool,
}

impl Memory {
    /// The round under way, if it has this number.
    pub fn live_in(&mut self, round: u64) -> Option<&mut Live> {
        self.live.as_mut().filter(|live| live.round == round)
    }
}

impl Live {
    /// A round in which nothing has happened.
    pub fn of(round: u64) -> Self {
        Self {
            round,
            ..Self::default()
        }
    }
}

/// What a party remembers under one job name: records for every job specification that came under it, so that nothing
/// of one job is lost where another one takes its name.
pub(crate) struct JobFolder {
    records: Arc<dyn Records>,
    key: StorageKey,
}

/// The records of one job, with what they tell of its rounds.
pub(crate) struct OpenedRecords {
    pub state: JobRecords,
    pub memory: Memory,
    /// The machine of the round under way, sealed.
    pub snapshot: Vec<u8>,
}

/// The records of one job, by the hash of its specification.
pub(crate) struct JobRecords {
    name: String,
    of: Arc<JobFolder>,
}

impl JobFolder {
    /// What these records remember of a party.
    pub fn new(records: Arc<dyn Records>, identity: &IdentityKey) -> Result<Arc<Self>, JobError> {
        let key = storage_key(identity)?;
        Ok(Arc::new(Self { records, key }))
    }

    /// The key that everything secret in the records is sealed with.
    pub fn key(&self) -> &StorageKey {
        &self.key
    }

    /// What is remembered of the job that was taken part in last; nothing if there was none.
    pub fn last(self: &Arc<Self>) -> Result<Memory, JobError> {
        let Some(name) = read(&*self.records, "last")? else {
            return Ok(Memory::default());
        };
        let name = String::from_utf8(name).ok().filter(|name| is_hash(name));
        let damaged = || failed(&*self.records, "last", "damaged; remove it");
        Ok(self.open(&name.ok_or_else(damaged)?)?.memory)
    }

    /// Opens or makes the records of a job, by the hash of its specification.
    pub fn enter(self: &Arc<Self>, job_hash: &[u8; 32]) -> Result<OpenedRecords, JobError> {
        let name = hex(job_hash);
        let last = self.records.replace("last", &[name.as_bytes()]);
        last.map_err(|error| failed(&*self.records, "last", error))?;
        self.open(&name)
    }

    /// The records of a job, by the hash of its specification; nothing is read or written yet.
    pub fn records_of(self: &Arc<Self>, job_hash: &[u8; 32]) -> JobRecords {
        self.named(hex(job_hash))
    }

    fn named(self: &Arc<Self>, name: String) -> JobRecords {
        let of = self.clone();
        JobRecords { name, of }
    }

    fn open(self: &Arc<Self>, name: &str) -> Result<OpenedRecords, JobError> {
        let state = self.named(name.into());
        let (memory, snapshot) = match state.read("state")? {
            None => Default::default(),
            Some(bytes) => read_state(&bytes).ok_or_else(|| {
                let reason = "damaged, or of another version of Blindsum; to go on without it, and never again in a round it was in, \
                              leave the job and join under a new one";
                state.failed("state", reason)
            })?,
        };
        Ok(OpenedRecords {
            state,
            memory,
            snapshot,
        })
    }
}

impl JobRecords {
    /// Where the records lie, for messages.
    pub fn place(&self) -> PathBuf {
        self.of.records.place().join(&self.name)
    }

    /// The key that everything secret in the records is sealed with.
    pub fn key(&self) -> &StorageKey {
        &self.of.key
    }

    /// One record of the job.
    pub fn read(&self, record: &str) -> Result<Option<Vec<u8>>, JobError> {
        read(&*self.of.records, &self.of_job(record))
    }

    /// Makes or replaces one record of the job. When this returns it survives a crash.
    pub fn replace(&self, record: &str, pieces: &[&[u8]]) -> Result<(), JobError> {
        let replaced = self.of.records.replace(&self.of_job(record), pieces);
        replaced.map_err(|error| self.failed(record, error))
    }

    /// Removes one record of the job, if it is there.
    pub fn remove(&self, record: &str) -> Result<(), JobError> {
        let removed = self.of.records.remove(&self.of_job(record));
        removed.map_err(|error| self.failed(record, error))
    }

    /// The error of a record that cannot be used.
    pub fn failed(&self, record: &str, reason: impl Display) -> JobError {
        failed(&*self.of.records, &self.of_job(record), reason)
    }

    fn of_job(&self, record: &str) -> String {
        format!("{}/{record}", self.name)
    }

    /// Writes the state so that it survives a crash from the moment this returns.
    ///
    /// Whatever is in a record may come back later, when more was said since. So nothing with which a party could
    /// encrypt, mask or seal a second time is ever written: no nonce, on which the keys of a round depend, and no
    /// machine that still has its vector before it.
    pub fn write(&self, memory: &Memory, snapshot: Option<&[u8]>) -> Result<(), JobError> {
        let memory = Memory {
            live: memory.live.clone().filter(|_| snapshot.is_some()),
            ..memory.clone()
        };
        let snapshot = snapshot.unwrap_or_default();
        let header = serde_json::to_vec(&memory).map_err(|error| self.failed("state", error))?;
        let length = (header.len() as u64).to_le_bytes();
        self.replace("state", &[&length, &header, snapshot])
    }
}

/// One record.
pub(super) fn read(records: &dyn Records, name: &str) -> Result<Option<Vec<u8>>, JobError> {
    records.read(name).map_err(|e| failed(records, name, e))
}

/// The error of a record that cannot be used.
pub(super) fn failed(records: &dyn Records, name: &str, reason: impl Display) -> JobError {
    JobError::State {
        path: records.place().join(name),
        reason: reason.to_string(),
    }
}

/// Whether this is a hash in hexadecimal digits: nothing else is made a part of a name.
fn is_hash(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn read_state(bytes: &[u8]) -> Option<(Memory, Vec<u8>)> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (header, snapshot) = rest.split_at_checked(length)?;
    let memory: Memory = serde_json::from_slice(header).ok()?;
    Some((memory, snapshot.to_vec()))
}

#[cfg(test)]
pub(super) mod tests {
    use blindsum_crypto::sign::Algorithm;

    use super::*;
    use crate::records::MemoryRecords;
    use crate::testing::rng;

    fn open(records: &Arc<MemoryRecords>) -> Arc<JobFolder> {
        let identity = IdentityKey::generate(Algorithm::Ed25519, &mut rng(1)).unwrap();
        JobFolder::new(records.clone(), &identity).unwrap()
    }

    /// The records of a new job.
    pub fn state() -> Arc<JobRecords> {
        let opened = open(&Arc::default()).enter(&[1; 32]).unwrap();
        Arc::new(opened.state)
    }

    #[test]
    fn what_is_written_is_there_after_a_restart() {
        let records = Arc::default();
        let job = open(&records);
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
        let job = open(&records);
        assert_eq!(job.last().unwrap(), memory);
        let again = job.enter(&[1; 32]).unwrap();
        assert_eq!(again.memory, memory);
        assert_eq!(again.snapshot, b"sealed");
    }

    #[test]
    fn a_round_under_way_is_written_with_its_machine_only() {
        let job = open(&Arc::default());
        let opened = job.enter(&[1; 32]).unwrap();
        let memory = Memory {
            last_round: 7,
            live: Some(Live {
                answered: 2,
                certified: Some(1_800_000_000),
                ..Live::of(7)
            }),
            ..Memory::default()
        };
        opened.state.write(&memory, Some(b"sealed")).unwrap();
        assert_eq!(job.last().unwrap(), memory);
        opened.state.write(&memory, None).unwrap();
        assert_eq!(job.last().unwrap().live, None);
        assert_eq!(job.last().unwrap().last_round, 7);
    }

    #[test]
    fn another_job_of_the_same_name_takes_nothing_away() {
        let job = open(&Arc::default());
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
    fn a_damaged_record_is_refused() {
        let records = Arc::<MemoryRecords>::default();
        let job = open(&records);
        let opened = job.enter(&[1; 32]).unwrap();
        opened.state.replace("state", &[b"nonsense"]).unwrap();
        let error = job.enter(&[1; 32]).err().unwrap().to_string();
        assert!(error.contains("damaged"), "{error}");
        records.replace("last", &[b"../../elsewhere"]).unwrap();
        let error = job.last().unwrap_err().to_string();
        assert!(error.contains("last: damaged"), "{error}");
    }
}
