//! Sparse rounds: what a party sends of its update, and what it keeps for later.

use std::sync::{Arc, Mutex, PoisonError};

use blindsum_crypto::Zeroizing;
use blindsum_encode::{EncodeError, LeftoverSize, Selection, Sent, Sparsifier, Update};
use blindsum_protocol::{Job, Round};

use super::exchange::Identity;
use super::records::{JobFolder, JobRecords};
use super::store::Store;
use crate::JobError;
use crate::records::Records;

/// What is authenticated with the residual.
const HEADER: &[u8] = b"blindsum residual";

/// What is authenticated with what was sent in a round.
fn header_of(round: u64) -> Vec<u8> {
    [b"blindsum sent", &round.to_be_bytes()[..]].concat()
}

/// What a party has not sent of its updates yet, according to its records; `None` if rounds are not sparse. It is as
/// private as the updates, and sealed under a key that only the party has.
///
/// # Errors
/// Records that cannot be read, or are damaged.
pub fn kept_leftover(
    records: Arc<dyn Records>,
    identity: &Identity,
    job: &Job,
) -> Result<Option<Sparsifier>, JobError> {
    let Some(schedule) = job.density() else {
        return Ok(None);
    };
    let state = JobFolder::new(records, &identity.key)?.records_of(job.hash());
    let encoding = job.encoding();
    let sparsifier = match opened(&state)? {
        None => Sparsifier::new(encoding, schedule),
        Some(bytes) => Sparsifier::from_bytes(encoding, schedule, &bytes),
    };
    sparsifier
        .map(Some)
        .map_err(|e| state.failed("residual", e))
}

/// The residual out of the records, where they have one.
fn opened(state: &JobRecords) -> Result<Option<Zeroizing<Vec<u8>>>, JobError> {
    let Some(sealed) = state.read("residual")? else {
        return Ok(None);
    };
    let advice = "damaged; without it the party goes on with nothing left over";
    let opened = state.key().open(HEADER, &sealed);
    opened
        .map(Some)
        .map_err(|_| state.failed("residual", advice))
}

/// What a party has not sent of its updates yet, for all rounds of a job.
#[derive(Clone)]
pub(super) struct Leftover(Arc<Mutex<Sparsifier>>);

impl Leftover {
    /// All that is in here.
    pub fn of(sparsifier: Sparsifier) -> Self {
        Self(Arc::new(Mutex::new(sparsifier)))
    }

    /// Does something with it, alone.
    pub fn with<T>(&self, work: impl FnOnce(&mut Sparsifier) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is sent of an update, and of what was left before it.
    pub fn select(&self, round: &Round, update: &Update) -> Result<Selection, EncodeError> {
        let before = round.sums_before();
        self.with(|sparsifier| sparsifier.select(round.encoding(), before, update.values()))
    }
}

/// What a party sends of its updates, and what it keeps of them, where rounds are sparse.
pub(super) struct Sparse {
    job: Arc<Job>,
    leftover: Leftover,
    /// What was sent of an update, until its result is taken.
    sent: Option<(u64, Sent)>,
}

impl Sparse {
    /// What was left when the process ended, or nothing yet; none where rounds are dense.
    pub async fn recall(store: &mut Store, job: &Arc<Job>) -> Result<Option<Self>, JobError> {
        let Some(schedule) = job.density() else {
            return Ok(None);
        };
        let encoding = job.encoding();
        let sparsifier = match store.with(opened).await?.flatten() {
            None => Sparsifier::new(encoding, schedule),
            Some(bytes) => Sparsifier::from_bytes(encoding, schedule, &bytes),
        };
        let unusable = |e: EncodeError| store.unusable(format!("residual: {e}"));
        Ok(Some(Self {
            job: job.clone(),
            leftover: Leftover::of(sparsifier.map_err(unusable)?),
            sent: None,
        }))
    }

    /// What was not sent yet.
    pub fn leftover(&self) -> &Leftover {
        &self.leftover
    }

    /// How much was not sent yet.
    pub fn size(&self) -> LeftoverSize {
        self.leftover.with(|sparsifier| sparsifier.leftover())
    }

    /// Keeps what is sent in a round until its result is there, also where the process ends before.
    pub async fn keep(
        &mut self,
        store: &mut Store,
        round: u64,
        sent: Sent,
    ) -> Result<(), JobError> {
        let (state, mut rng) = (store.state.clone(), store.hand.random());
        let write = move || match state {
            None => Ok(sent),
            Some(state) => {
                let (header, bytes) = (header_of(round), sent.to_bytes());
                let sealed = state.key().seal(&header, &bytes, &mut rng);
                let pieces: [&[u8]; 2] = [&round.to_be_bytes(), &sealed];
                // guard: campaign-what-was-sent-is-written
                state.replace("sent", &pieces).map(|()| sent)
            }
        };
        let sent = store.hand.work(write).await??;
        // guard: campaign-leftovers-of-rounds-that-count
        self.sent = Some((round, sent));
        Ok(())
    }

    /// What was sent in a round, before or after the process was started.
    async fn sent(&mut self, store: &mut Store, round: u64) -> Result<Option<Sent>, JobError> {
        if let Some((_, sent)) = self.sent.take_if(|(of, _)| *of == round) {
            return Ok(Some(sent));
        }
        let job = self.job.clone();
        let read = move |state: &JobRecords| {
            let (bytes, of_round) = (state.read("sent")?.unwrap_or_default(), round.to_be_bytes());
            let Some(sealed) = bytes.strip_prefix(&of_round) else {
                return Ok(None);
            };
            let opened = state.key().open(&header_of(round), sealed);
            let advice = "damaged; without it what was sent in the round is sent again later";
            let opened = opened.map_err(|_| state.failed("sent", advice))?;
            let sent = Sent::from_bytes(job.encoding(), &opened);
            sent.map(Some).map_err(|e| state.failed("sent", e))
        };
        Ok(store.with(read).await?.flatten())
    }

    /// The size of what this party keeps once a round has a result of which so many parties sent each coordinate.
    pub async fn size_after(
        &mut self,
        store: &mut Store,
        round: u64,
        counts: &[u32],
    ) -> Result<LeftoverSize, JobError> {
        let Some(sent) = self.sent(store, round).await? else {
            return Ok(self.size());
        };
        let least = self.job.spec().least_contributors();
        let size = sent.leftover(|d| counts.get(d as usize).is_some_and(|count| *count >= least));
        self.sent = Some((round, sent));
        Ok(size)
    }

    /// The round has a result that counts what this party sent, and that is not told here. What too few parties have
    /// sent to be opened is not known either: it is lost, rather than anything sent twice.
    pub async fn commit_all(&mut self, store: &mut Store, round: u64) -> Result<(), JobError> {
        self.commit(store, round, |_| true).await
    }

    /// The caller has the result of a round, of which so many parties sent each coordinate.
    pub async fn commit_opened(
        &mut self,
        store: &mut Store,
        round: u64,
        counts: Vec<u32>,
    ) -> Result<(), JobError> {
        let least = self.job.spec().least_contributors();
        // guard: campaign-what-stays-closed-is-left
        let opened = move |d: u32| counts.get(d as usize).is_some_and(|count| *count >= least);
        self.commit(store, round, opened).await
    }

    /// What was opened of what was sent in a round is not left over any more. A party that is not among the survivors
    /// keeps all of it.
    async fn commit(
        &mut self,
        store: &mut Store,
        round: u64,
        opened: impl Fn(u32) -> bool + Send + 'static,
    ) -> Result<(), JobError> {
        let Some(sent) = self.sent(store, round).await? else {
            return Ok(());
        };
        let leftover = self.leftover.clone();
        let (state, mut rng) = (store.state.clone(), store.hand.random());
        let commit = move || {
            let kept = leftover.with(|sparsifier| {
                sparsifier.commit(sent, opened);
                state.map(|state| (sparsifier.to_bytes(), state))
            });
            match kept {
                None => Ok(()),
                Some((bytes, state)) => {
                    let sealed = state.key().seal(HEADER, &bytes, &mut rng);
                    // guard: campaign-leftovers-are-written
                    state.replace("residual", &[&sealed])
                }
            }
        };
        store.hand.work(commit).await?
    }
}
