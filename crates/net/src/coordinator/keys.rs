//! The key service of a job in the coordinator's process. It is a server of its own, which talks with the job as one
//! elsewhere would, over queues in place of a connection.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::sign::{Algorithm, IdentityKey};
use blindsum_job::coordinator::{Input, KEY_SERVICE, LinkId, Peer, Traffic};
use blindsum_job::follower::Parts;
use blindsum_job::foreign;
use blindsum_job::party::LinkId as ServiceLink;
use blindsum_job::records::MemoryRecords;
use blindsum_job::session::Session;
use blindsum_protocol::{Job, ServerRole};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::warn;

use super::driver::{Event, JobHandle};
use super::reading::{End, Inbound, Reader};
use super::shared::Shared;
use crate::connect::PAUSES;
use crate::follower::{Driver, Event as ServiceEvent, Inbox};
use crate::outbox::{Outbox, send_all};
use crate::pb::{CoordinatorFrame, PartyFrame};
use crate::serving::{Memory, Paces};
use crate::system::entropy;
use crate::wire::Sent;
use crate::{NetError, seconds};

/// Frames that wait for the other side.
const FRAMES_AHEAD: usize = 4;

/// The key service of a job, before it runs.
pub(super) struct KeyService {
    driver: Driver,
    link: Link,
}

impl KeyService {
    /// One for a job that needs it.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn of(
        job: &Arc<Job>,
        handle: JobHandle,
        shared: &Shared,
    ) -> Result<Option<Self>, NetError> {
        let is_needed = job.servers().any(|role| role == ServerRole::Decryptor);
        if !is_needed || job.spec().decryptor().is_some() {
            return Ok(None);
        }
        let mut rng = ChaCha20Rng::from_seed(entropy()?);
        let identity = IdentityKey::generate(Algorithm::Ed25519, &mut rng)?;
        let parts = Parts {
            job: job.clone(),
            role: ServerRole::Decryptor,
            name: KEY_SERVICE.into(),
            identity: None,
            anchor: shared.side.anchor().clone(),
            // A key service that is started again has other keys: there is nothing that it must not forget.
            records: Arc::new(MemoryRecords::default()),
            results: None,
        };
        let inbox = Inbox::of_coordinator(shared.stopping.clone());
        let (driver, _) = Driver::open(parts, None, inbox, shared.side.clock().clone())?;
        let peer = Peer {
            name: KEY_SERVICE.into(),
            role: Some(ServerRole::Decryptor),
            address: "this process".into(),
            certificate: Arc::new([]),
            key: identity.verifying_key().clone(),
            traffic: Arc::new(NoTraffic),
        };
        let link = Link {
            job: handle,
            peer,
            memory: Memory::new(shared.limits().message_memory),
            paces: Paces::default(),
            chunk_timeout: seconds(shared.limits().chunk_timeout),
        };
        Ok(Some(Self { driver, link }))
    }

    /// Runs until the job is over.
    ///
    /// # Errors
    /// Why it could not go on.
    pub async fn run(self) -> Result<(), NetError> {
        let Self { driver, link } = self;
        driver
            .run(|events, given_up| link.keep(events, given_up))
            .await
    }
}

/// Nothing goes over a network.
struct NoTraffic;

impl Traffic for NoTraffic {
    fn read(&self) -> u64 {
        0
    }

    fn written(&self) -> u64 {
        0
    }
}

/// What stands for the connection between the service and the job.
struct Link {
    job: JobHandle,
    peer: Peer,
    memory: Memory,
    paces: Paces,
    chunk_timeout: Duration,
}

impl Link {
    /// Links both again and again: the job ends a link whose service says what no server says.
    async fn keep(
        self,
        events: mpsc::Sender<ServiceEvent>,
        given_up: watch::Receiver<ServiceLink>,
    ) -> Result<Infallible, NetError> {
        for number in 1.. {
            let reason = self.converse(number, &events, given_up.clone()).await;
            warn!(%reason, "the key service is linked to its job again");
            sleep(seconds(PAUSES.0)).await;
        }
        std::future::pending().await
    }

    /// One link, from its beginning to its end; why it ended.
    async fn converse(
        &self,
        number: u64,
        events: &mpsc::Sender<ServiceEvent>,
        mut given_up: watch::Receiver<ServiceLink>,
    ) -> String {
        let (to_service, queue) = Outbox::<CoordinatorFrame>::new();
        let (to_job, says) = Outbox::<PartyFrame>::new();
        let (said, frames) = mpsc::channel(FRAMES_AHEAD);
        let (told, mut told_frames) = mpsc::channel(FRAMES_AHEAD);
        let mut tasks = JoinSet::new();
        let timeout = self.chunk_timeout;
        tasks.spawn(async move { send_all(says, &said, timeout).await });
        tasks.spawn(async move { send_all(queue, &told, timeout).await });
        // Connections from outside have small numbers.
        let (ours, theirs) = (ServiceLink(number), LinkId(u64::MAX - number));
        let _ = events.send(ServiceEvent::Linked(ours, to_job)).await;
        let from_job = async {
            while let Some(sent) = told_frames.recv().await {
                match Sent::decode(&sent) {
                    Ok(frame) => drop(events.send(ServiceEvent::Frame(ours, frame)).await),
                    Err(error) => return error.to_string(),
                }
            }
            "the job has ended it".into()
        };
        let reason = tokio::select! {
            reason = from_job => reason,
            reason = self.listen(theirs, frames, to_service) => reason,
            _ = given_up.wait_for(|given_up| *given_up >= ours) => "it was given up".into(),
        };
        let lost = Input::Lost {
            link: theirs,
            reason: reason.clone(),
            returns: true,
        };
        let _ = self.job.events.send(Event::Input(lost)).await;
        let _ = events.send(ServiceEvent::Lost(ours, reason.clone())).await;
        reason
    }

    /// Introduces the service to the job, and passes on what it says.
    async fn listen(
        &self,
        link: LinkId,
        frames: mpsc::Receiver<Sent>,
        outbox: Outbox<CoordinatorFrame>,
    ) -> String {
        let mut frames = Frames(frames);
        let mut session = Session::new(link, self.peer.clone());
        let Ok(Some(first)) = frames.next().await else {
            return "the key service has ended".into();
        };
        let hello = match session.hello(first) {
            Ok(hello) => hello,
            Err(refused) => return refused.reason,
        };
        let (admitted, answer) = oneshot::channel();
        let connected = Event::Connected {
            link,
            peer: self.peer.clone(),
            hello,
            outbox: outbox.clone(),
            admitted,
        };
        let _ = self.job.events.send(connected).await;
        match answer.await {
            Ok(Ok(())) => session.admit(),
            Ok(Err(refused)) => return format!("refused: {}", foreign(&refused.reason)),
            Err(_) => return "the job has ended".into(),
        };
        let pace = self.paces.of(self.peer.who());
        let (job, memory) = (self.job.clone(), self.memory.clone());
        let reader = Reader::new(session, job, pace, memory, self.chunk_timeout, outbox);
        match reader.read_all(&mut frames).await {
            End::Closed(reason) | End::Lost(reason) => reason,
            End::Refused { refused, .. } => refused.reason,
        }
    }
}

/// Frames of the service, as the coordinator reads those of a stream.
struct Frames(mpsc::Receiver<Sent>);

impl Inbound for Frames {
    async fn next(&mut self) -> Result<Option<PartyFrame>, tonic::Status> {
        match self.0.recv().await {
            None => Ok(None),
            Some(sent) => {
                let frame = sent.decode();
                frame
                    .map(Some)
                    .map_err(|error| tonic::Status::internal(error.to_string()))
            }
        }
    }
}
