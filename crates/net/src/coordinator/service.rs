//! The gRPC service: streams go to sessions, questions to the jobs' latest status.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::listener::Peer;
use super::session::{JobHandle, Sessions, short};
use crate::line::line;
use crate::pb::coordinator_server::Coordinator;
use crate::pb::{CoordinatorFrame, PartyFrame, StatusReply, StatusRequest};
use crate::report::JobStatus;

/// Frames that wait for the connection; each holds at most one chunk.
const FRAMES_AHEAD: usize = 4;

/// A job as the service sees it.
#[derive(Clone)]
pub(crate) struct ServedJob {
    pub handle: JobHandle,
    pub status: watch::Receiver<JobStatus>,
}

pub(crate) type Jobs = Arc<BTreeMap<String, ServedJob>>;
type Find = Box<dyn Fn(&str) -> Option<JobHandle> + Send + Sync>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

pub(crate) struct Service {
    pub jobs: Jobs,
    pub sessions: Arc<Sessions<Find>>,
}

impl Service {
    pub fn new(jobs: Jobs, limits: crate::Limits) -> Self {
        let known = jobs.clone();
        let find: Find = Box::new(move |name| known.get(name).map(|job| job.handle.clone()));
        let sessions = Arc::new(Sessions::new(limits, find));
        Self { jobs, sessions }
    }

    fn asked(&self, job: &str) -> Result<Vec<watch::Receiver<JobStatus>>, Status> {
        if job.is_empty() {
            return Ok(self.jobs.values().map(|job| job.status.clone()).collect());
        }
        match self.jobs.get(job) {
            Some(job) => Ok(vec![job.status.clone()]),
            None => Err(Status::not_found(format!(
                "there is no job {:?} here",
                short(job)
            ))),
        }
    }
}

#[tonic::async_trait]
impl Coordinator for Service {
    type ConnectStream = Answers<CoordinatorFrame>;
    type WatchStream = Answers<StatusReply>;

    async fn connect(
        &self,
        request: Request<Streaming<PartyFrame>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let peer = request.extensions().get::<Peer>().cloned();
        let peer = peer.ok_or_else(|| Status::unauthenticated("no verified certificate"))?;
        let (line, taking) = line(FRAMES_AHEAD);
        let sessions = self.sessions.clone();
        tokio::spawn(async move { sessions.serve(peer, request.into_inner(), line).await });
        Ok(Response::new(Box::pin(taking.map(Ok))))
    }

    async fn status(
        &self,
        request: Request<StatusRequest>,
    ) -> Result<Response<StatusReply>, Status> {
        let jobs = self.asked(&request.into_inner().job)?;
        let jobs: Vec<JobStatus> = jobs.iter().map(|job| job.borrow().clone()).collect();
        Ok(Response::new(reply(&jobs)?))
    }

    async fn watch(
        &self,
        request: Request<StatusRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let jobs = self.asked(&request.into_inner().job)?;
        let mut merged: Answers<StatusReply> = Box::pin(tokio_stream::empty());
        for job in jobs {
            let changes = WatchStream::new(job).map(|status| reply(&[status]));
            merged = Box::pin(merged.merge(changes));
        }
        Ok(Response::new(merged))
    }
}

fn reply(jobs: &[JobStatus]) -> Result<StatusReply, Status> {
    let jobs = serde_json::to_string(jobs).map_err(|e| Status::internal(e.to_string()))?;
    Ok(StatusReply { jobs })
}
