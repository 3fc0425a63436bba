//! The party at work: what comes is handled one by one, whatever it is (`rounds.rs`, `joining.rs`).

use std::sync::Arc;

use blindsum_encode::Sent;
use blindsum_protocol::{Job, JobSpec, MemoryVault, Vault};
use rand_core::Rng;
use tracing::{debug, info, warn};

use super::active::Active;
use super::certificates::Certificates;
use super::greeting::Introduction;
use super::resume::Marks;
use super::sparse::Leftover;
use super::state::{JobFolder, JobState, Memory};
use super::sums::Sums;
use super::taking::Untaken;
use super::vault::SealedVault;
use super::{Effect, Identity, Input, LinkId, Over, Say, Settings, Told};
use crate::actor::{Hand, Time};
use crate::chunks::Assembly;
use crate::pb::coordinator_frame::Frame;
use crate::pb::{self, CoordinatorFrame, PartyFrame};
use crate::records::Records;
use crate::{JobError, Model, foreign};

/// Why a connection, or everything, ends.
pub(super) enum Ended {
    /// The connection. It may be made again.
    Lost(String),
    Over(Over),
    Failed(JobError),
}

impl From<JobError> for Ended {
    fn from(error: JobError) -> Self {
        Ended::Failed(error)
    }
}

/// Everything that a party has.
pub(super) struct Member {
    pub hand: Hand<Input, Effect>,
    pub settings: Settings,
    pub identity: Identity,
    /// What it says of itself when it connects.
    pub introduction: Introduction,
    /// The first Welcome, which told the job.
    pub welcome: Option<pb::Welcome>,
    pub job: Option<Arc<Job>>,
    pub model: Option<Model>,
    /// The model that the records have.
    pub kept: Option<pb::ModelName>,
    /// The latest connection, and whether it still holds.
    pub link: (LinkId, Link),
    /// Whether a newer certificate waits to be shown.
    pub newer: bool,
    /// The round that this connection has begun: nothing is answered in it before both know what came.
    pub begun: Option<u64>,
    pub active: Option<Active>,
    pub offer: Option<pb::RoundOffer>,
    /// Whether the caller waits for a round.
    pub wanted: bool,
    pub certificates: Certificates,
    /// The model that was asked for over this connection, and what has come of it.
    pub requested: Option<(pb::ModelName, Option<Assembly>)>,
    /// The version of a model that came sealed and could not be opened.
    pub unopened: Option<u64>,
    /// The job is done, and its last model is this.
    pub done: Option<pb::ModelName>,
    pub memory: Memory,
    /// A round from before the process was started counts its update, which the caller has not heard, and why its result
    /// does not come.
    pub missed: Option<(u64, String)>,
    /// The latest round of which the caller was told the result.
    pub told: Option<u64>,
    /// That result, until the caller has taken it.
    pub untaken: Option<Untaken>,
    /// What this process said it is ready with, until the round begins. In no record: see [`JobState::write`].
    pub ready: Option<pb::Ready>,
    /// The parties of earlier sums.
    pub sums: Sums,
    pub folder: Option<Arc<JobFolder>>,
    pub records: Option<Arc<dyn Records>>,
    /// Where the party may be suspended.
    pub marks: Option<Marks>,
    /// The records of this job, once it is known.
    pub state: Option<Arc<JobState>>,
    /// The snapshot that the records had when the process began.
    pub snapshot: Vec<u8>,
    /// What the party keeps of the job between rounds.
    pub vault: Arc<dyn Vault>,
    /// What it has not sent yet, where rounds are sparse.
    pub leftover: Option<Leftover>,
    /// What was sent of an update in a sparse round, until its result is taken.
    pub sent: Option<(u64, Sent)>,
    /// Whether the log has said already that updates are clipped, and what to do.
    pub clipping_told: bool,
}

/// How a connection stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    Lost,
    /// The Hello was said.
    Greeting,
    Welcomed,
}

impl Member {
    pub fn new(
        settings: Settings,
        identity: Identity,
        records: Option<Arc<dyn Records>>,
        marks: Option<Marks>,
        hand: Hand<Input, Effect>,
    ) -> Self {
        let mut process = [0; 16];
        hand.random().fill_bytes(&mut process);
        Self {
            hand,
            settings,
            identity,
            introduction: Introduction::of(process),
            welcome: None,
            job: None,
            model: None,
            kept: None,
            link: (LinkId::default(), Link::Lost),
            newer: false,
            begun: None,
            active: None,
            offer: None,
            wanted: false,
            certificates: Certificates::default(),
            requested: None,
            unopened: None,
            done: None,
            memory: Memory::default(),
            missed: None,
            told: None,
            untaken: None,
            ready: None,
            sums: Sums::default(),
            folder: None,
            records,
            marks,
            state: None,
            snapshot: Vec::new(),
            vault: Arc::new(MemoryVault::default()),
            leftover: None,
            sent: None,
            clipping_told: false,
        }
    }

    /// Runs until the job is over, the caller leaves, or nothing more can be done.
    pub async fn run(mut self) {
        let over = match self.run_to_end().await {
            Ok(over) => over,
            Err(error) => {
                if let Some(round) = self.active.as_ref().map(|active| active.number) {
                    let reason = error.to_string();
                    self.end_round(JobError::Dropped { round, reason });
                }
                Over::Failed(error)
            }
        };
        if !matches!(over, Over::Left)
            && let Some((round, reason)) = self.missed.take()
        {
            self.tell(Told::Refused(JobError::Missed { round, reason }));
        }
        self.tell(Told::Over(over));
    }

    async fn run_to_end(&mut self) -> Result<Over, JobError> {
        self.recall().await?;
        self.resume().await?;
        loop {
            let times = [self.overdue_from(), self.idle_from()];
            let until = times.into_iter().flatten().min();
            let done = match self.hand.next(until).await {
                Some(input) => self.take(input).await,
                None => self.time_has_come().await,
            };
            match done.and_then(|()| self.renewed()) {
                Ok(()) => {}
                Err(Ended::Lost(reason)) => {
                    self.lose_link();
                    self.hand.say(Effect::Reconnect(self.link.0, reason));
                }
                Err(Ended::Over(over)) => return Ok(over),
                Err(Ended::Failed(error)) => return Err(error),
            }
            if let Some(over) = self.over() {
                return Ok(over);
            }
        }
    }

    /// What was remembered before anything of the job is known.
    async fn recall(&mut self) -> Result<(), JobError> {
        let Some(records) = self.records.clone() else {
            return Ok(());
        };
        let (key, ca) = (self.identity.key.clone(), self.identity.ca);
        let read = move || {
            let folder = JobFolder::new(records.clone(), &key)?;
            let memory = folder.last()?;
            let sums = Sums::open(records, &ca)?;
            Ok::<_, JobError>((folder, memory, sums))
        };
        let (folder, memory, sums) = self.hand.work(read).await??;
        (self.folder, self.memory, self.sums) = (Some(folder), memory, sums);
        Ok(())
    }

    async fn take(&mut self, input: Input) -> Result<(), Ended> {
        match input {
            Input::Linked(link) => self.linked(link),
            Input::Lost(link, reason) if link == self.link.0 => {
                debug!(party = %self.identity.name, %reason, "the connection has ended");
                self.lose_link();
            }
            Input::Frame(link, frame) if link == self.link.0 => self.heard(frame).await?,
            // Of a connection that was given up.
            Input::Lost(..) | Input::Frame(..) => {}
            Input::Renewed => self.newer = true,
            Input::Suspend => self.suspend().await?,
            Input::Leave => return Err(Ended::Over(Over::Left)),
            Input::GiveUp(reason) => {
                return Err(match self.done {
                    // It is done all the same; its last model nobody tells any more.
                    Some(_) => Ended::Over(Over::JobDone(None)),
                    None => JobError::System(reason).into(),
                });
            }
            command => match self.obey(command).await {
                // What a machine says now is sent when the round is taken up again.
                Err(error) if self.link.1 != Link::Welcomed => {
                    warn!(%error, "without a connection");
                }
                done => done?,
            },
        }
        Ok(())
    }

    async fn heard(&mut self, frame: CoordinatorFrame) -> Result<(), Ended> {
        let empty = || JobError::Coordinator("a frame that is empty or unknown here".into());
        let link = self.link.1;
        match (link, frame.frame) {
            (Link::Lost, _) => Ok(()),
            (_, None) => Err(empty().into()),
            (Link::Greeting, Some(frame)) => self.welcome(frame).await,
            (Link::Welcomed, Some(frame)) => self.frame(frame).await,
        }
    }

    /// What the caller wants.
    async fn obey(&mut self, command: Input) -> Result<(), JobError> {
        match command {
            Input::WantRound => self.want_round().await,
            Input::Submit {
                round,
                update,
                weight,
            } => self.submitted(round, update, weight).await,
            Input::Took(round) => self.takes(round).await,
            Input::Abandon(round) => self.abandoned(round).await,
            _ => Ok(()),
        }
    }

    /// When the round under way has passed its deadlines. Without a connection nothing can be asked about an update
    /// that may count.
    fn overdue_from(&self) -> Option<Time> {
        let linked = self.link.1 == Link::Welcomed;
        let active = self.active.as_ref();
        let active = active.filter(|active| linked || !active.may_count());
        active.map(|active| active.deadline)
    }

    async fn time_has_come(&mut self) -> Result<(), Ended> {
        match self.overdue_from() {
            Some(deadline) if deadline <= self.hand.now() => self.overdue().await,
            _ => self.work_ahead().await.map_err(Ended::Failed),
        }
    }

    fn linked(&mut self, link: LinkId) {
        if link <= self.link.0 {
            return;
        }
        self.lose_link();
        self.link = (link, Link::Greeting);
        self.newer = false;
        let hello = self.hello();
        self.hand.say(Effect::Send(link, Say::Frame(hello.into())));
    }

    fn lose_link(&mut self) {
        self.link.1 = Link::Lost;
        self.begun = None;
        self.certificates = Certificates::default();
        self.requested = None;
        self.offer = None;
        self.active.iter_mut().for_each(Active::connection_lost);
    }

    /// Between rounds the party shows a newer certificate over another connection: the one that it has shown may be
    /// over soon.
    fn renewed(&self) -> Result<(), Ended> {
        match self.newer && self.active.is_none() && self.link.1 == Link::Welcomed {
            true => Err(Ended::Lost(
                "the certificate was renewed; showing the new one".into(),
            )),
            false => Ok(()),
        }
    }

    /// Says a frame, where there is somebody to hear it.
    pub fn send(&self, frame: impl Into<PartyFrame>) {
        self.say(Say::Frame(frame.into()));
    }

    pub fn say(&self, say: Say) {
        if self.link.1 == Link::Welcomed {
            self.hand.say(Effect::Send(self.link.0, say));
        }
    }

    pub fn tell(&self, told: Told) {
        self.hand.say(Effect::Tell(told));
    }

    async fn welcome(&mut self, frame: Frame) -> Result<(), Ended> {
        let welcome = match frame {
            Frame::Welcome(welcome) => welcome,
            Frame::Refused(refused) => return Err(self.refused(refused)),
            _ => {
                // Something was lost on the way: another connection begins with one.
                let reason = "the first frame must be a Welcome";
                return Err(Ended::Lost(reason.into()));
            }
        };
        if !pb::WIRE_VERSIONS.contains(&welcome.version) {
            let reason = format!("wire version {} is not spoken here", welcome.version);
            return Err(JobError::Coordinator(reason).into());
        }
        match &self.job {
            Some(job) if welcome.job_hash == job.hash() => {}
            Some(_) => {
                let reason = "the coordinator has changed the job".into();
                return Err(JobError::Coordinator(reason).into());
            }
            None => {
                let job = self.learn_job(&welcome).await?;
                self.welcome = Some(welcome.clone());
                self.tell(Told::Joined(job));
            }
        }
        info!(party = %self.identity.name, job = %self.settings.job,
            coordinator = %foreign(&welcome.program), "connected");
        self.link.1 = Link::Welcomed;
        let now = self.hand.now();
        let active = self.active.iter_mut();
        active.for_each(|active| active.connected_again(now));
        Ok(())
    }

    /// Reads and judges the job before anything is said in it.
    pub(super) async fn learn_job(&mut self, welcome: &pb::Welcome) -> Result<Arc<Job>, JobError> {
        let spec: JobSpec = serde_json::from_str(&welcome.job_spec).map_err(|e| {
            JobError::Coordinator(format!(
                "the job specification cannot be read ({}); {} and {} may be too far apart",
                foreign(&e.to_string()),
                foreign(&welcome.program),
                pb::PROGRAM
            ))
        })?;
        if spec.job != self.settings.job {
            let reason = format!("the job is called {:?}", spec.job);
            return Err(JobError::Coordinator(reason));
        }
        // Before the job is checked: that allocates by its numbers.
        self.settings.policy.check_spec(&spec)?;
        let job = Arc::new(spec.validate()?);
        if welcome.job_hash != job.hash() {
            let reason = "the job specification does not have the hash announced".into();
            return Err(JobError::Coordinator(reason));
        }
        self.settings.policy.check_job(&job)?;
        if let Some(folder) = self.folder.clone() {
            let hash = *job.hash();
            let opened = self.hand.work(move || folder.enter(&hash)).await??;
            let state = Arc::new(opened.state);
            self.vault = Arc::new(SealedVault::new(state.clone(), self.hand.random()));
            self.state = Some(state);
            (self.memory, self.snapshot) = (opened.memory, opened.snapshot);
        }
        self.job = Some(job.clone());
        self.model = self.kept_model().await?;
        self.leftover = self.kept_leftover(&job).await?;
        Ok(job)
    }

    async fn frame(&mut self, frame: Frame) -> Result<(), Ended> {
        match frame {
            Frame::Refused(refused) => return Err(self.refused(refused)),
            // A host that was killed before it kept the mark of a state hears the same once more.
            Frame::Welcome(welcome) if self.welcome.as_ref() == Some(&welcome) => {}
            Frame::Welcome(_) => return Err(Ended::Lost("a second Welcome".into())),
            Frame::RoundOffer(offer) => self.offered(offer).await?,
            Frame::ModelChunk(chunk) => self.model_chunk(chunk).await?,
            Frame::RoundStart(start) => self.started(start).await?,
            Frame::Chunk(chunk) => self.chunk(chunk).await?,
            Frame::RoundAborted(aborted) => self.aborted(aborted).await?,
            Frame::RoundDone(done) => self.round_done(done).await?,
            Frame::ModelWanted(wanted) => self.model_wanted(wanted).await?,
            Frame::JobDone(done) => self.job_done(done)?,
        }
        Ok(())
    }

    /// Whether the job is done and its last model here, where it comes from the coordinator. What was lost on the way is
    /// asked for over the next connection.
    fn over(&self) -> Option<Over> {
        let done = self.done.as_ref().filter(|_| self.untaken.is_none())?;
        let model = self.model.as_ref().filter(|model| model.is(done));
        match model {
            None if !self.comes_sealed(done) => None,
            model => Some(Over::JobDone(model.cloned())),
        }
    }
}
