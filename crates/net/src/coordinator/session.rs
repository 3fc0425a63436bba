//! One party's stream at the coordinator: the Hello is checked, frames are passed on to the job, and
//! messages are put together within the limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::{timeout, timeout_at};
use tonic::Streaming;
use tracing::{debug, info};

use super::listener::Peer;
use crate::chunks::{Assembly, CHUNK, Pushed};
use crate::limits::{Limits, seconds};
use crate::outbox::{Outbox, Queued, SendEnd, send_all};
use crate::pb::party_frame::Frame;
use crate::pb::{self, CoordinatorFrame, PartyFrame, RefusalCode};
use crate::relay::Unreadable;

/// What the job needs to talk to a connected party.
pub(crate) struct SessionHandle {
    pub id: u64,
    pub peer: Peer,
    pub outbox: Outbox<CoordinatorFrame>,
}

/// What a session tells its job.
pub(crate) enum Event {
    /// A party asks to be let in.
    Connected {
        hello: pb::Hello,
        session: SessionHandle,
        admitted: oneshot::Sender<Result<(), pb::Refused>>,
    },
    /// A connection has ended.
    Disconnected {
        session: u64,
        name: Arc<str>,
        reason: String,
        /// Whether the party may not know that, or was told to come back.
        returns: bool,
    },
    /// A frame other than a chunk.
    Frame {
        session: u64,
        name: Arc<str>,
        frame: Frame,
    },
    /// What a round passes on cannot be read.
    Unreadable(Unreadable),
    /// A whole answer to a stage, with the memory it was granted.
    Answer {
        session: u64,
        name: Arc<str>,
        round: u64,
        message: Bytes,
        memory: Option<OwnedSemaphorePermit>,
    },
}

/// Which messages may come now; everything else is dropped or refused before it takes memory.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    pub round: u64,
    pub stage: u32,
    /// Bytes of the largest message.
    pub limit: u64,
    /// Everybody in the round, and who still has a place in it.
    pub members: Arc<BTreeMap<Arc<str>, bool>>,
}

impl Gate {
    /// Whatever comes for this round, or for one before it, comes too late.
    pub fn closed(round: u64) -> Self {
        Self {
            round,
            stage: u32::MAX,
            ..Self::default()
        }
    }
}

/// Where a session finds its job.
#[derive(Clone)]
pub(crate) struct JobHandle {
    pub events: mpsc::Sender<Event>,
    pub gate: watch::Receiver<Gate>,
}

/// Memory for messages that are being received.
#[derive(Clone)]
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    all: u32,
}

impl Memory {
    /// In KiB, so that the count fits.
    pub fn new(bytes: u64) -> Self {
        let all = u32::try_from(bytes / 1024)
            .unwrap_or(u32::MAX)
            .clamp(1, Semaphore::MAX_PERMITS as u32);
        let free = Arc::new(Semaphore::new(all as usize));
        Self { free, all }
    }

    async fn take(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let wanted = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
        let permits = self.free.clone().acquire_many_owned(wanted.min(self.all));
        permits.await.ok()
    }
}

/// What all sessions share.
pub(crate) struct Sessions<F> {
    pub limits: Limits,
    pub memory: Memory,
    /// The job of a name.
    pub find: F,
    next_id: AtomicU64,
}

impl<F: Fn(&str) -> Option<JobHandle>> Sessions<F> {
    pub fn new(limits: Limits, find: F) -> Self {
        Self {
            memory: Memory::new(limits.message_memory),
            limits,
            find,
            next_id: AtomicU64::new(1),
        }
    }

    /// Serves one stream to its end.
    pub async fn serve(
        &self,
        peer: Peer,
        mut inbound: Streaming<PartyFrame>,
        stream: mpsc::Sender<CoordinatorFrame>,
    ) {
        let chunk_timeout = seconds(self.limits.chunk_timeout);
        let (outbox, queue) = Outbox::new();
        let begun = self.begin(&peer, &mut inbound, &outbox).await;
        let mut session = match begun {
            Ok((id, job)) => Session {
                id,
                job,
                name: peer.name.clone(),
                memory: self.memory.clone(),
                chunk_timeout,
                message: None,
                answered: Default::default(),
                frames: (0, Instant::now()),
            },
            Err(refused) => {
                info!(party = %peer.name, address = %peer.address, reason = %refused.reason,
                    "refused");
                outbox.put(Queued::Last(refused.into()));
                send_all(queue, &stream, chunk_timeout).await;
                return;
            }
        };
        let mut sending = Box::pin(send_all(queue, &stream, chunk_timeout));
        let (reason, returns) = tokio::select! {
            end = &mut sending => match end {
                SendEnd::Finished => ("ended by the coordinator".into(), false),
                SendEnd::Closed => ("lost: nothing more can be sent".into(), true),
                SendEnd::TooSlow => ("too slow: a chunk was not taken in time".to_owned(), true),
            },
            end = session.read_all(&mut inbound) => match end {
                End::Closed(reason) => (reason, false),
                End::Lost(reason) => (reason, true),
                End::Refused(code, reason) => {
                    outbox.put(Queued::Last(refused(code, reason.clone()).into()));
                    sending.await;
                    (reason, code == RefusalCode::RefusalTooSlow)
                }
            },
        };
        let reason = match peer.traffic.error() {
            Some(error) => format!("{reason} ({error})"),
            None => reason,
        };
        let (name, session) = (session.name.clone(), session);
        let event = Event::Disconnected {
            session: session.id,
            name,
            reason,
            returns,
        };
        let _ = session.job.events.send(event).await;
    }

    /// The Hello, and the job's word on it.
    async fn begin(
        &self,
        peer: &Peer,
        inbound: &mut Streaming<PartyFrame>,
        outbox: &Outbox<CoordinatorFrame>,
    ) -> Result<(u64, JobHandle), pb::Refused> {
        let hello = match timeout(seconds(self.limits.hello_timeout), inbound.message()).await {
            Ok(Ok(Some(PartyFrame {
                frame: Some(Frame::Hello(hello)),
            }))) => hello,
            Ok(_) => return Err(bad_frame("the first frame must be a Hello")),
            Err(_) => return Err(refused(RefusalCode::RefusalTooSlow, "no Hello in time")),
        };
        check_hello(&hello, peer)?;
        let job = (self.find)(&hello.job).ok_or_else(|| {
            let reason = format!("there is no job {:?} here", short(&hello.job));
            refused(RefusalCode::RefusalUnknownJob, reason)
        })?;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (admitted, answer) = oneshot::channel();
        let session = SessionHandle {
            id,
            peer: peer.clone(),
            outbox: outbox.clone(),
        };
        let event = Event::Connected {
            hello,
            session,
            admitted,
        };
        let gone = || refused(RefusalCode::RefusalStopping, "the coordinator is stopping");
        job.events.send(event).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())??;
        Ok((id, job))
    }
}

fn check_hello(hello: &pb::Hello, peer: &Peer) -> Result<(), pb::Refused> {
    let (first, last) = pb::WIRE_VERSIONS.into_inner();
    if hello.first_version > last || hello.last_version < first {
        let reason = format!(
            "{} speaks wire versions {first} to {last}, {} speaks {} to {}: update the older one",
            pb::PROGRAM,
            short(&hello.program),
            hello.first_version,
            hello.last_version
        );
        return Err(refused(RefusalCode::RefusalVersion, reason));
    }
    if *hello.name != *peer.name {
        let reason = format!(
            "the party calls itself {:?}, its certificate is that of {:?}",
            short(&hello.name),
            peer.name
        );
        return Err(refused(RefusalCode::RefusalName, reason));
    }
    Ok(())
}

/// A refusal.
pub(crate) fn refused(code: RefusalCode, reason: impl Into<String>) -> pb::Refused {
    pb::Refused {
        code: code.into(),
        reason: reason.into(),
        ..pb::Refused::default()
    }
}

fn bad_frame(reason: impl Into<String>) -> pb::Refused {
    refused(RefusalCode::RefusalBadFrame, reason)
}

/// Foreign text, cut to what a log line can bear.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

/// How reading ended.
enum End {
    Closed(String),
    Lost(String),
    Refused(RefusalCode, String),
}

impl From<pb::Refused> for End {
    fn from(refused: pb::Refused) -> Self {
        End::Refused(refused.code(), refused.reason)
    }
}

struct Session {
    id: u64,
    job: JobHandle,
    name: Arc<str>,
    memory: Memory,
    chunk_timeout: Duration,
    message: Option<PartMessage>,
    /// The place of the latest whole message, and how often one came for it.
    answered: ((u64, u32), u32),
    /// Frames other than chunks since a time.
    frames: (u32, Instant),
}

/// Frames other than chunks that are read of a party in a second: it has a handful to say in a round, and rounds may be
/// short.
const FRAMES_A_SECOND: u32 = 1000;

/// Times that a party may send its answer to one stage: more than it is asked for it over one connection.
const MOST_REPEATS: u32 = 8;

/// A message that is being received.
struct PartMessage {
    place: (u64, u32),
    assembly: Assembly,
    memory: Option<OwnedSemaphorePermit>,
    /// When the next piece must have come.
    next_until: tokio::time::Instant,
}

impl Session {
    async fn read_all(&mut self, inbound: &mut Streaming<PartyFrame>) -> End {
        loop {
            let next = inbound.message();
            let next = match &self.message {
                None => next.await,
                Some(message) => match timeout_at(message.next_until, next).await {
                    Ok(next) => next,
                    Err(_) => {
                        let reason = format!(
                            "too slow: no chunk of {CHUNK} bytes within {} s",
                            self.chunk_timeout.as_secs_f64()
                        );
                        return End::Refused(RefusalCode::RefusalTooSlow, reason);
                    }
                },
            };
            let frame = match next {
                Ok(Some(PartyFrame { frame: Some(frame) })) => frame,
                Ok(Some(PartyFrame { frame: None })) => {
                    return bad_frame("a frame that is empty or unknown here").into();
                }
                Ok(None) => return End::Closed("closed by the party".into()),
                Err(status) if status.code() == tonic::Code::OutOfRange => {
                    return bad_frame(status.message()).into();
                }
                Err(status) => return End::Lost(format!("lost: {}", status.message())),
            };
            let passed = match frame {
                Frame::Chunk(chunk) => self.chunk(chunk).await,
                Frame::Hello(_) => Err(bad_frame("a second Hello").into()),
                frame => {
                    self.keep_pace().await;
                    let event = Event::Frame {
                        session: self.id,
                        name: self.name.clone(),
                        frame,
                    };
                    self.pass(event).await
                }
            };
            if let Err(end) = passed {
                return end;
            }
        }
    }

    /// Waits for the next second where this one has had its frames: the party is not read meanwhile, and waits too.
    async fn keep_pace(&mut self) {
        const SECOND: Duration = Duration::from_secs(1);
        let (count, since) = &mut self.frames;
        *count += 1;
        if *count > FRAMES_A_SECOND {
            tokio::time::sleep(SECOND.saturating_sub(since.elapsed())).await;
        }
        if since.elapsed() >= SECOND {
            (*count, *since) = (1, Instant::now());
        }
    }

    async fn pass(&self, event: Event) -> Result<(), End> {
        let stopped = |_| End::Closed("the job has ended".into());
        self.job.events.send(event).await.map_err(stopped)
    }

    async fn chunk(&mut self, chunk: pb::Chunk) -> Result<(), End> {
        let place = (chunk.round, chunk.stage);
        let Some(limit) = self.limit_of(place)? else {
            return Ok(());
        };
        let wrong = |e: crate::chunks::ChunkError| End::from(bad_frame(format!("chunk: {e}")));
        let (assembly, memory) = match self.message.take() {
            Some(part) if part.place == place => (part.assembly, part.memory),
            _ => {
                let assembly = Assembly::begin(chunk.total, limit).map_err(wrong)?;
                let Ok(memory) = self.memory_for(chunk.total, place).await else {
                    return Ok(());
                };
                (assembly, memory)
            }
        };
        let pushed = assembly.push(chunk.offset, chunk.total, chunk.data);
        match pushed.map_err(wrong)? {
            Pushed::Part(assembly) => {
                self.message = Some(PartMessage {
                    place,
                    assembly,
                    memory,
                    next_until: tokio::time::Instant::now() + self.chunk_timeout,
                });
                Ok(())
            }
            Pushed::Whole(message) => {
                let times = match self.answered {
                    (known, times) if known == place => times + 1,
                    _ => 1,
                };
                self.answered = (place, times);
                let event = Event::Answer {
                    session: self.id,
                    name: self.name.clone(),
                    round: place.0,
                    message,
                    memory,
                };
                self.pass(event).await
            }
        }
    }

    /// How long a message for this round and stage may be; none where it comes too late, or its sender
    /// has lost its place and may not have heard of it.
    fn limit_of(&mut self, place: (u64, u32)) -> Result<Option<u64>, End> {
        let gate = self.job.gate.borrow().clone();
        let (round, stage) = place;
        if place < (gate.round, gate.stage) {
            debug!(party = %self.name, round, stage, "too late, dropped");
            self.message = None;
            return Ok(None);
        }
        if place != (gate.round, gate.stage) {
            let reason = format!(
                "a chunk of round {round}, stage {stage}, while round {}, stage {} is under way",
                gate.round, gate.stage
            );
            return Err(bad_frame(reason).into());
        }
        match gate.members.get(&self.name) {
            Some(true) => {}
            Some(false) => return Ok(None),
            None => {
                let reason = format!("a chunk of round {round}, of which it is no member");
                return Err(bad_frame(reason).into());
            }
        }
        if self.answered == (place, MOST_REPEATS) {
            let reason = format!(
                "the answer to round {round}, stage {stage} came {MOST_REPEATS} times already"
            );
            return Err(bad_frame(reason).into());
        }
        Ok(Some(gate.limit))
    }

    /// Waits for memory where a message comes in several chunks; an error says that the message came
    /// too late meanwhile. The stream is not read while it waits, so the sender waits as well.
    async fn memory_for(
        &mut self,
        total: u64,
        place: (u64, u32),
    ) -> Result<Option<OwnedSemaphorePermit>, ()> {
        if total <= CHUNK as u64 {
            return Ok(None);
        }
        let mut gate = self.job.gate.clone();
        let moved_on = gate.wait_for(|gate| (gate.round, gate.stage) != place);
        tokio::select! {
            memory = self.memory.take(total) => Ok(memory),
            _ = moved_on => Err(()),
        }
    }
}
