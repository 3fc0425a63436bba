//! One party's stream at the coordinator: the Hello is checked, the job lets the party in, and what it says is read
//! (`reading.rs`) until the stream ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot, watch};
use tokio::time::timeout;
use tonic::Streaming;
use tracing::info;

use super::listener::Peer;
use super::pace::Paces;
use super::reading::{End, Memory, Reader};
use crate::limits::{Limits, seconds};
use crate::line::Line;
use crate::outbox::{Outbox, Queued, SendEnd, send_all};
use crate::pb::party_frame::Frame;
use crate::pb::{self, CoordinatorFrame, PartyFrame, RefusalCode};
use crate::relay::Unreadable;

/// What the job needs to talk to a connected party.
#[derive(Clone)]
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

/// What all sessions share.
pub(crate) struct Sessions<F> {
    pub limits: Limits,
    pub memory: Memory,
    /// The job of a name.
    pub find: F,
    pub paces: Paces,
    next_id: AtomicU64,
}

impl<F: Fn(&str) -> Option<JobHandle>> Sessions<F> {
    pub fn new(limits: Limits, find: F) -> Self {
        Self {
            memory: Memory::new(limits.message_memory),
            limits,
            find,
            paces: Paces::default(),
            next_id: AtomicU64::new(1),
        }
    }

    /// Serves one stream to its end. Whoever does not take what ends it loses the connection, and with it all that
    /// HTTP/2 holds for the stream.
    pub async fn serve(
        &self,
        peer: Peer,
        inbound: Streaming<PartyFrame>,
        line: Line<CoordinatorFrame>,
    ) {
        self.converse(&peer, inbound, &line).await;
        if !line.end(seconds(self.limits.chunk_timeout)).await {
            info!(party = %peer.name, address = %peer.address, "connection cut: it takes nothing");
            peer.cut();
        }
    }

    async fn converse(
        &self,
        peer: &Peer,
        mut inbound: Streaming<PartyFrame>,
        line: &Line<CoordinatorFrame>,
    ) {
        let (chunk_timeout, stream) = (seconds(self.limits.chunk_timeout), &line.frames);
        let pace = self.paces.of(&peer.name);
        tokio::select! {
            () = pace.stream() => {}
            () = stream.closed() => return,
        }
        let (outbox, queue) = Outbox::before(line.waiting.clone());
        let (id, job) = match self.begin(peer, &mut inbound, &outbox).await {
            Ok(begun) => begun,
            Err(refused) => {
                info!(party = %peer.name, address = %peer.address, reason = %refused.reason,
                    "refused");
                outbox.put(Queued::Last(refused.into()));
                send_all(queue, stream, chunk_timeout).await;
                return;
            }
        };
        let (name, memory) = (peer.name.clone(), self.memory.clone());
        let reader = Reader::new(id, name.clone(), job.clone(), pace, memory, chunk_timeout);
        let mut sending = Box::pin(send_all(queue, stream, chunk_timeout));
        let (reason, returns) = tokio::select! {
            end = &mut sending => match end {
                SendEnd::Finished => ("ended by the coordinator".into(), false),
                SendEnd::Closed => ("lost: nothing more can be sent".into(), true),
                SendEnd::TooSlow => ("too slow: a chunk was not taken in time".to_owned(), true),
            },
            end = reader.read_all(&mut inbound) => match end {
                End::Closed(reason) => (reason, false),
                End::Lost(reason) => (reason, true),
                End::Refused(code, reason) => {
                    outbox.end_now(refused(code, reason.clone()).into());
                    sending.await;
                    (reason, code == RefusalCode::RefusalTooSlow)
                }
            },
        };
        let reason = match peer.traffic.error() {
            Some(error) => format!("{reason} ({error})"),
            None => reason,
        };
        let event = Event::Disconnected {
            session: id,
            name,
            reason,
            returns,
        };
        let _ = job.events.send(event).await;
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

pub(super) fn bad_frame(reason: impl Into<String>) -> pb::Refused {
    refused(RefusalCode::RefusalBadFrame, reason)
}

/// Foreign text, cut to what a log line can bear.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(200).collect()
}
