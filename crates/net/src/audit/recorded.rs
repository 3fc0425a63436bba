//! A store whose changes are in the audit trail, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_job::orders::OrderRecord;
use blindsum_job::store::{Ending, ShownFault, StoredJob};
use blindsum_protocol::Job;

use super::entry::{Entry, OrderEntry, RoundEnd};
use super::trail::Trail;
use crate::report::{JobState, RoundReport};
use crate::store::{Release, Store};
use crate::{Model, StoreError, hex};

/// Rounds that are read from the store at once.
const MAX_LATE: u32 = 10_000;

/// A store and the trail of what is stored.
///
/// An entry is written after its transaction, so the trail never says what is not so. Where an entry cannot be written the next
/// round does not begin, and the end of a round that is missing is added at the next start.
pub(crate) struct Recorded {
    store: Arc<dyn Store>,
    trail: Arc<Trail>,
    /// The latest round of each job whose end the trail had as it was opened.
    known: BTreeMap<String, u64>,
}

impl Recorded {
    /// A store whose trail has these rounds.
    pub fn new(store: Arc<dyn Store>, trail: Arc<Trail>, known: BTreeMap<String, u64>) -> Self {
        Self {
            store,
            trail,
            known,
        }
    }

    fn check(&self) -> Result<(), StoreError> {
        self.trail.check().map_err(|reason| StoreError::Io {
            path: format!("audit trail {}", self.trail.path().display()),
            reason,
        })
    }

    /// Writes the ends of rounds that the store has and the trail lacks.
    fn catch_up(&self, job: &str) -> Result<(), StoreError> {
        let Some(known) = self.known.get(job) else {
            return Ok(());
        };
        let mut rounds = self.store.rounds(job, MAX_LATE)?;
        rounds.retain(|round| round.number > *known);
        rounds.sort_by_key(|round| round.number);
        for round in &rounds {
            let end = RoundEnd {
                late: true,
                ..RoundEnd::of(round)
            };
            let job = job.to_owned();
            self.trail.note(Entry::RoundEnded { job, end });
        }
        Ok(())
    }
}

impl Store for Recorded {
    fn open_job(&self, job: &Job, initial: &Model) -> Result<StoredJob, StoreError> {
        let stored = self.store.open_job(job, initial)?;
        let name = job.spec().job.clone();
        self.catch_up(&name)?;
        self.trail.note(Entry::JobOpened {
            job: name,
            specification: hex(job.hash()),
            state: stored.state,
            rounds_done: stored.rounds_done,
            next_round: stored.next_round,
            model_version: stored.model.version(),
            model_hash: hex(stored.model.hash()),
        });
        self.check()?;
        Ok(stored)
    }

    fn first_model(&self, job: &str, model: &Model, party: &str) -> Result<(), StoreError> {
        self.store.first_model(job, model, party)
    }

    fn begin_round(&self, job: &str, report: &RoundReport) -> Result<(), StoreError> {
        // guard: no-round-without-the-trail
        self.check()?;
        self.store.begin_round(job, report)?;
        self.trail.note(Entry::RoundOffered {
            job: job.to_owned(),
            round: report.number,
            model_version: report.model_version,
        });
        Ok(())
    }

    fn round_began(&self, job: &str, report: &RoundReport) -> Result<(), StoreError> {
        self.store.round_began(job, report)?;
        self.trail.note(Entry::RoundBegan {
            job: job.to_owned(),
            round: report.number,
            roster: report.parties.clone(),
        });
        Ok(())
    }

    fn end_round(
        &self,
        job: &str,
        report: &RoundReport,
        model: Option<&Model>,
        ending: Option<&Ending>,
    ) -> Result<(), StoreError> {
        self.store.end_round(job, report, model, ending)?;
        self.trail.note(Entry::RoundEnded {
            job: job.to_owned(),
            end: RoundEnd::of(report),
        });
        Ok(())
    }

    fn released(&self, job: &str, releases: &[Release]) -> Result<(), StoreError> {
        self.store.released(job, releases)
    }

    fn confirm(&self, job: &str, round: u64, names: &[Arc<str>]) -> Result<(), StoreError> {
        self.store.confirm(job, round, names)
    }

    fn set_job_state(&self, job: &str, state: JobState, reason: &str) -> Result<(), StoreError> {
        self.store.set_job_state(job, state, reason)?;
        self.trail.note(Entry::JobState {
            job: job.to_owned(),
            state,
            reason: reason.to_owned(),
        });
        Ok(())
    }

    fn rounds(&self, job: &str, most: u32) -> Result<Vec<RoundReport>, StoreError> {
        self.store.rounds(job, most)
    }

    fn round(&self, job: &str, number: u64) -> Result<Option<RoundReport>, StoreError> {
        self.store.round(job, number)
    }

    fn model(&self, job: &str, version: u64) -> Result<Option<Model>, StoreError> {
        self.store.model(job, version)
    }

    fn event(&self, job: &str, round: u64, kind: &str, detail: &str) -> Result<(), StoreError> {
        self.store.event(job, round, kind, detail)?;
        self.trail.note(Entry::Event {
            job: job.to_owned(),
            round,
            kind: kind.to_owned(),
            detail: detail.to_owned(),
        });
        Ok(())
    }

    fn fault(&self, job: &str, fault: &ShownFault) -> Result<(), StoreError> {
        self.store.fault(job, fault)?;
        self.trail.note(Entry::Fault {
            job: job.to_owned(),
            round: fault.round,
            culprit: fault.culprit.clone(),
            accuser: fault.accuser.clone(),
            what: fault.what.clone(),
        });
        Ok(())
    }

    fn order(&self, job: &str, ordered: &[u8], record: &OrderRecord) -> Result<(), StoreError> {
        self.store.order(job, ordered, record)?;
        self.trail.note(Entry::Order(OrderEntry {
            job: job.to_owned(),
            by: record.by.clone(),
            order: record.command.name(),
            values: serde_json::to_value(&record.command).ok(),
            reason: record.reason.clone(),
            outcome: record.outcome.clone(),
            refused: record.refused,
        }));
        Ok(())
    }

    fn orders(&self, job: &str, most: u32) -> Result<Vec<OrderRecord>, StoreError> {
        self.store.orders(job, most)
    }

    fn set_conduct(&self, job: &str, conduct: &[u8]) -> Result<(), StoreError> {
        self.store.set_conduct(job, conduct)
    }
}
