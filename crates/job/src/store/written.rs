//! The job of a store in memory as bytes, for a host that writes it to disk by itself.

use std::collections::BTreeMap;

use blindsum_protocol::{Evidence, Job};
use bytes::Bytes;
use prost::Message as _;

use super::memory::{Happened, Kept, MemoryStore, failed};
use super::{Ending, ShownFault, other_spec};
use crate::report::{JobState, RoundReport};
use crate::{Model, StoreError, pb};

/// The form of this version.
const VERSION: u32 = 1;

/// A job.
#[derive(Clone, PartialEq, prost::Message)]
struct StoredBytes {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(bytes = "vec", tag = "2")]
    spec_hash: Vec<u8>,
    /// JSON.
    #[prost(string, tag = "3")]
    state: String,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(message, repeated, tag = "5")]
    models: Vec<StoredModel>,
    /// Each in JSON.
    #[prost(string, repeated, tag = "6")]
    rounds: Vec<String>,
    #[prost(message, optional, tag = "7")]
    ending: Option<StoredEnding>,
    #[prost(message, repeated, tag = "8")]
    events: Vec<StoredEvent>,
    #[prost(message, repeated, tag = "9")]
    faults: Vec<StoredFault>,
    /// Rounds that gave a sum and are not among the others any more.
    #[prost(uint64, tag = "10")]
    done_before: u64,
    #[prost(bytes = "vec", tag = "11")]
    conduct: Vec<u8>,
    /// Results that servers have begun to open, each in JSON.
    #[prost(string, repeated, tag = "12")]
    released: Vec<String>,
    #[prost(bytes = "vec", tag = "13")]
    operator: Vec<u8>,
    /// Each in JSON.
    #[prost(string, repeated, tag = "14")]
    orders: Vec<String>,
    /// The specification in JSON; empty in bytes of an earlier version.
    #[prost(string, tag = "15")]
    spec: String,
    #[prost(string, tag = "16")]
    model_from: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StoredModel {
    #[prost(uint64, tag = "1")]
    version: u64,
    #[prost(bytes = "vec", tag = "2")]
    hash: Vec<u8>,
    #[prost(bool, tag = "3")]
    hidden: bool,
    #[prost(bytes = "vec", tag = "4")]
    stored: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StoredEnding {
    #[prost(message, optional, tag = "1")]
    start: Option<pb::RoundStart>,
    #[prost(uint32, tag = "2")]
    stage: u32,
    #[prost(bytes = "vec", tag = "3")]
    message: Vec<u8>,
    #[prost(message, optional, tag = "4")]
    done: Option<pb::RoundDone>,
    #[prost(btree_map = "string, bool", tag = "5")]
    survivors: BTreeMap<String, bool>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StoredEvent {
    #[prost(uint64, tag = "1")]
    round: u64,
    #[prost(string, tag = "2")]
    kind: String,
    #[prost(string, tag = "3")]
    detail: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct StoredFault {
    #[prost(uint64, tag = "1")]
    round: u64,
    #[prost(string, tag = "2")]
    culprit: String,
    #[prost(string, optional, tag = "3")]
    accuser: Option<String>,
    #[prost(string, tag = "4")]
    what: String,
    /// What is kept of it, and how long it was.
    #[prost(bytes = "bytes", tag = "5")]
    evidence: Bytes,
    #[prost(uint64, tag = "6")]
    length: u64,
    /// 0 of an earlier version means once.
    #[prost(uint64, tag = "7")]
    times: u64,
}

impl MemoryStore {
    /// All that is in the store about a job; `None` if the job is unknown.
    ///
    /// # Errors
    /// The job cannot be written as bytes.
    pub fn to_bytes(&self, job: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let kept = self.read(job, Kept::clone);
        kept.map(|kept| kept.to_bytes()).transpose()
    }

    /// A store with one job, from its bytes. It keeps the latest `models_kept` versions of the job's model, and
    /// the best one.
    ///
    /// # Errors
    /// The bytes are damaged, or of another job.
    pub fn from_bytes(job: &Job, bytes: &[u8], models_kept: u32) -> Result<Self, StoreError> {
        let stored = StoredBytes::decode(bytes).map_err(damaged)?;
        if stored.version != VERSION {
            let (other, known) = (stored.version, VERSION);
            return Err(damaged(format!("form {other}, this program reads {known}")));
        }
        if stored.spec_hash != job.hash() {
            return Err(other_spec(job, &stored.spec_hash, &stored.spec));
        }
        let kept = Kept::from_stored(job, stored)?;
        let store = Self::new(models_kept);
        store.jobs().insert(job.spec().job.clone(), kept);
        Ok(store)
    }
}

fn damaged(reason: impl ToString) -> StoreError {
    StoreError::Corrupt {
        path: "in memory".into(),
        reason: reason.to_string(),
    }
}

impl Kept {
    fn to_bytes(&self) -> Result<Vec<u8>, StoreError> {
        let json = |error: serde_json::Error| failed(error.to_string());
        let rounds = self.rounds.values().map(serde_json::to_string);
        let released = self.released.iter().map(serde_json::to_string);
        let orders = self.orders.iter().map(serde_json::to_string);
        let stored = StoredBytes {
            version: VERSION,
            spec_hash: self.spec_hash.to_vec(),
            state: serde_json::to_string(&self.state).map_err(json)?,
            reason: self.reason.clone(),
            models: self.models.values().map(StoredModel::of).collect(),
            rounds: rounds.collect::<Result<_, _>>().map_err(json)?,
            ending: self.ending.as_ref().map(StoredEnding::of),
            events: self.events.iter().map(StoredEvent::of).collect(),
            faults: self.faults.iter().map(StoredFault::of).collect(),
            done_before: self.done_before,
            conduct: self.conduct.clone(),
            released: released.collect::<Result<_, _>>().map_err(json)?,
            operator: self.operator.clone(),
            orders: orders.collect::<Result<_, _>>().map_err(json)?,
            spec: self.spec.clone(),
            model_from: self.model_from.clone(),
        };
        Ok(stored.encode_to_vec())
    }

    fn from_stored(job: &Job, stored: StoredBytes) -> Result<Self, StoreError> {
        let state: JobState = serde_json::from_str(&stored.state).map_err(damaged)?;
        let models = stored.models.iter().map(|model| model.read(job));
        let rounds = stored.rounds.iter().map(|report| {
            let report: RoundReport = serde_json::from_str(report).map_err(damaged)?;
            Ok((report.number, report))
        });
        let released = stored.released.iter();
        let released = released.map(|release| serde_json::from_str(release).map_err(damaged));
        let orders = stored.orders.iter();
        let orders = orders.map(|order| serde_json::from_str(order).map_err(damaged));
        Ok(Self {
            spec_hash: *job.hash(),
            state,
            reason: stored.reason,
            models: models.collect::<Result<_, _>>()?,
            rounds: rounds.collect::<Result<_, StoreError>>()?,
            ending: stored.ending.map(StoredEnding::read).transpose()?,
            events: stored.events.into_iter().map(StoredEvent::read).collect(),
            faults: stored.faults.into_iter().map(StoredFault::read).collect(),
            done_before: stored.done_before,
            conduct: stored.conduct,
            released: released.collect::<Result<_, _>>()?,
            operator: stored.operator,
            orders: orders.collect::<Result<_, StoreError>>()?,
            spec: stored.spec,
            model_from: stored.model_from,
        })
    }
}

impl StoredModel {
    fn of(model: &Model) -> Self {
        Self {
            version: model.version(),
            hash: model.hash().to_vec(),
            hidden: model.is_hidden(),
            stored: model.to_stored().into(),
        }
    }

    fn read(&self, job: &Job) -> Result<(u64, Model), StoreError> {
        let (version, hash) = (self.version, &self.hash);
        let model = match self.hidden {
            true => Model::hidden_from_stored(version, hash, &self.stored)
                .ok_or_else(|| damaged(format!("the name of model version {version}"))),
            false => Model::from_bytes(job, version, &self.stored, hash).map_err(damaged),
        };
        Ok((version, model?))
    }
}

impl StoredEnding {
    fn of(ending: &Ending) -> Self {
        let survivors = ending.survivors.iter();
        Self {
            start: Some(ending.start.clone()),
            stage: ending.stage.into(),
            message: ending.message.to_vec(),
            done: Some(ending.done.clone()),
            survivors: survivors
                .map(|(name, told)| (name.to_string(), *told))
                .collect(),
        }
    }

    fn read(self) -> Result<Ending, StoreError> {
        let missing = || damaged("the end of the latest round");
        let survivors = self.survivors.into_iter();
        Ok(Ending {
            start: self.start.ok_or_else(missing)?,
            stage: u8::try_from(self.stage).map_err(damaged)?,
            message: self.message.into(),
            done: self.done.ok_or_else(missing)?,
            survivors: survivors.map(|(name, told)| (name.into(), told)).collect(),
        })
    }
}

impl StoredFault {
    fn of(fault: &ShownFault) -> Self {
        Self {
            round: fault.round,
            culprit: fault.culprit.clone(),
            accuser: fault.accuser.clone(),
            what: fault.what.clone(),
            evidence: fault.evidence.bytes().clone(),
            length: fault.evidence.length(),
            times: fault.times,
        }
    }

    fn read(self) -> ShownFault {
        ShownFault {
            round: self.round,
            culprit: self.culprit,
            accuser: self.accuser,
            what: self.what,
            evidence: Evidence::kept(self.evidence, self.length),
            times: self.times.max(1),
        }
    }
}

impl StoredEvent {
    fn of(event: &Happened) -> Self {
        Self {
            round: event.round,
            kind: event.kind.clone(),
            detail: event.detail.clone(),
        }
    }

    fn read(self) -> Happened {
        Happened {
            round: self.round,
            kind: self.kind,
            detail: self.detail,
        }
    }
}
