//! The service of a server that computes with others: it takes their lines, and what parties upload.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_job::foreign;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use tracing::info;

use super::channels::ChannelAcceptor;
use super::keeping::{FRAMES_AHEAD, Open, check_hello, hello};
use crate::chunks::CHUNK;
use crate::limits::Limits;
use crate::pb::computing_server::{Computing, ComputingServer};
use crate::pb::{LineFrame, UploadChunk, UploadReply};
use crate::seconds;
use crate::serving::{LOOK_EVERY, Paces, Peer};

/// Bytes of the largest frame: a piece, with what is said about it.
const LARGEST_FRAME: usize = CHUNK + 4096;

type Frames = Pin<Box<dyn Stream<Item = Result<LineFrame, Status>> + Send>>;

/// Accepts uploads of parties.
#[tonic::async_trait]
pub(crate) trait TakesUploads: Send + Sync + 'static {
    /// One upload, from its first piece to the answer.
    async fn take(&self, peer: Peer, pieces: Streaming<UploadChunk>)
    -> Result<UploadReply, Status>;
}

/// The gRPC service for connections of other servers and uploads of parties.
pub(crate) struct ComputingService {
    /// By the name of the job.
    lines: BTreeMap<String, ChannelAcceptor>,
    /// None at a coordinator, to which parties give their part over their own stream, and at a decryptor, to which they
    /// give none.
    uploads: Option<Arc<dyn TakesUploads>>,
    anchor: Arc<TrustAnchor>,
    hello_timeout: Duration,
    paces: Paces,
}

impl ComputingService {
    pub fn new(
        lines: BTreeMap<String, ChannelAcceptor>,
        uploads: Option<Arc<dyn TakesUploads>>,
        anchor: Arc<TrustAnchor>,
        limits: &Limits,
    ) -> Self {
        Self {
            lines,
            uploads,
            anchor,
            hello_timeout: seconds(limits.hello_timeout),
            paces: Paces::default(),
        }
    }

    /// What the server at the other end says first, and where its line is taken.
    async fn greeted(
        &self,
        peer: &Peer,
        inbound: &mut Streaming<LineFrame>,
    ) -> Result<(LineFrame, mpsc::Sender<Open>), Status> {
        let place = peer.role.and_then(|role| role.place());
        let place = place.ok_or_else(|| {
            Status::permission_denied(
                "connections between servers need the certificate of a server that computes with others; this \
                 certificate has another role",
            )
        })?;
        peer.holds(&self.anchor)?;
        let first = timeout(self.hello_timeout, inbound.message()).await;
        let first = first.map_err(|_| Status::deadline_exceeded("no hello in time"))??;
        let hello_of = check_hello(first, place).map_err(Status::failed_precondition)?;
        let acceptor = self.lines.get(&hello_of.job).ok_or_else(|| {
            let job = foreign(&hello_of.job);
            Status::not_found(format!("no servers compute for a job {job:?} here"))
        })?;
        let taken = acceptor.acceptors.get(&place).ok_or_else(|| {
            let me = acceptor.me;
            Status::failed_precondition(format!("{me} dials {place}, and not the other way"))
        })?;
        Ok((hello(&hello_of.job, acceptor.me), taken.clone()))
    }
}

/// The service, which takes no frame larger than a piece.
pub(crate) fn computing(acceptor: ComputingService) -> ComputingServer<ComputingService> {
    ComputingServer::new(acceptor).max_decoding_message_size(LARGEST_FRAME)
}

#[tonic::async_trait]
impl Computing for ComputingService {
    async fn upload(
        &self,
        request: Request<Streaming<UploadChunk>>,
    ) -> Result<Response<UploadReply>, Status> {
        let peer = Peer::of(&request)?;
        let _calling = peer.calling();
        // One a round, and rounds may be short.
        self.paces.of(peer.who()).frame().await;
        let Some(uploads) = &self.uploads else {
            let rule = "this server accepts no uploads: parties send their part to the coordinator over Connect, and upload \
                only to the servers that compute with it";
            return Err(Status::unimplemented(rule));
        };
        // guard: uploads-are-of-parties
        if peer.role.is_some() {
            let rule = "uploads need the certificate of a party; this certificate has another role";
            return Err(Status::permission_denied(rule));
        }
        peer.holds(&self.anchor)?;
        let reply = uploads.take(peer, request.into_inner()).await?;
        Ok(Response::new(reply))
    }

    type TalkStream = Frames;

    async fn talk(
        &self,
        request: Request<Streaming<LineFrame>>,
    ) -> Result<Response<Self::TalkStream>, Status> {
        let peer = Peer::of(&request)?;
        let calling = peer.calling();
        self.paces.of(peer.who()).stream().await;
        let mut inbound = request.into_inner();
        let greeted = self.greeted(&peer, &mut inbound).await;
        let (hello, taken) = greeted.inspect_err(|status| {
            info!(server = %peer.name, address = %peer.address, reason = status.message(), "line refused");
        })?;
        let (outbound, frames) = mpsc::channel(FRAMES_AHEAD);
        let _ = outbound.try_send(hello);
        let open = Open {
            inbound,
            outbound,
            key_exchange: peer.traffic.key_exchange().to_owned(),
            _alive: Box::new(calling),
        };
        let stopping = |_| Status::unavailable("this server is stopping");
        taken.send(open).await.map_err(stopping)?;
        let anchor = self.anchor.clone();
        let revoked = async move {
            loop {
                sleep(LOOK_EVERY).await;
                if let Err(status) = peer.holds(&anchor) {
                    return status;
                }
            }
        };
        let frames = ReceiverStream::new(frames).map(Ok);
        Ok(Response::new(Box::pin(Until::new(frames, revoked))))
    }
}

/// A stream that ends with an error once this comes.
struct Until<S, F> {
    stream: S,
    end: Pin<Box<F>>,
    is_over: bool,
}

impl<S, F> Until<S, F> {
    fn new(stream: S, end: F) -> Self {
        let end = Box::pin(end);
        Self {
            stream,
            end,
            is_over: false,
        }
    }
}

impl<S, F> Stream for Until<S, F>
where
    S: Stream<Item = Result<LineFrame, Status>> + Unpin,
    F: Future<Output = Status>,
{
    type Item = Result<LineFrame, Status>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        use std::task::Poll;
        if self.is_over {
            return Poll::Ready(None);
        }
        if let Poll::Ready(status) = self.end.as_mut().poll(cx) {
            self.is_over = true;
            return Poll::Ready(Some(Err(status)));
        }
        Pin::new(&mut self.stream).poll_next(cx)
    }
}
