//! One job at the coordinator: who is connected, which round is under way, what comes next.
//!
//! A job is one task. It alone changes the job's state, by one event at a time, so that a reader can
//! follow it from top to bottom: [`JobTask::run`] waits for parties, runs rounds (`round.rs`), ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_protocol::Job;
use bytes::Bytes;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tracing::{error, info, warn};

use super::ended::Ended;
use super::hidden::SealedModel;
use super::members::Member;
use super::presence::Presence;
use super::revocation::LIST_LOOK;
use super::round::{Joining, Running, blocking};
use super::session::{Event, Gate, refused};
use crate::limits::{Limits, seconds};
use crate::outbox::Queued;
use crate::pb::party_frame::Frame;
use crate::pb::{self, RefusalCode};
use crate::relay::{Spools, Unreadable};
use crate::report::{JobState, JobStatus, RoundReport};
use crate::store::{Store, StoredJob};
use crate::{Model, NetError, StoreError};

/// Time between two tellings of who is here and how a stage goes on: each is as long as the roster.
const PROGRESS_EVERY: Duration = Duration::from_millis(50);

/// What a job is made of.
pub(crate) struct JobParts {
    pub job: Arc<Job>,
    pub store: Arc<dyn Store>,
    pub anchor: Arc<TrustAnchor>,
    pub limits: Limits,
    pub spools: Arc<Spools>,
    pub events: mpsc::Receiver<Event>,
    pub gate: watch::Sender<Gate>,
    pub status: watch::Sender<JobStatus>,
    pub stopping: watch::Receiver<bool>,
}

/// A job that runs.
pub(crate) struct JobTask {
    pub(super) parts: JobParts,
    pub(super) name: String,
    pub(super) model: Model,
    pub(super) model_bytes: Bytes,
    pub(super) members: BTreeMap<Arc<str>, Member>,
    pub(super) presence: Presence,
    /// Who was lost since the latest round was offered, and may come back.
    pub(super) lost: BTreeSet<Arc<str>>,
    pub(super) joining: Option<Joining>,
    /// The round under way.
    pub(super) running: Option<Running>,
    /// The latest ones that count, for parties that have not heard their end.
    pub(super) ended: Ended,
    pub(super) next_round: u64,
    pub(super) rounds_done: u64,
    /// Rounds done since the coordinator started.
    pub(super) done_here: u64,
    /// Whether the round before was a key set-up.
    pub(super) after_key_setup: bool,
    /// The current model as a party sealed it, where the coordinator does not know it.
    pub(super) sealed_model: SealedModel,
    /// When somebody last came or went.
    pub(super) changed: Instant,
    /// When the job gives up, unless a round begins.
    pub(super) patience: Instant,
    /// Where it is told that what a round passes on cannot be read, and where that is heard.
    pub(super) unreadable: (UnboundedSender<Unreadable>, UnboundedReceiver<Unreadable>),
    /// When progress was last published.
    published: Option<Instant>,
    /// Whether there is progress that was not.
    pub(super) unpublished: bool,
    /// What the operator must do soon about the revocation list; empty where that is nothing.
    pub(super) warning: String,
    /// When the list is looked at next.
    pub(super) list_look: Instant,
    pub(super) state: JobState,
    /// Why the job failed.
    pub(super) reason: String,
}

/// Why a job does nothing more.
pub(super) enum Halt {
    /// The coordinator is stopping.
    Stop,
    /// The round gave no result.
    Aborted(String),
    /// The job ends without being done.
    Ended(String),
    /// The job cannot go on.
    Broken(NetError),
}

impl From<StoreError> for Halt {
    fn from(error: StoreError) -> Self {
        Halt::Broken(error.into())
    }
}

impl JobTask {
    /// A job as the store has it.
    pub fn new(parts: JobParts, stored: StoredJob) -> Result<Self, NetError> {
        let name = parts.job.spec().job.clone();
        for round in &stored.interrupted {
            warn!(job = %name, round, "aborted: the coordinator was restarted");
        }
        let latest = parts.store.rounds(&name, 1)?.pop();
        parts.store.set_job_state(&name, JobState::Running, "")?;
        // Whatever comes for rounds before the restart comes too late.
        parts
            .gate
            .send_replace(Gate::closed(stored.next_round.saturating_sub(1)));
        let task = Self {
            name,
            model_bytes: stored.model.to_bytes(),
            model: stored.model,
            members: BTreeMap::new(),
            presence: Presence::default(),
            lost: BTreeSet::new(),
            joining: None,
            running: None,
            ended: Ended::stored(stored.ending),
            next_round: stored.next_round,
            rounds_done: stored.rounds_done,
            done_here: 0,
            after_key_setup: false,
            sealed_model: SealedModel::default(),
            changed: Instant::now(),
            patience: Instant::now(),
            unreadable: mpsc::unbounded_channel(),
            published: None,
            unpublished: false,
            warning: String::new(),
            list_look: Instant::now(),
            state: JobState::Running,
            reason: String::new(),
            parts,
        };
        task.publish(latest);
        Ok(task)
    }

    /// Runs the job until the coordinator stops. A job that is over still answers its parties.
    pub async fn run(mut self) -> Result<(), NetError> {
        let result = match self.run_rounds().await {
            Halt::Stop => Ok(()),
            Halt::Aborted(reason) | Halt::Ended(reason) => Err(NetError::JobFailed {
                job: self.name.clone(),
                reason,
            }),
            Halt::Broken(error) => Err(error),
        };
        if let Err(error) = &result {
            error!(job = %self.name, %error, "the job cannot go on");
            self.fail(error.to_string());
        }
        while let Ok(Some(event)) = self.next_event(None).await {
            self.handle(event);
        }
        self.close_ended().await;
        for member in self.members.values() {
            let reason = "the coordinator is stopping; connect again when it is back";
            let frame = refused(RefusalCode::RefusalStopping, reason);
            member.session.outbox.put(Queued::Last(frame.into()));
        }
        result
    }

    async fn run_rounds(&mut self) -> Halt {
        let mut failed_in_row = 0;
        loop {
            let rounds = u64::from(self.parts.job.spec().rounds);
            if rounds != 0 && self.rounds_done >= rounds {
                return match self.finish() {
                    Ok(()) => self.serve_finished().await,
                    Err(error) => Halt::Broken(error),
                };
            }
            self.patience = Instant::now() + seconds(self.parts.limits.patience);
            let halt = match self.wait_for_parties().await {
                Ok(()) => self.run_round().await,
                Err(halt) => Err(halt),
            };
            match halt {
                Ok(()) => failed_in_row = 0,
                // Nobody can be certified: no round is to blame, and none begins before there is a new list.
                Err(Halt::Aborted(_)) if self.list_is_over() => {}
                Err(Halt::Aborted(reason)) => {
                    failed_in_row += 1;
                    if failed_in_row >= self.parts.limits.failed_rounds {
                        return Halt::Ended(format!(
                            "{failed_in_row} rounds in a row gave no result; the last: {reason}"
                        ));
                    }
                    if let Err(halt) = self.pause().await {
                        return halt;
                    }
                }
                Err(halt) => return halt,
            }
        }
    }

    /// After a failed round, a moment for parties to come back.
    async fn pause(&mut self) -> Result<(), Halt> {
        let until = Instant::now() + seconds(self.parts.limits.reconnect_grace);
        while Instant::now() < until {
            if let Some(event) = self.next_event(Some(until)).await? {
                self.handle(event);
            }
        }
        Ok(())
    }

    /// Until enough parties are connected for a round, and can be certified. While the revocation list is out of
    /// date nobody can come, and patience does not run out.
    async fn wait_for_parties(&mut self) -> Result<(), Halt> {
        let need = self.parts.job.min_parties();
        while self.members.len() < need || self.list_is_over() {
            if self.list_is_over() {
                self.patience = Instant::now() + seconds(self.parts.limits.patience);
            } else if Instant::now() >= self.patience {
                return Err(self.out_of_patience("connected", self.members.len()));
            }
            let until = self.patience.min(Instant::now() + LIST_LOOK);
            if let Some(event) = self.next_event(Some(until)).await? {
                self.handle(event);
            }
        }
        Ok(())
    }

    pub(super) fn out_of_patience(&self, what: &str, have: usize) -> Halt {
        if self.list_is_over() {
            return Halt::Aborted(self.warning.clone());
        }
        Halt::Ended(format!(
            "{have} parties were {what} within {} s, {} are needed",
            self.parts.limits.patience,
            self.parts.job.min_parties()
        ))
    }

    /// All rounds are done: everybody is told.
    fn finish(&mut self) -> Result<(), NetError> {
        let (rounds, model) = (self.rounds_done, self.model.version());
        info!(job = %self.name, rounds, model, "job done");
        self.parts
            .store
            .set_job_state(&self.name, JobState::Done, "")?;
        self.state = JobState::Done;
        for member in self.members.values() {
            member.session.outbox.frame(self.job_done().into());
        }
        self.publish(None);
        Ok(())
    }

    fn fail(&mut self, reason: String) {
        let stored = self
            .parts
            .store
            .set_job_state(&self.name, JobState::Failed, &reason);
        if let Err(error) = stored {
            error!(job = %self.name, %error, "the job's end could not be stored");
        }
        self.state = JobState::Failed;
        self.reason = reason;
        for member in std::mem::take(&mut self.members).into_values() {
            let frame = refused(RefusalCode::RefusalJobFailed, self.reason.as_str());
            member.session.outbox.put(Queued::Last(frame.into()));
        }
        self.publish(None);
    }

    /// Answers latecomers of a job that is over.
    async fn serve_finished(&mut self) -> Halt {
        loop {
            let until = self.ended.write_at();
            match self.next_event(until).await {
                Ok(event) => drop(event.and_then(|event| self.handle(event))),
                Err(halt) => return halt,
            }
            // Also where there is always another event.
            if until.is_some_and(|until| until <= Instant::now())
                && let Err(halt) = self.write_confirmed().await
            {
                return halt;
            }
        }
    }

    /// The next event; none where the deadline comes first. Meanwhile watchers are told how things stand.
    pub(super) async fn next_event(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<Option<Event>, Halt> {
        loop {
            let look = Some(self.heed_list());
            let sealer = self.heed_sealer();
            let progress = self.publish_progress();
            let times = [deadline, progress, look, sealer];
            let until = times.into_iter().flatten().min();
            let event = self.event_until(until).await?;
            if event.is_some() || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(event);
            }
        }
    }

    async fn event_until(&mut self, deadline: Option<Instant>) -> Result<Option<Event>, Halt> {
        let parts = &mut self.parts;
        let sleep = async {
            match deadline {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = parts.stopping.wait_for(|stopping| *stopping) => Err(Halt::Stop),
            Some(unreadable) = self.unreadable.1.recv() => Ok(Some(Event::Unreadable(unreadable))),
            event = parts.events.recv() => event.map(Some).ok_or(Halt::Stop),
            () = sleep => Ok(None),
        }
    }

    /// Does what every event needs whatever the job is doing, and gives back those of the round.
    pub(super) fn handle(&mut self, event: Event) -> Option<Event> {
        match event {
            Event::Connected {
                hello,
                session,
                admitted,
            } => {
                let _ = admitted.send(self.admit(hello, session));
                None
            }
            Event::Disconnected {
                session,
                name,
                reason,
                returns,
            } => {
                self.leave(session, &name, &reason, returns);
                None
            }
            Event::Frame { session, name, .. } | Event::Answer { session, name, .. }
                if !self.is_current(session, &name) =>
            {
                None
            }
            Event::Frame {
                name,
                frame: Frame::ModelRequest(request),
                ..
            } => {
                self.send_model(&name, request.version);
                None
            }
            Event::Frame {
                name,
                frame: Frame::ModelChunk(chunk),
                ..
            } => {
                self.model_sealed(&name, chunk);
                None
            }
            Event::Frame {
                name,
                frame: Frame::ModelRefused(refused),
                ..
            } => {
                self.model_refused(&name, refused.version);
                None
            }
            Event::Frame {
                name,
                frame: Frame::RoundConfirmed(confirmed),
                ..
            } => {
                self.confirmed(&name, &confirmed);
                None
            }
            Event::Frame {
                name,
                frame: Frame::RoundRefused(refused),
                ..
            } if self.ended.owes(&name, refused.round) => {
                self.result_refused(&name, &refused);
                None
            }
            event => Some(event),
        }
    }

    pub(super) fn job_done(&self) -> pb::JobDone {
        pb::JobDone {
            model: Some(self.model.name()),
        }
    }

    /// The model after a round, and its bytes.
    pub(super) fn set_model(&mut self, model: Model, bytes: Bytes) {
        (self.model, self.model_bytes) = (model, bytes);
        self.sealed_model.outdated();
    }

    /// Runs a call of the store, which waits for a disk, on a thread that may.
    pub(super) async fn stored<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Store, &str) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Halt> {
        let (store, name) = (self.parts.store.clone(), self.name.clone());
        let called = blocking(move || call(&*store, &name)).await;
        called.map_err(Halt::Broken)?.map_err(Halt::from)
    }

    /// Tells the watchers what has changed, not more often than they can look; gives the time of the next
    /// telling, where there is something to tell.
    fn publish_progress(&mut self) -> Option<Instant> {
        if !self.unpublished {
            return None;
        }
        let next = self.published.map(|published| published + PROGRESS_EVERY);
        if let Some(next) = next.filter(|next| Instant::now() < *next) {
            return Some(next);
        }
        self.publish(self.running.as_ref().map(|running| running.report.clone()));
        (self.published, self.unpublished) = (Some(Instant::now()), false);
        None
    }

    /// Tells the watchers where the job stands.
    pub(super) fn publish(&self, latest: Option<RoundReport>) {
        self.parts.status.send_modify(|status| {
            status.state = self.state;
            status.reason.clone_from(&self.reason);
            status.rounds_done = self.rounds_done;
            status.model_version = self.model.version();
            status.model_hash = crate::error::hex(self.model.hash());
            status.connected = self.members.keys().map(|name| name.to_string()).collect();
            status.waiting_for = match (&self.joining, &self.running) {
                (Some(joining), _) => {
                    let absent = |name: &&Arc<str>| !joining.has(name);
                    let names = self.members.keys().filter(absent);
                    names.map(|name| name.to_string()).collect()
                }
                (None, Some(running)) => running.waiting_for(),
                (None, None) => Vec::new(),
            };
            status.unconfirmed = self.ended.unconfirmed();
            status.warning.clone_from(&self.warning);
            status.lost = self.lost.iter().map(|name| name.to_string()).collect();
            if latest.is_some() {
                status.round = latest;
            }
        });
    }
}
