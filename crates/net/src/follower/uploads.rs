//! What parties give such a server: each upload is read in time, where there is memory for it, handed in, and answered.
//! A party has one under way: a newer one takes the place of the one before it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use blindsum_job::coordinator::Hold;
use blindsum_job::follower::{UploadId, Uploaded};
use blindsum_job::foreign;
use blindsum_protocol::{Job, ServerIndex};
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};
use tonic::{Status, Streaming};
use tracing::info;

use crate::chunks::{Assembly, CHUNK, Pushed};
use crate::computing::TakesUploads;
use crate::limits::Limits;
use crate::pb::{UploadAnswer, UploadChunk, UploadReply};
use crate::seconds;
use crate::serving::{Memory, Peer, Turn};

/// An upload on its way to who drives the server.
pub(super) struct Came {
    pub id: UploadId,
    pub name: String,
    pub round: u64,
    pub message: Bytes,
    pub hold: Hold,
    pub answer: oneshot::Sender<Uploaded>,
}

/// What happens where uploads come in.
pub(super) enum Visit {
    Came(Came),
    /// Nobody waits for an answer any more.
    Gone(UploadId),
}

/// Where uploads are taken.
pub(super) struct Desk {
    me: ServerIndex,
    job: String,
    parties: usize,
    /// Bytes of the largest upload.
    limit: u64,
    /// How long the stage takes in which parties upload.
    stage: Duration,
    chunk_timeout: Duration,
    hello_timeout: Duration,
    memory: Memory,
    next_id: AtomicU64,
    /// The latest upload of each party that has one under way; dropping its end gives it up.
    latest: Mutex<BTreeMap<Arc<str>, oneshot::Sender<()>>>,
    visits: mpsc::UnboundedSender<Visit>,
    stopping: watch::Receiver<bool>,
}

/// Why an upload is not taken.
enum Refusal {
    /// It never will be.
    Never(String),
    /// It may be later.
    Again(String),
}

impl Desk {
    /// A desk for a job, and where it is heard what comes there.
    pub fn new(
        me: ServerIndex,
        job: &Job,
        limits: &Limits,
        stopping: watch::Receiver<bool>,
    ) -> (Self, mpsc::UnboundedReceiver<Visit>) {
        let (visits, come) = mpsc::unbounded_channel();
        let inputs = job.plan().answers().filter(|step| step.input);
        let (limit, deadline) = inputs.fold((0, 0.0_f64), |(limit, deadline), step| {
            (step.largest.max(limit), step.deadline.max(deadline))
        });
        let desk = Self {
            me,
            job: job.spec().job.clone(),
            parties: job.spec().parties as usize,
            limit,
            stage: seconds(deadline),
            chunk_timeout: seconds(limits.chunk_timeout),
            hello_timeout: seconds(limits.hello_timeout),
            memory: Memory::new(limits.message_memory),
            next_id: AtomicU64::new(1),
            latest: Mutex::default(),
            visits,
            stopping,
        };
        (desk, come)
    }

    /// Takes the place of the party's upload before; gives what ends when another one takes this one's.
    fn newest(&self, name: &Arc<str>) -> oneshot::Receiver<()> {
        let (newest, replaced) = oneshot::channel();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.retain(|_, under_way| !under_way.is_closed());
        latest.insert(name.clone(), newest);
        replaced
    }

    /// Reads one upload and hands it in.
    async fn receive(
        &self,
        name: &str,
        pieces: &mut Streaming<UploadChunk>,
    ) -> Result<Uploaded, Refusal> {
        let first = next(pieces, self.hello_timeout).await?;
        if first.job != self.job {
            let job = foreign(&first.job);
            return Err(Refusal::Never(format!("there is no job {job:?} here")));
        }
        let (round, bytes) = (first.round, first.total);
        // guard: uploads-are-limited
        let assembly = Assembly::begin(bytes, self.limit).map_err(wrong)?;
        let memory = self.memory.take(bytes, self.stage);
        let full = |_| Refusal::Again("no memory to spare".into());
        let held = timeout(self.chunk_timeout, memory).await.map_err(full)?;
        let turn = Turn {
            begun: Instant::now(),
            bytes,
            messages: self.parties,
            stage: self.stage,
        };
        let message = tokio::select! {
            message = self.assemble(assembly, first, pieces) => message?,
            () = self.memory.clone().turn_over(turn), if held.is_some() => {
                return Err(Refusal::Again("others wait for the memory that it holds".into()));
            }
        };
        let hold = held.map_or_else(Hold::default, Hold::of);
        self.hand_in(name, round, message, hold).await
    }

    async fn assemble(
        &self,
        mut assembly: Assembly,
        first: UploadChunk,
        pieces: &mut Streaming<UploadChunk>,
    ) -> Result<Bytes, Refusal> {
        let (round, mut chunk) = (first.round, first);
        loop {
            if chunk.round != round || chunk.job != self.job {
                return Err(Refusal::Never("pieces of two uploads in one".into()));
            }
            let pushed = assembly.push(chunk.offset, chunk.total, chunk.data);
            assembly = match pushed.map_err(wrong)? {
                Pushed::Whole(message) => return Ok(message),
                Pushed::Part(part) => part,
            };
            chunk = next(pieces, self.chunk_timeout).await?;
        }
    }

    /// Hands it in, and waits for what becomes of it, no longer than a round may take to begin and to collect uploads.
    async fn hand_in(
        &self,
        name: &str,
        round: u64,
        message: Bytes,
        hold: Hold,
    ) -> Result<Uploaded, Refusal> {
        let id = UploadId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        let stopping = || Refusal::Again("this server is stopping".into());
        let came = Came {
            id,
            name: name.into(),
            round,
            message,
            hold,
            answer,
        };
        let sent = self.visits.send(Visit::Came(came));
        sent.map_err(|_| stopping())?;
        let _waits = Waits { id, desk: self };
        // guard: early-uploads-do-not-stay
        match timeout(self.stage, answered).await {
            Ok(Ok(uploaded)) => Ok(uploaded),
            Ok(Err(_)) => Err(stopping()),
            Err(_) => Err(Refusal::Again("the round has not begun here".into())),
        }
    }
}

/// Somebody who waits for an answer; says so when this ends.
struct Waits<'a> {
    id: UploadId,
    desk: &'a Desk,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let _ = self.desk.visits.send(Visit::Gone(self.id));
    }
}

#[tonic::async_trait]
impl TakesUploads for Desk {
    async fn take(
        &self,
        peer: Peer,
        mut pieces: Streaming<UploadChunk>,
    ) -> Result<UploadReply, Status> {
        let replaced = self.newest(&peer.name);
        let mut stopping = self.stopping.clone();
        let again = |reason: &str| Err(Refusal::Again(reason.into()));
        let taken = tokio::select! {
            taken = self.receive(&peer.name, &mut pieces) => taken,
            _ = replaced => again("the party uploads again"),
            _ = stopping.wait_for(|stopping| *stopping) => again("this server is stopping"),
        };
        let (answer, reason) = match taken {
            Ok(Uploaded::Taken) => (UploadAnswer::Taken, String::new()),
            Ok(Uploaded::Refused(reason)) | Err(Refusal::Never(reason)) => {
                info!(party = %peer.name, address = %peer.address, %reason, "upload refused");
                (UploadAnswer::Refused, reason)
            }
            Err(Refusal::Again(reason)) => (UploadAnswer::Again, reason),
        };
        Ok(UploadReply {
            answer: answer.into(),
            reason,
            place: self.me.number().into(),
        })
    }
}

/// The next piece, which must come in time.
async fn next(pieces: &mut Streaming<UploadChunk>, time: Duration) -> Result<UploadChunk, Refusal> {
    let seconds = time.as_secs_f64();
    let late = |_| {
        Refusal::Again(format!(
            "too slow: no piece of {CHUNK} bytes within {seconds} s"
        ))
    };
    // guard: uploads-come-in-time
    match timeout(time, pieces.message()).await.map_err(late)? {
        Ok(Some(chunk)) => Ok(chunk),
        Ok(None) => Err(Refusal::Never("the upload ends before it is whole".into())),
        Err(status) => Err(Refusal::Again(status.message().into())),
    }
}

fn wrong(error: crate::chunks::ChunkError) -> Refusal {
    Refusal::Never(format!("upload: {error}"))
}
