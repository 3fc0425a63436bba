//! The gRPC service: streams go to sessions, and questions about status get the jobs' latest status.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use blindsum_crypto::certificate::{CertificateError, TrustAnchor};
use blindsum_job::foreign;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstDecoder;

use super::driver::JobHandle;
use super::hosting::Jobs;
use super::session::Sessions;
use crate::chunks::CHUNK;
use crate::computing::{ComputingService, computing};
use crate::line::line;
use crate::observers::Observers;
use crate::pb::computing_server::ComputingServer;
use crate::pb::questions::coordinator_server::{Coordinator, CoordinatorServer};
use crate::pb::{StatusReply, StatusRequest};
use crate::report::JobStatus;
use crate::serving::{Calling, Peer, unknown};
use crate::wire::{CONNECT, Sending};

/// Frames that wait for the connection; each holds at most one chunk.
const FRAMES_AHEAD: usize = 4;

/// Bytes of the largest frame of a party: a chunk, with what is said about it.
const LARGEST_OF_A_PARTY: usize = CHUNK + 4096;

/// Where the service lies that servers offer which compute together.
const COMPUTING: &str = "/blindsum.v1.Computing/";

/// Headers of gRPC that say how messages are compressed, and how they may be.
const ENCODING: &str = "grpc-encoding";
const ENCODINGS_TAKEN: &str = "grpc-accept-encoding";

/// What they say where nothing is compressed.
const PLAIN: &str = "identity";

type Find = Box<dyn Fn(&str) -> Option<JobHandle> + Send + Sync>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

pub(crate) struct Service {
    pub jobs: Jobs,
    pub sessions: Arc<Sessions<Find>>,
    anchor: Arc<TrustAnchor>,
}

/// Who asks how jobs stand.
struct Asker {
    peer: Peer,
    _calling: Calling,
    anchor: Arc<TrustAnchor>,
}

impl Asker {
    /// Whether its certificate, which was verified when it connected, still holds. Where a list has ended nobody is
    /// told to go: that it has is what watchers are to hear.
    fn holds(&self) -> Result<(), Status> {
        match self.peer.verify(&self.anchor) {
            Err(CertificateError::RevocationListExpired { .. }) => Ok(()),
            _ => self.peer.holds(&self.anchor),
        }
    }
}

/// What a client hears that compresses: what it may use instead.
fn compressed() -> http::Response<Body> {
    let status =
        Status::unimplemented("frames are not compressed here: grpc-encoding must be identity");
    let mut response = status.into_http();
    let plain = HeaderValue::from_static(PLAIN);
    response.headers_mut().insert(ENCODINGS_TAKEN, plain);
    response
}

impl Service {
    pub fn new(
        jobs: Jobs,
        limits: crate::Limits,
        anchor: Arc<TrustAnchor>,
        observers: Observers,
    ) -> Self {
        let known = jobs.clone();
        let find: Find = Box::new(move |name| known.get(name).map(|job| job.handle));
        let sessions = Arc::new(Sessions::new(limits, anchor.clone(), find, observers));
        Self {
            jobs,
            sessions,
            anchor,
        }
    }

    /// Takes the stream of a party.
    fn connect(&self, request: http::Request<Body>) -> http::Response<Body> {
        let (parts, body) = request.into_parts();
        let Some(peer) = parts.extensions.get::<Peer>().cloned() else {
            return unknown().into_http();
        };
        // guard: frames-are-not-compressed
        if parts.headers.get(ENCODING).is_some_and(|it| it != PLAIN) {
            return compressed();
        }
        let inbound = Streaming::new_request(
            ProstDecoder::default(),
            body,
            None,
            Some(LARGEST_OF_A_PARTY),
        );
        let (line, taking) = line(FRAMES_AHEAD);
        let sessions = self.sessions.clone();
        let calling = peer.calling();
        tokio::spawn(async move {
            sessions.serve(peer, inbound, line).await;
            drop(calling);
        });
        let mut response = http::Response::new(Body::new(Sending::response(taking)));
        let grpc = HeaderValue::from_static("application/grpc");
        response.headers_mut().insert(CONTENT_TYPE, grpc);
        response
    }

    /// Waits for its turn, and looks whether it may ask then.
    async fn asker(&self, request: &Request<StatusRequest>) -> Result<Asker, Status> {
        let peer = Peer::of(request)?;
        let _calling = peer.calling();
        // guard: questions-take-turns
        self.sessions.paces.of(peer.who()).question().await;
        let anchor = self.anchor.clone();
        let asker = Asker {
            peer,
            _calling,
            anchor,
        };
        // guard: askers-are-certified
        asker.holds()?;
        Ok(asker)
    }

    fn asked(&self, job: &str) -> Result<Vec<watch::Receiver<JobStatus>>, Status> {
        if job.is_empty() {
            let jobs = self.jobs.all().into_iter();
            return Ok(jobs.map(|job| job.status).collect());
        }
        match self.jobs.get(job) {
            Some(job) => Ok(vec![job.status]),
            None => {
                let here = self.jobs.all();
                let names: Vec<&str> = here.iter().map(|job| &*job.job.spec().job).collect();
                Err(Status::not_found(format!(
                    "there is no job {:?} here; the jobs here: {}",
                    foreign(job),
                    foreign(&names.join(", "))
                )))
            }
        }
    }
}

/// What answers requests: streams of parties are taken as they are, everything else is the generated code's.
#[derive(Clone)]
pub(crate) struct Router {
    service: Arc<Service>,
    others: CoordinatorServer<Service>,
    computing: ComputingServer<ComputingService>,
}

impl Router {
    pub fn new(service: Service, computing_service: ComputingService) -> Self {
        let service = Arc::new(service);
        let others = CoordinatorServer::from_arc(service.clone());
        Self {
            others: others.max_decoding_message_size(LARGEST_OF_A_PARTY),
            computing: computing(computing_service),
            service,
        }
    }
}

impl tower::Service<http::Request<Body>> for Router {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        if path.starts_with(COMPUTING) {
            return self.computing.call(request);
        }
        if path != CONNECT {
            return self.others.call(request);
        }
        let service = self.service.clone();
        Box::pin(async move { Ok(service.connect(request)) })
    }
}

#[tonic::async_trait]
impl Coordinator for Service {
    type WatchStream = Answers<StatusReply>;

    async fn status(
        &self,
        request: Request<StatusRequest>,
    ) -> Result<Response<StatusReply>, Status> {
        let _asker = self.asker(&request).await?;
        let jobs = self.asked(&request.into_inner().job)?;
        let jobs: Vec<JobStatus> = jobs.iter().map(|job| job.borrow().clone()).collect();
        Ok(Response::new(reply(&jobs)?))
    }

    async fn watch(
        &self,
        request: Request<StatusRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let asker = self.asker(&request).await?;
        let jobs = self.asked(&request.into_inner().job)?;
        let mut merged: Answers<StatusReply> = Box::pin(tokio_stream::empty());
        for job in jobs {
            let changes = WatchStream::new(job).map(|status| reply(&[status]));
            merged = Box::pin(merged.merge(changes));
        }
        // An error is the last word of a stream.
        // guard: watchers-are-certified
        let told = merged.map(move |reply| asker.holds().and(reply));
        Ok(Response::new(Box::pin(told)))
    }
}

fn reply(jobs: &[JobStatus]) -> Result<StatusReply, Status> {
    let jobs = serde_json::to_string(jobs).map_err(|e| Status::internal(e.to_string()))?;
    Ok(StatusReply { jobs })
}
