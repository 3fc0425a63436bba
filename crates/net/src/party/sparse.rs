//! Sparse rounds: what a party sends of its update, and what it keeps of it for later.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use blindsum_encode::{EncodeError, Selection, Sent, Sparsifier, Values};
use blindsum_protocol::{Job, Round};

use super::durable;
use super::task::Task;
use super::{RoundResult, Update};
use crate::NetError;
use crate::coordinator::blocking;
use crate::system::random;

/// What is authenticated with the residual.
const HEADER: &[u8] = b"blindsum residual";

/// What is authenticated with what was sent in a round.
fn header_of(round: u64) -> Vec<u8> {
    [b"blindsum sent", &round.to_be_bytes()[..]].concat()
}

/// What a party has not sent of its updates yet, for all rounds of a job.
#[derive(Clone)]
pub(super) struct Leftover(Arc<Mutex<Sparsifier>>);

impl Leftover {
    fn with<T>(&self, work: impl FnOnce(&mut Sparsifier) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What is sent of an update, and of what was left before it.
    pub fn select(&self, round: &Round, update: &Update) -> Result<Selection, EncodeError> {
        let before = round.number().saturating_sub(1);
        let values = single(update.values());
        self.with(|sparsifier| sparsifier.select(round.encoding(), before, &values))
    }
}

/// Values in the precision that the residual has.
fn single(values: Values<'_>) -> Cow<'_, [f32]> {
    match values {
        Values::F32(values) => Cow::Borrowed(values),
        Values::F64(values) => Cow::Owned(values.iter().map(|&value| value as f32).collect()),
        // Sparse jobs are of real numbers, which was checked when the update came: nothing fits then.
        Values::Integers(_) => Cow::Owned(Vec::new()),
    }
}

impl Task {
    /// What was left when the process ended, or nothing yet; `None` where rounds are dense.
    pub(super) fn kept_leftover(&self, job: &Job) -> Result<Option<Leftover>, NetError> {
        let Some(schedule) = job.density() else {
            return Ok(None);
        };
        let unusable = |reason: String| self.unusable(format!("residual: {reason}"));
        let mut kept = None;
        if let Some(state) = &self.state {
            let sealed = durable::read(&state.folder().join("residual"));
            if let Some(sealed) = sealed.map_err(|e| unusable(e.to_string()))? {
                let advice = "damaged; without it the party goes on with nothing left over";
                let opened = state.key().open(HEADER, &sealed);
                kept = Some(opened.map_err(|_| unusable(advice.into()))?);
            }
        }
        let encoding = job.encoding();
        let sparsifier = match kept {
            None => Sparsifier::new(encoding, schedule),
            Some(bytes) => Sparsifier::from_bytes(encoding, schedule, &bytes),
        };
        let sparsifier = sparsifier.map_err(|e| unusable(e.to_string()))?;
        Ok(Some(Leftover(Arc::new(Mutex::new(sparsifier)))))
    }

    /// Keeps what is sent in a round until its result is there, also where the process ends before.
    pub(super) async fn keep_sent(&mut self, round: u64, sent: Sent) -> Result<(), NetError> {
        let (state, mut rng) = (self.state.clone(), random()?);
        let write = move || match state {
            None => Ok(sent),
            Some(state) => {
                let (header, bytes) = (header_of(round), sent.to_bytes());
                let sealed = state.key().seal(&header, &bytes, &mut rng);
                let path = state.folder().join("sent");
                durable::replace(&path, &[&round.to_be_bytes(), &sealed]).map(|()| sent)
            }
        };
        let written = blocking(write).await?;
        let sent = written.map_err(|error| self.unusable(format!("sent: {error}")))?;
        if let Some(active) = &mut self.active {
            active.sent = Some(sent);
        }
        Ok(())
    }

    /// What was sent in a round, before or after the process was started.
    fn sent(&mut self, round: u64) -> Result<Option<Sent>, NetError> {
        let active = self.active.as_mut().filter(|active| active.number == round);
        let sent = active.and_then(|active| active.sent.take());
        let (None, Some(state), Some(job)) = (&sent, &self.state, &self.job) else {
            return Ok(sent);
        };
        let unusable = |reason: String| self.unusable(format!("sent: {reason}"));
        let bytes = durable::read(&state.folder().join("sent"));
        let bytes = bytes.map_err(|e| unusable(e.to_string()))?;
        let (bytes, of_round) = (bytes.unwrap_or_default(), round.to_be_bytes());
        let Some(sealed) = bytes.strip_prefix(&of_round) else {
            return Ok(None);
        };
        let opened = state.key().open(&header_of(round), sealed);
        let advice = "damaged; without it what was sent in the round is sent again later";
        let opened = opened.map_err(|_| unusable(advice.into()))?;
        let sent = Sent::from_bytes(job.encoding(), &opened);
        Ok(Some(sent.map_err(|e| unusable(e.to_string()))?))
    }

    /// The round has a result: what was opened of what the party sent is not left over any more. A party that
    /// is not among the survivors keeps all of it.
    pub(super) async fn commit_sent(
        &mut self,
        round: u64,
        result: &RoundResult,
    ) -> Result<(), NetError> {
        let (Some(job), Some(counts)) = (self.job.clone(), result.contributors.clone()) else {
            return Ok(());
        };
        if !result.survivors.contains(&self.identity.name) {
            return Ok(());
        }
        let least = job.spec().least_contributors();
        let opened = move |d: u32| counts.get(d as usize).is_some_and(|count| *count >= least);
        self.commit(round, opened).await
    }

    /// The round has a result that counts what this party sent, and that is not told here. What too few parties have
    /// sent to be opened is not known either: it is lost, rather than anything sent twice.
    pub(super) async fn commit_missed(&mut self, round: u64) -> Result<(), NetError> {
        self.commit(round, |_| true).await
    }

    /// What was opened of what was sent in a round is not left over any more.
    async fn commit(
        &mut self,
        round: u64,
        opened: impl Fn(u32) -> bool + Send + 'static,
    ) -> Result<(), NetError> {
        let Some(leftover) = self.leftover.clone() else {
            return Ok(());
        };
        let Some(sent) = self.sent(round)? else {
            return Ok(());
        };
        let (state, mut rng) = (self.state.clone(), random()?);
        let commit = move || {
            let kept = leftover.with(|sparsifier| {
                sparsifier.commit(sent, opened);
                state.map(|state| (sparsifier.to_bytes(), state))
            });
            match kept {
                None => Ok(()),
                Some((bytes, state)) => {
                    let sealed = state.key().seal(HEADER, &bytes, &mut rng);
                    durable::replace(&state.folder().join("residual"), &[&sealed])
                }
            }
        };
        let written = blocking(commit).await?;
        written.map_err(|error| self.unusable(format!("residual: {error}")))
    }
}
