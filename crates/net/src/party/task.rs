//! The connection of a party: it is made, kept, and made again, while frames and the caller's
//! commands are handled one by one (`rounds.rs`).

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use blindsum_protocol::{Job, JobSpec, MemoryVault, Vault};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tracing::{info, warn};

use super::active::Active;
use super::certificates::Certificates;
use super::greeting::Introduction;
use super::sparse::Leftover;
use super::state::{JobFolder, Memory, StateFile};
use super::sums::Sums;
use super::vault::FileVault;
use super::{PartyConfig, RoundHandle, Update};
use crate::chunks::Assembly;
use crate::connect::{ConnectError, Connected, Target};
use crate::error::with_causes;
use crate::limits::seconds;
use crate::outbox::{Outbox, SendEnd, send_all};
use crate::pb::coordinator_frame::Frame;
use crate::pb::{self, CoordinatorFrame, PartyFrame};
use crate::stream::Traffic;
use crate::tls::OwnIdentity;
use crate::{Model, NetError};

/// Time for each step of a connection.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Time for the last frames to go out.
pub(super) const GOODBYE_TIME: Duration = Duration::from_secs(1);
/// The first and the longest pause between two attempts to connect.
const PAUSES: (f64, f64) = (0.1, 5.0);

/// What the caller wants.
pub(super) enum Command {
    /// To take part in the next round.
    WantRound,
    /// To give its update.
    Submit {
        round: u64,
        update: Update,
        weight: u32,
    },
    /// To give none.
    Abandon(u64),
    /// To leave.
    Leave,
}

/// What the caller is told.
pub(super) enum Notice {
    Joined(Arc<Job>),
    Round(Box<RoundHandle>),
    /// A round that the party's policy refuses, or one from before it was started again, which counts its update; the
    /// next one may be better.
    Refused(NetError),
    JobDone(Option<Model>),
    Failed(NetError),
}

/// How it all ended.
pub(super) enum Over {
    JobDone(Option<Model>),
    Left,
}

/// How a connection ended.
pub(super) enum Ended {
    /// It may be made again.
    Lost(String),
    Over(Over),
    Failed(NetError),
}

impl From<NetError> for Ended {
    fn from(error: NetError) -> Self {
        Ended::Failed(error)
    }
}

/// A party's work behind the scenes.
pub(super) struct Task {
    pub config: PartyConfig,
    pub identity: OwnIdentity,
    pub commands: UnboundedSender<Command>,
    pub notices: Sender<Notice>,
    pub target: Target,
    received: UnboundedReceiver<Command>,
    /// What it says of itself when it connects.
    pub introduction: Introduction,
    pub job: Option<Arc<Job>>,
    pub model: Option<Model>,
    /// The model that the state folder has.
    pub kept: Option<pb::ModelName>,
    /// The connection, while there is one.
    pub outbox: Option<Outbox<PartyFrame>>,
    /// The round that this connection has begun: nothing is answered in it before both know what came.
    pub begun: Option<u64>,
    pub active: Option<Active>,
    pub offer: Option<pb::RoundOffer>,
    /// Whether the caller waits for a round.
    pub wanted: bool,
    pub certificates: Certificates,
    /// The model that was asked for over this connection, and what has come of it.
    pub requested: Option<(pb::ModelName, Option<Assembly>)>,
    /// The job is done, and its last model is this.
    pub done: Option<pb::ModelName>,
    pub memory: Memory,
    /// A round from before the process was started counts its update, which the caller has not heard.
    pub missed: Option<NetError>,
    /// What this process said it is ready with, until the round begins. In no file: see [`StateFile::write`].
    pub ready: Option<pb::Ready>,
    /// The parties of earlier sums.
    pub sums: Sums,
    folder: Option<Arc<JobFolder>>,
    /// The file in it of this job, once the job is known.
    pub state: Option<Arc<StateFile>>,
    /// The snapshot that the state file had when the process began.
    pub snapshot: Vec<u8>,
    /// What the party keeps of the job between rounds.
    pub vault: Arc<dyn Vault>,
    /// What it has not sent yet, where rounds are sparse.
    pub leftover: Option<Leftover>,
    /// Whether the log has said already that updates are clipped, and what to do.
    pub clipping_told: bool,
}

impl Task {
    pub fn new(
        config: PartyConfig,
        identity: OwnIdentity,
        introduction: Introduction,
        target: Target,
        commands: UnboundedSender<Command>,
        received: UnboundedReceiver<Command>,
        notices: Sender<Notice>,
    ) -> Self {
        Self {
            config,
            identity,
            commands,
            notices,
            target,
            received,
            introduction,
            job: None,
            model: None,
            kept: None,
            outbox: None,
            begun: None,
            active: None,
            offer: None,
            wanted: false,
            certificates: Certificates::default(),
            requested: None,
            done: None,
            memory: Memory::default(),
            missed: None,
            ready: None,
            sums: Sums::default(),
            folder: None,
            state: None,
            snapshot: Vec::new(),
            vault: Arc::new(MemoryVault::default()),
            leftover: None,
            clipping_told: false,
        }
    }

    /// Runs until the job is over, the caller leaves, or nothing more can be done.
    pub async fn run(mut self) {
        let notice = match self.run_to_end().await {
            Ok(Over::Left) => return,
            Ok(Over::JobDone(model)) => Notice::JobDone(model),
            Err(error) => {
                if let Some(round) = self.active.as_ref().map(|active| active.number) {
                    let reason = error.to_string();
                    self.end_round(Err(NetError::Dropped { round, reason }));
                }
                Notice::Failed(error)
            }
        };
        if let Some(missed) = self.missed.take() {
            let _ = self.notices.send(Notice::Refused(missed));
        }
        let _ = self.notices.send(notice);
    }

    async fn run_to_end(&mut self) -> Result<Over, NetError> {
        if let Some(folder) = &self.config.state_dir {
            let folder = JobFolder::open(folder, &self.config.job, &self.identity.key)?;
            self.memory = folder.last()?;
            self.sums = Sums::open(folder.sums(&self.config.credentials.ca_fingerprint()?))?;
            self.folder = Some(folder);
        }
        let give_up = seconds(self.config.give_up_after);
        let time = CONNECT_TIME.min(give_up);
        let (mut until, mut pause) = (Instant::now() + give_up, PAUSES.0);
        loop {
            self.show_newest();
            let ended = match self.target.connect(time).await {
                Ok(connected) => self.converse(connected, time).await,
                Err(error) => self.no_connection(error),
            };
            if self.outbox.take().is_some() {
                (until, pause) = (Instant::now() + give_up, PAUSES.0);
            }
            self.forget_connection();
            let reason = match ended {
                Ended::Lost(reason) => reason,
                Ended::Over(over) => return Ok(over),
                Ended::Failed(error) => return Err(error),
            };
            if Instant::now() >= until {
                return Err(NetError::Unreachable {
                    url: self.target.url().into(),
                    seconds: self.config.give_up_after,
                    reason,
                });
            }
            warn!(party = %self.identity.name, %reason, pause, "no connection; trying again");
            if self.wait(Instant::now() + seconds(pause)).await {
                return Ok(Over::Left);
            }
            pause = (pause * 2.0).min(PAUSES.1);
        }
    }

    /// What came in the way of a connection. Whoever was welcomed before has the right address and
    /// certificates: whatever stands in the way now will pass.
    fn no_connection(&self, error: ConnectError) -> Ended {
        match error {
            ConnectError::Never(error) if self.job.is_none() => Ended::Failed(error),
            ConnectError::Never(error) => Ended::Lost(error.to_string()),
            ConnectError::Later(reason) => Ended::Lost(reason),
        }
    }

    fn forget_connection(&mut self) {
        self.begun = None;
        self.certificates = Certificates::default();
        self.requested = None;
        self.offer = None;
        self.active.iter_mut().for_each(Active::connection_lost);
    }

    /// Waits without a connection; true where the caller leaves meanwhile.
    async fn wait(&mut self, until: Instant) -> bool {
        loop {
            tokio::select! {
                () = sleep_until(until) => {
                    if let Err(error) = self.check_deadline().await {
                        warn!(%error, "without a connection");
                    }
                    return false;
                }
                command = self.received.recv() => match command {
                    None | Some(Command::Leave) => return true,
                    Some(command) => {
                        // What a machine says now is sent when the round is taken up again.
                        if let Err(error) = self.obey(command).await {
                            warn!(%error, "without a connection");
                        }
                    }
                }
            }
        }
    }

    /// One connection, from the Hello to its end.
    async fn converse(&mut self, connected: Connected, time: Duration) -> Ended {
        let Connected {
            mut client,
            traffic,
        } = connected;
        let (outbox, queue) = Outbox::new();
        outbox.frame(self.hello().into());
        let (stream, frames) = mpsc::channel(4);
        let timeout = seconds(self.config.chunk_timeout);
        let mut sending = tokio::spawn(async move { send_all(queue, &stream, timeout).await });
        let broken = |status: tonic::Status| self.target.broken(&traffic, with_causes(&status));
        let connect = client.connect(ReceiverStream::new(frames));
        let mut inbound = match tokio::time::timeout(time, connect).await {
            Ok(Ok(response)) => response.into_inner(),
            Ok(Err(status)) => return self.no_connection(broken(status)),
            Err(_) => return Ended::Lost("the coordinator does not answer the Hello".into()),
        };
        let welcome = match tokio::time::timeout(time, inbound.message()).await {
            Ok(Ok(Some(CoordinatorFrame { frame: Some(frame) }))) => frame,
            Ok(Ok(_)) => return Ended::Lost("the coordinator closed the connection".into()),
            Ok(Err(status)) => return self.no_connection(broken(status)),
            Err(_) => return Ended::Lost("the coordinator does not answer the Hello".into()),
        };
        if let Err(ended) = self.welcome(welcome) {
            return ended;
        }
        self.outbox = Some(outbox);
        self.active.iter_mut().for_each(Active::connected_again);
        let ended = loop {
            if let Err(ended) = self.next(&mut inbound, &mut sending, &traffic).await {
                break ended;
            }
            if let Some(over) = self.over() {
                break Ended::Over(over);
            }
        };
        if matches!(ended, Ended::Over(_) | Ended::Failed(_)) {
            // What was said last goes out, and the coordinator closes its side, before the
            // connection is dropped.
            self.outbox = None;
            let goodbye = async {
                if !sending.is_finished() {
                    let _ = (&mut sending).await;
                }
                while let Ok(Some(_)) = inbound.message().await {}
            };
            let _ = tokio::time::timeout(GOODBYE_TIME, goodbye).await;
        }
        ended
    }

    /// Waits for the next thing to happen, and does what it asks for.
    async fn next(
        &mut self,
        inbound: &mut Streaming<CoordinatorFrame>,
        sending: &mut JoinHandle<SendEnd>,
        traffic: &Traffic,
    ) -> Result<(), Ended> {
        let deadline = self.active.as_ref().map(|active| active.deadline);
        let at = |time: Option<Instant>| async move {
            match time {
                Some(time) => sleep_until(time).await,
                None => std::future::pending().await,
            }
        };
        let (overdue, idle) = (at(deadline), at(self.idle_from()));
        tokio::select! {
            // The caller's word comes first, however much the coordinator says; what has come counts before any deadline.
            biased;
            command = self.received.recv() => match command {
                None | Some(Command::Leave) => Err(Ended::Over(Over::Left)),
                Some(command) => self.obey(command).await.map_err(Ended::Failed),
            },
            frame = inbound.message() => match frame {
                Ok(Some(CoordinatorFrame { frame: Some(frame) })) => self.frame(frame).await,
                Ok(Some(_)) => Err(Ended::Failed(NetError::Coordinator(
                    "a frame that is empty or unknown here".into(),
                ))),
                Ok(None) => Err(Ended::Lost("the coordinator closed the connection".into())),
                Err(status) => {
                    let reason = traffic.error().map(str::to_owned);
                    Err(Ended::Lost(reason.unwrap_or_else(|| with_causes(&status))))
                }
            },
            end = sending => Err(match end {
                Ok(SendEnd::TooSlow) => Ended::Lost("the coordinator takes no more data".into()),
                _ => self.last_word(inbound).await,
            }),
            Ok(()) = self.identity.renewals.changed(), if self.active.is_none() => self.renewed(),
            () = overdue => self.overdue().await,
            () = idle => self.work_ahead().await.map_err(Ended::Failed),
        }
    }

    fn welcome(&mut self, frame: Frame) -> Result<(), Ended> {
        let welcome = match frame {
            Frame::Welcome(welcome) => welcome,
            Frame::Refused(refused) => return Err(self.refused(refused)),
            _ => {
                let reason = "the first frame must be a Welcome".into();
                return Err(NetError::Coordinator(reason).into());
            }
        };
        if !pb::WIRE_VERSIONS.contains(&welcome.version) {
            let reason = format!("wire version {} is not spoken here", welcome.version);
            return Err(NetError::Coordinator(reason).into());
        }
        match &self.job {
            Some(job) if welcome.job_hash == job.hash() => {}
            Some(_) => {
                let reason = "the coordinator has changed the job".into();
                return Err(NetError::Coordinator(reason).into());
            }
            None => {
                let job = self.learn_job(&welcome)?;
                let _ = self.notices.send(Notice::Joined(job));
            }
        }
        info!(party = %self.identity.name, job = %self.config.job,
            coordinator = %welcome.program, "connected");
        Ok(())
    }

    /// Reads and judges the job before anything is said in it.
    fn learn_job(&mut self, welcome: &pb::Welcome) -> Result<Arc<Job>, NetError> {
        let spec: JobSpec = serde_json::from_str(&welcome.job_spec).map_err(|e| {
            NetError::Coordinator(format!(
                "the job specification cannot be read ({e}); {} and {} may be too far apart",
                welcome.program,
                pb::PROGRAM
            ))
        })?;
        if spec.job != self.config.job {
            let reason = format!("the job is called {:?}", spec.job);
            return Err(NetError::Coordinator(reason));
        }
        // Before the job is checked: that allocates by its numbers.
        self.config.policy.check_spec(&spec)?;
        let job = Arc::new(spec.validate()?);
        if welcome.job_hash != job.hash() {
            let reason = "the job specification does not have the hash announced".into();
            return Err(NetError::Coordinator(reason));
        }
        self.config.policy.check_job(&job)?;
        if let Some(folder) = &self.folder {
            let opened = folder.enter(job.hash())?;
            let state = Arc::new(opened.state);
            self.vault = Arc::new(FileVault::new(state.clone()));
            self.state = Some(state);
            (self.memory, self.snapshot) = (opened.memory, opened.snapshot);
        }
        self.job = Some(job.clone());
        self.model = self.kept_model()?;
        self.leftover = self.kept_leftover(&job)?;
        Ok(job)
    }

    async fn frame(&mut self, frame: Frame) -> Result<(), Ended> {
        match frame {
            Frame::Refused(refused) => return Err(self.refused(refused)),
            Frame::Welcome(_) => {
                let reason = "a second Welcome".into();
                return Err(NetError::Coordinator(reason).into());
            }
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

    async fn obey(&mut self, command: Command) -> Result<(), NetError> {
        match command {
            Command::WantRound => self.want_round().await,
            Command::Submit {
                round,
                update,
                weight,
            } => self.submitted(round, update, weight).await,
            Command::Abandon(round) => self.abandoned(round).await,
            Command::Leave => Ok(()),
        }
    }

    /// Whether the job is done and its last model here.
    fn over(&self) -> Option<Over> {
        let done = self.done.as_ref()?;
        let model = self.model.as_ref().filter(|model| model.is(done));
        match model {
            None if self.requested.is_some() => None,
            model => Some(Over::JobDone(model.cloned())),
        }
    }
}
