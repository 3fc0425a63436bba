//! Sparse rounds: what a party sends of its update, and what it keeps for later.

use std::sync::Arc;

use blindsum_crypto::Zeroizing;
use blindsum_encode::{EncodeError, LeftoverSize, Sent, Sparsifier};
use blindsum_protocol::Job;

use super::context::Context;
use super::exchange::Identity;
use super::leftover::Leftover;
use super::state::{JobFolder, JobState};
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
fn opened(state: &JobState) -> Result<Option<Zeroizing<Vec<u8>>>, JobError> {
    let Some(sealed) = state.read("residual")? else {
        return Ok(None);
    };
    let advice = "damaged; without it the party goes on with nothing left over";
    let opened = state.key().open(HEADER, &sealed);
    opened
        .map(Some)
        .map_err(|_| state.failed("residual", advice))
}

impl Context {
    /// What was left when the process ended, or nothing yet; `None` where rounds are dense.
    pub(super) async fn kept_leftover(&mut self, job: &Job) -> Result<Option<Leftover>, JobError> {
        let Some(schedule) = job.density() else {
            return Ok(None);
        };
        let mut kept = None;
        if let Some(state) = self.store.state.clone() {
            kept = self.hand.work(move || opened(&state)).await??;
        }
        let encoding = job.encoding();
        let sparsifier = match kept {
            None => Sparsifier::new(encoding, schedule),
            Some(bytes) => Sparsifier::from_bytes(encoding, schedule, &bytes),
        };
        let unusable = |e: EncodeError| self.unusable(format!("residual: {e}"));
        let sparsifier = sparsifier.map_err(unusable)?;
        Ok(Some(Leftover::of(sparsifier)))
    }

    /// Keeps what is sent in a round until its result is there, also where the process ends before.
    pub(super) async fn keep_sent(&mut self, round: u64, sent: Sent) -> Result<(), JobError> {
        let (state, mut rng) = (self.store.state.clone(), self.hand.random());
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
        let sent = self.hand.work(write).await??;
        // guard: campaign-leftovers-of-rounds-that-count
        self.given.sent = Some((round, sent));
        Ok(())
    }

    /// What was sent in a round, before or after the process was started.
    async fn sent(&mut self, round: u64) -> Result<Option<Sent>, JobError> {
        let sent = self.given.sent.take_if(|(of, _)| *of == round);
        let sent = sent.map(|(_, sent)| sent);
        let (None, Some(state), Some(job)) = (&sent, self.store.state.clone(), &self.job) else {
            return Ok(sent);
        };
        let of = state.clone();
        let bytes = self.hand.work(move || of.read("sent")).await??;
        let (bytes, of_round) = (bytes.unwrap_or_default(), round.to_be_bytes());
        let Some(sealed) = bytes.strip_prefix(&of_round) else {
            return Ok(None);
        };
        let opened = state.key().open(&header_of(round), sealed);
        let advice = "damaged; without it what was sent in the round is sent again later";
        let opened = opened.map_err(|_| state.failed("sent", advice))?;
        let sent = Sent::from_bytes(job.encoding(), &opened);
        Ok(Some(sent.map_err(|e| state.failed("sent", e))?))
    }

    /// The size of what this party keeps once a round has a result of which so many parties sent each coordinate; `None`
    /// where rounds are dense.
    pub(super) async fn leftover_after(
        &mut self,
        round: u64,
        contributors: Option<&[u32]>,
    ) -> Result<Option<LeftoverSize>, JobError> {
        let (Some(leftover), Some(least), Some(counts)) = (
            self.given.leftover.clone(),
            self.least_contributors(),
            contributors,
        ) else {
            return Ok(None);
        };
        let Some(sent) = self.sent(round).await? else {
            return Ok(Some(leftover.with(|sparsifier| sparsifier.leftover())));
        };
        let size = sent.leftover(|d| counts.get(d as usize).is_some_and(|count| *count >= least));
        self.given.sent = Some((round, sent));
        Ok(Some(size))
    }

    /// The round has a result that counts what this party sent, and that is not told here. What too few parties have
    /// sent to be opened is not known either: it is lost, rather than anything sent twice.
    pub(super) async fn commit_missed(&mut self, round: u64) -> Result<(), JobError> {
        self.commit(round, |_| true).await
    }

    /// What was opened of what was sent in a round is not left over any more. A party that is not among the survivors
    /// keeps all of it.
    pub(super) async fn commit(
        &mut self,
        round: u64,
        opened: impl Fn(u32) -> bool + Send + 'static,
    ) -> Result<(), JobError> {
        let Some(leftover) = self.given.leftover.clone() else {
            return Ok(());
        };
        let Some(sent) = self.sent(round).await? else {
            return Ok(());
        };
        let (state, mut rng) = (self.store.state.clone(), self.hand.random());
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
        self.hand.work(commit).await?
    }
}
