//! A server of a job that is not its coordinator: a decryptor, or one of several that compute together.
//!
//! [`ServerMachine`] connects to the coordinator as a party does, is told of rounds that begin, and answers the
//! coordinator's messages; it never ends a stage. It knows its job beforehand: its operator agrees to the job, whatever
//! a coordinator says. It must not forget the number of the latest round in which it took part: after a restart it
//! never comes back to that round.

mod api;
mod computing;
mod released;
mod rounds;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use blindsum_crypto::certificate::UnixSeconds;
use blindsum_protocol::{Follower, JobMemory, Message, Round, ServerIndex};
use bytes::Bytes;
use tracing::{debug, error, info, warn};

use crate::connection::{self, Connection, LinkId, Say};
use crate::coordinator::Hold;
use crate::error::wrong;
use crate::machine::Hand;
use crate::pb::coordinator_frame::Frame;
use crate::pb::{self, CoordinatorFrame, PartyFrame, RefusalCode, RoundRefusalCode};
use crate::released::Releases;
use crate::{JobError, foreign};

use released::keep_releases;

pub use api::{CurrentIdentity, Effect, Input, Parts, ServerMachine, UploadId, Uploaded};

/// Everything that such a server has.
struct Server {
    hand: Hand<Input, Effect>,
    parts: Parts,
    connection: Connection<()>,
    /// Whether a coordinator has ever welcomed it: the two fit together then.
    was_welcomed: bool,
    /// The latest round that it was in.
    last_round: u64,
    /// What its machines keep of the job between rounds.
    memory: Arc<JobMemory>,
    active: Option<Active>,
    /// Of which survivors it has opened results.
    releases: Arc<Releases>,
    /// What parties uploaded for a round that this server has not heard of yet, the latest of each.
    early: BTreeMap<String, Upload>,
}

/// A party's part of an answer, on its way into the machine.
struct Upload {
    id: UploadId,
    round: u64,
    message: Bytes,
    /// Freed when it was taken, or is not wanted.
    _hold: Hold,
}

/// The round that it is in.
struct Active {
    round: Arc<Round>,
    /// When the certificates of its members were checked.
    certified: UnixSeconds,
    /// None while it computes.
    follower: Option<Follower>,
    /// The number behind that of the latest message that it heard.
    heard: u8,
    /// Whether it talks with others that compute with it: what is lost between them then ends the round.
    is_talking: bool,
}

/// Why a connection, or everything, ends.
enum Ended {
    /// The connection. It may be made again.
    Lost(String),
    /// The same, by what the coordinator did wrong.
    Faulty(JobError),
    /// The job is done.
    Done,
    Failed(JobError),
}

impl From<JobError> for Ended {
    fn from(error: JobError) -> Self {
        match error {
            // guard: servers-outlive-a-fault
            JobError::Coordinator(_) => Ended::Faulty(error),
            error => Ended::Failed(error),
        }
    }
}

impl Server {
    fn new(parts: Parts, hand: Hand<Input, Effect>) -> Self {
        Self {
            releases: Releases::new(&parts.job, Vec::new(), keep_releases(&parts.records)),
            hand,
            parts,
            connection: Connection::default(),
            was_welcomed: false,
            last_round: 0,
            memory: Arc::default(),
            active: None,
            early: BTreeMap::new(),
        }
    }

    /// Runs until the job is done, or nothing more can be done.
    async fn run(mut self) {
        let result = match self.recall().await {
            Ok(()) => self.run_to_end().await,
            Err(error) => Err(error),
        };
        self.hand.say(Effect::Over(result));
    }

    async fn run_to_end(&mut self) -> Result<(), JobError> {
        loop {
            let Some(input) = self.hand.next(None).await else {
                continue;
            };
            match self.take(input).await {
                Ok(()) => {}
                Err(Ended::Lost(reason)) => {
                    warn!(role = %self.parts.role, %reason, "the coordinator ends the connection");
                    self.leave_link(reason);
                }
                Err(Ended::Done) => return Ok(()),
                Err(Ended::Faulty(error)) => {
                    error!(role = %self.parts.role, %error, "the connection is given up");
                    self.leave_link(error.to_string());
                }
                Err(Ended::Failed(error)) => return Err(error),
            }
        }
    }

    async fn take(&mut self, input: Input) -> Result<(), Ended> {
        match input {
            Input::Linked(link) => self.linked(link),
            Input::Lost(link, reason) if self.connection.is_over(link) => {
                debug!(role = %self.parts.role, %reason, "the connection has ended");
                self.connection.lose();
            }
            Input::Frame(link, frame) if self.connection.is_over(link) => self.heard(frame).await?,
            Input::Upload {
                id,
                name,
                round,
                message,
                hold,
            } => {
                let upload = Upload {
                    id,
                    round,
                    message,
                    _hold: hold,
                };
                self.take_upload(name, upload).await?;
            }
            Input::UploadGone(id) => self.early.retain(|_, upload| upload.id != id),
            Input::Letter {
                from,
                round,
                letter,
            } => self.hear(from, round, letter).await?,
            Input::LineLost { to, reason } => self.line_lost(to, &reason),
            // Of a connection that was given up.
            Input::Lost(..) | Input::Frame(..) => {}
        }
        Ok(())
    }

    fn linked(&mut self, link: LinkId) {
        if !self.connection.begin(link) {
            return;
        }
        let active = self.active.as_ref();
        let hello = pb::Hello {
            round: active.map_or(0, |active| active.round.number()),
            answered: active.map_or(0, |active| active.heard.into()),
            last_round: self.last_round,
            ..connection::hello(&self.parts.job.spec().job, &self.parts.name)
        };
        self.hand.say(Effect::Send(link, Say::Frame(hello.into())));
    }

    /// Gives up the connection, for another one.
    fn leave_link(&mut self, reason: String) {
        self.connection.lose();
        let link = self.connection.id();
        self.hand.say(Effect::Reconnect(link, reason));
    }

    /// Says something, where there is somebody to hear it.
    fn say(&self, say: Say) {
        if let Some(link) = self.connection.welcomed() {
            self.hand.say(Effect::Send(link, say));
        }
    }

    fn send(&self, frame: impl Into<PartyFrame>) {
        self.say(Say::Frame(frame.into()));
    }

    /// The error of a record that cannot be used.
    fn unusable(&self, record: &str, reason: impl Display) -> JobError {
        JobError::State {
            path: self.parts.records.place().join(record),
            reason: reason.to_string(),
        }
    }

    /// Tells the coordinator that this server has no further part in a round.
    fn refuse(&mut self, round: u64, code: RoundRefusalCode, reason: String) {
        let code = code.into();
        self.refuse_with(pb::RoundRefused {
            round,
            code,
            reason,
            ..pb::RoundRefused::default()
        });
    }

    fn refuse_with(&mut self, refusal: pb::RoundRefused) {
        let (round, reason) = (refusal.round, &refusal.reason);
        warn!(role = %self.parts.role, round, %reason, "round refused");
        self.active.take_if(|active| active.round.number() == round);
        self.send(refusal);
    }

    /// Sends letters to other servers.
    fn send_letters(&self, round: u64, letters: Vec<(ServerIndex, Message)>) {
        for (to, letter) in letters {
            self.hand.say(Effect::Letter { to, round, letter });
        }
    }

    async fn heard(&mut self, frame: CoordinatorFrame) -> Result<(), Ended> {
        let frame = frame
            .frame
            .ok_or_else(|| wrong("a frame that is empty or unknown here"))?;
        match (self.connection.is_welcomed(), frame) {
            (_, Frame::Refused(refused)) => Err(refusal(refused)),
            (false, Frame::Welcome(welcome)) => self.welcome(&welcome),
            (false, _) => Err(wrong("the first frame must be a Welcome").into()),
            (true, frame) => self.frame(frame).await,
        }
    }

    fn welcome(&mut self, welcome: &pb::Welcome) -> Result<(), Ended> {
        if let Some(reason) = connection::unspoken(welcome) {
            return Err(self.unsuitable(reason));
        }
        if welcome.job_hash != self.parts.job.hash() {
            let (its, own) = (
                crate::hex(&welcome.job_hash),
                crate::hex(self.parts.job.hash()),
            );
            let reason = format!(
                "its job has the hash {}, and the job that this server was given {own}: compare the job files",
                foreign(&its)
            );
            return Err(self.unsuitable(reason));
        }
        info!(role = %self.parts.role, job = %self.parts.job.spec().job, "connected");
        self.connection.welcome();
        self.was_welcomed = true;
        Ok(())
    }

    /// What the coordinator's welcome means that does not fit: at first somebody must look after it, later it may pass.
    fn unsuitable(&self, reason: String) -> Ended {
        match self.was_welcomed {
            true => Ended::Faulty(wrong(reason)),
            false => Ended::Failed(wrong(reason)),
        }
    }

    async fn frame(&mut self, frame: Frame) -> Result<(), Ended> {
        match frame {
            Frame::RoundStart(start) => {
                self.started(start).await?;
                self.take_early().await?;
            }
            Frame::Chunk(chunk) => self.chunk(chunk).await?,
            Frame::RoundAborted(aborted) => self.over(aborted).await?,
            Frame::JobDone(_) => return Err(Ended::Done),
            _ => return Err(wrong("a frame that is for parties").into()),
        }
        Ok(())
    }
}

/// What a refusal means for the connection.
fn refusal(refused: pb::Refused) -> Ended {
    let code = refused.code();
    let reason = foreign(&refused.reason);
    match code {
        // There may be a new certificate by now, or soon; and a job that has failed goes on once its coordinator is started
        // again.
        RefusalCode::RefusalStopping
        | RefusalCode::RefusalTooSlow
        | RefusalCode::RefusalJobFailed
        | RefusalCode::RefusalOutOfTime
        | RefusalCode::RefusalCertificate => Ended::Lost(reason),
        code => Ended::Failed(JobError::Refused { code, reason }),
    }
}
