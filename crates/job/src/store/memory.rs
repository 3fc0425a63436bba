//! A coordinator's store in memory: for simulations and tests, and for a host that writes it to disk by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blindsum_protocol::Job;

use super::{Ending, FAULTS_KEPT, ORDERS_KEPT, ShownFault, Store, StoredJob, other_spec};
use crate::orders::OrderRecord;
use crate::released::Release;
use crate::report::{JobState, RoundReport, RoundState};
use crate::{Model, StoreError};

/// Reports of rounds that are kept of a job.
const ROUNDS_KEPT: usize = 100;

/// A store that lasts as long as the value. A [`snapshot`](Self::snapshot) of it stands for a restored copy of a file.
pub struct MemoryStore {
    models_kept: u32,
    jobs: Mutex<BTreeMap<String, Kept>>,
}

/// All that is kept of a job.
#[derive(Clone)]
pub(super) struct Kept {
    pub spec_hash: [u8; 32],
    /// In JSON.
    pub spec: String,
    pub state: JobState,
    pub reason: String,
    /// By version; the latest is the current one.
    pub models: BTreeMap<u64, Model>,
    /// The party that gave the first one.
    pub model_from: String,
    /// The latest ones.
    pub rounds: BTreeMap<u64, RoundReport>,
    /// How many of those before gave a sum.
    pub done_before: u64,
    pub ending: Option<Ending>,
    pub released: Vec<Release>,
    pub events: Vec<Happened>,
    pub faults: Vec<ShownFault>,
    pub conduct: Vec<u8>,
    pub operator: Vec<u8>,
    /// The latest ones, oldest first.
    pub orders: Vec<OrderRecord>,
}

/// An event that was recorded by [`Store::event`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// The round.
    pub round: u64,
    /// The kind of event.
    pub kind: String,
    /// The event, for people.
    pub detail: String,
}

impl MemoryStore {
    /// An empty store, which keeps the latest `models_kept` versions of a job's model, at least one, and the best one.
    pub fn new(models_kept: u32) -> Self {
        Self {
            models_kept: models_kept.max(1),
            jobs: Mutex::default(),
        }
    }

    /// A copy of all that is in it now. A coordinator that goes on from the copy has forgotten what came later.
    pub fn snapshot(&self) -> Self {
        Self {
            models_kept: self.models_kept,
            jobs: Mutex::new(self.jobs().clone()),
        }
    }

    /// Where a job stands, and why it failed; `None` if the job is unknown.
    pub fn state(&self, job: &str) -> Option<(JobState, String)> {
        let jobs = self.jobs();
        let kept = jobs.get(job)?;
        Some((kept.state, kept.reason.clone()))
    }

    /// The events of a job, oldest first.
    pub fn events(&self, job: &str) -> Vec<Happened> {
        let jobs = self.jobs();
        jobs.get(job)
            .map_or_else(Vec::new, |kept| kept.events.clone())
    }

    /// The faults of a job that are kept, oldest first.
    pub fn faults(&self, job: &str) -> Vec<ShownFault> {
        let faults = self.read(job, |kept| kept.faults.clone());
        faults.unwrap_or_default()
    }

    pub(super) fn jobs(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is kept of a job, where it is known and the change is possible.
    fn change(
        &self,
        job: &str,
        change: impl FnOnce(&mut Kept) -> Result<(), String>,
    ) -> Result<(), StoreError> {
        let mut jobs = self.jobs();
        let kept = jobs.get_mut(job).ok_or("it is not known here".to_owned());
        kept.and_then(change)
            .map_err(|reason| failed(format!("job {job}: {reason}")))
    }

    pub(super) fn read<T>(&self, job: &str, read: impl FnOnce(&Kept) -> T) -> Option<T> {
        self.jobs().get(job).map(read)
    }
}

pub(super) fn failed(reason: String) -> StoreError {
    let path = "in memory".into();
    StoreError::Io { path, reason }
}

/// By whom it takes room in the store: who says it, or else who did it.
fn author(fault: &ShownFault) -> &String {
    fault.accuser.as_ref().unwrap_or(&fault.culprit)
}

fn gave_sum(report: &RoundReport) -> bool {
    report.state == RoundState::Done && !report.key_setup
}

impl Kept {
    fn new(job: &Job, initial: &Model) -> Self {
        Self {
            spec_hash: *job.hash(),
            spec: serde_json::to_string(job.spec()).unwrap_or_default(),
            state: JobState::Running,
            reason: String::new(),
            models: [(initial.version(), initial.clone())].into(),
            model_from: String::new(),
            rounds: BTreeMap::new(),
            done_before: 0,
            ending: None,
            released: Vec::new(),
            events: Vec::new(),
            faults: Vec::new(),
            conduct: Vec::new(),
            operator: Vec::new(),
            orders: Vec::new(),
        }
    }

    /// Rounds that were under way are aborted; gives their numbers.
    fn interrupt(&mut self) -> Vec<u64> {
        let open = |report: &&mut RoundReport| {
            matches!(report.state, RoundState::Joining | RoundState::Running)
        };
        let interrupted = self.rounds.values_mut().filter(open).map(|report| {
            report.state = RoundState::Aborted;
            report.reason = "the coordinator was restarted".into();
            report.number
        });
        interrupted.collect()
    }

    /// Keeps a fault, as [`Store::fault`] says.
    fn add_fault(&mut self, fault: &ShownFault) {
        let is_same = |kept: &mut ShownFault| {
            fault.accuser.is_some()
                && (&kept.culprit, &kept.accuser) == (&fault.culprit, &fault.accuser)
        };
        let before: u64 = self.faults.extract_if(.., is_same).map(|it| it.times).sum();
        self.faults.push(fault.kept(before));
        let is_claim = fault.accuser.is_some();
        let of_kind = |kept: &&ShownFault| kept.accuser.is_some() == is_claim;
        if self.faults.iter().filter(of_kind).count() <= FAULTS_KEPT {
            return;
        }
        let mut counts: BTreeMap<&String, usize> = BTreeMap::new();
        for kept in self.faults.iter().filter(of_kind) {
            *counts.entry(author(kept)).or_default() += 1;
        }
        let most = counts.values().max().copied();
        let is_most = |kept: &ShownFault| counts.get(author(kept)).copied() == most;
        let oldest = self
            .faults
            .iter()
            // guard: nobody-pushes-out-what-others-did
            .position(|kept| of_kind(&kept) && is_most(kept));
        if let Some(oldest) = oldest {
            self.faults.remove(oldest);
        }
    }

    fn rounds_done(&self) -> u64 {
        self.done_before
            + self
                .rounds
                .values()
                .filter(|report| gave_sum(report))
                .count() as u64
    }
}

impl Store for MemoryStore {
    fn open_job(&self, job: &Job, initial: &Model) -> Result<StoredJob, StoreError> {
        let name = &job.spec().job;
        let mut jobs = self.jobs();
        let kept = jobs
            .entry(name.clone())
            .or_insert_with(|| Kept::new(job, initial));
        if kept.spec_hash != *job.hash() {
            return Err(other_spec(job, &kept.spec_hash, &kept.spec));
        }
        let interrupted = kept.interrupt();
        let current = kept.models.last_key_value();
        let (_, model) = current.ok_or_else(|| failed(format!("job {name}: it has no model")))?;
        Ok(StoredJob {
            model: model.clone(),
            model_from: kept.model_from.clone(),
            state: kept.state,
            rounds_done: kept.rounds_done(),
            next_round: kept.rounds.last_key_value().map_or(1, |(last, _)| last + 1),
            interrupted,
            ending: kept.ending.clone(),
            conduct: kept.conduct.clone(),
            released: kept.released.clone(),
            operator: kept.operator.clone(),
        })
    }

    fn first_model(&self, job: &str, model: &Model, party: &str) -> Result<(), StoreError> {
        self.change(job, |kept| {
            kept.models.insert(model.version(), model.clone());
            kept.model_from = party.to_owned();
            Ok(())
        })
    }

    fn begin_round(&self, job: &str, report: &RoundReport) -> Result<(), StoreError> {
        self.change(job, |kept| {
            let oldest = kept
                .rounds
                .first_key_value()
                .map_or(0, |(oldest, _)| *oldest);
            if report.number < oldest || kept.rounds.contains_key(&report.number) {
                return Err(format!("round {} was begun before", report.number));
            }
            kept.rounds.insert(report.number, report.clone());
            if kept.rounds.len() > ROUNDS_KEPT
                && let Some((_, forgotten)) = kept.rounds.pop_first()
            {
                kept.done_before += u64::from(gave_sum(&forgotten));
            }
            Ok(())
        })
    }

    fn round_began(&self, job: &str, report: &RoundReport) -> Result<(), StoreError> {
        self.change(job, |kept| {
            if let Some(round) = kept.rounds.get_mut(&report.number) {
                *round = report.clone();
            }
            Ok(())
        })
    }

    fn end_round(
        &self,
        job: &str,
        report: &RoundReport,
        model: Option<&Model>,
        ending: Option<&Ending>,
    ) -> Result<(), StoreError> {
        let models_kept = u64::from(self.models_kept);
        self.change(job, |kept| {
            if let Some(model) = model {
                let version = model.version();
                if kept.models.contains_key(&version) {
                    return Err(format!("model version {version} is there already"));
                }
                let best = report.best.as_ref().map(|best| best.version);
                kept.models.insert(version, model.clone());
                kept.models
                    .retain(|kept, _| kept + models_kept > version || Some(*kept) == best);
            }
            if let Some(round) = kept.rounds.get_mut(&report.number) {
                *round = report.clone();
            }
            if let Some(ending) = ending {
                kept.ending = Some(ending.clone());
            }
            Ok(())
        })
    }

    fn released(&self, job: &str, releases: &[Release]) -> Result<(), StoreError> {
        self.change(job, |kept| {
            kept.released = releases.to_vec();
            Ok(())
        })
    }

    fn confirm(&self, job: &str, round: u64, names: &[Arc<str>]) -> Result<(), StoreError> {
        self.change(job, |kept| {
            let latest = kept.ending.as_mut();
            if let Some(latest) = latest.filter(|ending| ending.done.round == round) {
                for name in names {
                    if let Some(confirmed) = latest.survivors.get_mut(name) {
                        *confirmed = true;
                    }
                }
            }
            Ok(())
        })
    }

    fn set_job_state(&self, job: &str, state: JobState, reason: &str) -> Result<(), StoreError> {
        self.change(job, |kept| {
            (kept.state, kept.reason) = (state, reason.into());
            Ok(())
        })
    }

    fn rounds(&self, job: &str, most: u32) -> Result<Vec<RoundReport>, StoreError> {
        let latest = |kept: &Kept| {
            let newest_first = kept.rounds.values().rev();
            newest_first.take(most as usize).cloned().collect()
        };
        Ok(self.read(job, latest).unwrap_or_default())
    }

    fn round(&self, job: &str, number: u64) -> Result<Option<RoundReport>, StoreError> {
        let report = self.read(job, |kept| kept.rounds.get(&number).cloned());
        Ok(report.flatten())
    }

    fn model(&self, job: &str, version: u64) -> Result<Option<Model>, StoreError> {
        let model = self.read(job, |kept| kept.models.get(&version).cloned());
        Ok(model.flatten())
    }

    fn event(&self, job: &str, round: u64, kind: &str, detail: &str) -> Result<(), StoreError> {
        self.change(job, |kept| {
            kept.events.push(Happened {
                round,
                kind: kind.into(),
                detail: detail.into(),
            });
            Ok(())
        })
    }

    fn fault(&self, job: &str, fault: &ShownFault) -> Result<(), StoreError> {
        self.change(job, |kept| {
            kept.add_fault(fault);
            Ok(())
        })
    }

    fn set_conduct(&self, job: &str, conduct: &[u8]) -> Result<(), StoreError> {
        self.change(job, |kept| {
            kept.conduct = conduct.to_vec();
            Ok(())
        })
    }

    fn order(&self, job: &str, ordered: &[u8], record: &OrderRecord) -> Result<(), StoreError> {
        self.change(job, |kept| {
            kept.operator = ordered.to_vec();
            kept.orders.push(record.clone());
            let more = kept.orders.len().saturating_sub(ORDERS_KEPT);
            kept.orders.drain(..more);
            Ok(())
        })
    }

    fn orders(&self, job: &str, most: u32) -> Result<Vec<OrderRecord>, StoreError> {
        let latest = |kept: &Kept| {
            let newest_first = kept.orders.iter().rev();
            newest_first.take(most as usize).cloned().collect()
        };
        Ok(self.read(job, latest).unwrap_or_default())
    }
}
