//! The lines of one server to those that compute with it for a job: one task each, which makes its line again where it
//! breaks. The server with the higher place dials.
//!
//! Letters that are said while a line is not up wait for it. Where a line breaks that was up letters may be lost:
//! whoever drives the job is told so, before anything comes over the next one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use blindsum_protocol::{Job, ServerIndex};
use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tracing::{info, warn};

use super::keeping::{End, FRAMES_AHEAD, Heard, Open, Rules, check_hello, hello};
use super::queue::Queue;
use crate::connect::{CONNECT_TIME, PAUSES, Target};
use crate::limits::Limits;
use crate::plain::status_words;
use crate::servers::Servers;
use crate::tls::{Renewed, ServerSide};
use crate::{NetError, seconds};

/// Letters of all lines of a job that wait for who drives it; the lines are not read meanwhile.
const LETTERS_AHEAD: usize = 2;

/// Time for the other server to learn that a connection ends.
const END_TIME: Duration = Duration::from_secs(1);

/// The inputs of [`ServerChannels::open`].
pub(crate) struct ChannelParts<'a> {
    pub job: &'a Job,
    pub me: ServerIndex,
    pub servers: &'a Arc<Servers>,
    pub limits: &'a Limits,
    /// The certificate for servers to which this one connects; the first server connects to none.
    pub side: Option<&'a Arc<Renewed<ServerSide>>>,
}

/// The connections of one server to the others. They break when this is dropped; [`ServerChannels::end`] notifies the
/// others first.
pub(crate) struct ServerChannels {
    queues: BTreeMap<ServerIndex, Arc<Queue>>,
    acceptors: BTreeMap<ServerIndex, mpsc::Sender<Open>>,
    tasks: JoinSet<()>,
    /// The tasks that hold the other half run until this is dropped.
    going_on: watch::Sender<()>,
}

/// Accepts connections of other servers for a job.
#[derive(Clone)]
pub(crate) struct ChannelAcceptor {
    pub(super) me: ServerIndex,
    /// Senders to the tasks of servers that connect to this one.
    pub(super) acceptors: BTreeMap<ServerIndex, mpsc::Sender<Open>>,
}

impl ServerChannels {
    /// Starts all connections, and returns the receiver of their letters. Needs a runtime.
    ///
    /// # Errors
    /// An address that cannot be used.
    pub fn open(parts: ChannelParts<'_>) -> Result<(Self, mpsc::Receiver<Heard>), NetError> {
        let (heard, receiver) = mpsc::channel(LETTERS_AHEAD);
        let ChannelParts { job, me, .. } = parts;
        let rules = Rules {
            job: job.spec().job.clone(),
            limit: job.plan().largest_letter(),
            chunk_timeout: seconds(parts.limits.chunk_timeout),
        };
        let (mut queues, mut acceptors) = (BTreeMap::new(), BTreeMap::new());
        let mut tasks = JoinSet::new();
        let going_on = watch::Sender::new(());
        for to in [me.next(), me.previous()] {
            let queue = Arc::new(Queue::default());
            queues.insert(to, queue.clone());
            let line = ServerChannel {
                me,
                to,
                rules: rules.clone(),
                queue,
                heard: heard.clone(),
            };
            match parts.side.filter(|_| to < me) {
                None => {
                    let (acceptor, opened) = mpsc::channel(1);
                    acceptors.insert(to, acceptor);
                    tasks.spawn(line.run(Way::Answer(opened), going_on.subscribe()));
                }
                Some(side) => {
                    let keepalive = seconds(parts.limits.keepalive);
                    let dialled = Dialled {
                        servers: parts.servers.clone(),
                        side: side.clone(),
                        keepalive,
                    };
                    dialled.target(to)?;
                    tasks.spawn(line.run(Way::Connect(dialled), going_on.subscribe()));
                }
            }
        }
        let lines = Self {
            queues,
            acceptors,
            tasks,
            going_on,
        };
        Ok((lines, receiver))
    }

    /// Says something to a server.
    pub fn say(&self, to: ServerIndex, round: u64, letter: Bytes) {
        if let Some(queue) = self.queues.get(&to) {
            queue.put(round, letter);
        }
    }

    /// Ends the connections with notice to the others, which warn of a connection that only breaks.
    pub async fn end(self) {
        let Self {
            going_on,
            mut tasks,
            ..
        } = self;
        drop(going_on);
        while tasks.join_next().await.is_some() {}
    }

    /// Returns the acceptor of connections from other servers.
    pub fn acceptor(&self, me: ServerIndex) -> ChannelAcceptor {
        let acceptors = self.acceptors.clone();
        ChannelAcceptor { me, acceptors }
    }
}

/// How a line comes to be.
enum Way {
    /// The other server dials. A newer line takes the place of the one before it.
    Answer(mpsc::Receiver<Open>),
    /// This server dials, again and again.
    Connect(Dialled),
}

/// A server that is dialled.
struct Dialled {
    servers: Arc<Servers>,
    side: Arc<Renewed<ServerSide>>,
    keepalive: Duration,
}

impl Dialled {
    fn target(&self, to: ServerIndex) -> Result<Target, NetError> {
        let side = self.side.current();
        self.servers.target(to, &side, self.keepalive)
    }
}

/// One line.
struct ServerChannel {
    me: ServerIndex,
    to: ServerIndex,
    rules: Rules,
    queue: Arc<Queue>,
    heard: mpsc::Sender<Heard>,
}

impl ServerChannel {
    /// Keeps it up until the lines end.
    async fn run(self, way: Way, mut going_on: watch::Receiver<()>) {
        let mut up = None;
        let keep = async {
            match way {
                Way::Answer(opened) => self.answer(opened, &mut up).await,
                Way::Connect(dialled) => self.connect(dialled, &mut up).await,
            }
        };
        tokio::select! {
            () = keep => {}
            // Nothing is ever sent: this is the end of the sender.
            _ = going_on.changed() => {}
        }
        if let Some(open) = up {
            // Whoever does not hear it in time sees the line break.
            let _ = timeout(END_TIME, open.end()).await;
        }
    }

    async fn answer(&self, mut opened: mpsc::Receiver<Open>, up: &mut Option<Open>) {
        let mut next = opened.recv().await;
        while let Some(open) = next {
            let open = up.insert(open);
            self.is_up(open);
            let (end, newer) = tokio::select! {
                end = open.keep(&self.rules, self.to, &self.queue, &self.heard) => (end, None),
                newer = opened.recv() => (End::Broken("it was dialled again".into()), newer),
            };
            *up = None;
            self.is_lost(end).await;
            next = match newer {
                Some(newer) => Some(newer),
                None => opened.recv().await,
            };
        }
    }

    async fn connect(&self, dialled: Dialled, up: &mut Option<Open>) {
        let (mut pause, mut known) = (PAUSES.0, String::new());
        loop {
            match self.begin(&dialled).await {
                Ok(open) => {
                    let open = up.insert(open);
                    self.is_up(open);
                    (pause, known) = (PAUSES.0, String::new());
                    let kept = open.keep(&self.rules, self.to, &self.queue, &self.heard);
                    let end = kept.await;
                    *up = None;
                    self.is_lost(end).await;
                }
                Err(reason) if reason != known => {
                    warn!(job = %self.rules.job, to = %self.to, %reason, "no line; trying again");
                    known = reason;
                }
                Err(_) => {}
            }
            sleep(seconds(pause)).await;
            pause = (pause * 2.0).min(PAUSES.1);
        }
    }

    /// Dials, and hears who is there.
    async fn begin(&self, dialled: &Dialled) -> Result<Open, String> {
        let target = dialled.target(self.to).map_err(|error| error.to_string())?;
        let connected = target.connect(CONNECT_TIME).await;
        let connected = connected.map_err(|error| error.reason())?;
        let traffic = connected.traffic.clone();
        let mut client = connected.computing();
        let (outbound, frames) = mpsc::channel(FRAMES_AHEAD);
        let _ = outbound.try_send(hello(&self.rules.job, self.me));
        let talk = async {
            let mut inbound = client.talk(ReceiverStream::new(frames)).await?.into_inner();
            let first = inbound.message().await?;
            Ok((inbound, first))
        };
        let late = |_| "it does not answer the hello in time".to_owned();
        let begun: Result<_, tonic::Status> = timeout(CONNECT_TIME, talk).await.map_err(late)?;
        let broken = |status| target.broken(&traffic, status_words(&status)).reason();
        let (inbound, first) = begun.map_err(broken)?;
        let said = check_hello(first, self.to)?;
        if said.job != self.rules.job {
            return Err("it answers for another job".into());
        }
        Ok(Open {
            inbound,
            outbound,
            key_exchange: traffic.key_exchange().to_owned(),
            _alive: Box::new(client),
        })
    }

    fn is_up(&self, open: &Open) {
        let key_exchange = open.key_exchange.as_str();
        info!(job = %self.rules.job, to = %self.to, key_exchange, "line up");
    }

    /// Letters may be lost, and those that wait are of no use without them. That a server ends its lines is no warning: it
    /// does so when the job is over, which this server may not have heard yet. A round that needs the line says so.
    async fn is_lost(&self, end: End) {
        let (job, to) = (&self.rules.job, self.to);
        let is_told = matches!(end, End::Told);
        let reason = end.reason();
        match is_told {
            true => info!(%job, %to, %reason, "line lost"),
            false => warn!(%job, %to, %reason, "line lost"),
        }
        self.queue.clear();
        let _ = self.heard.send(Heard::Lost { to, reason }).await;
    }
}
