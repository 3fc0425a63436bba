//! A stand-in for etcd: keys and leases in memory, over mutual TLS. It can be killed and started again, with its keys or
//! without.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use blindsum_etcd as pb;
use blindsum_net::{Credentials, Membership};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::body::Body;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use super::{PATIENCE, Pki};
use blindsum_etcd::event::EventType;
use blindsum_etcd::watch_request::RequestUnion;

/// How often the stand-in looks which leases have run out.
const LOOK: Duration = Duration::from_millis(20);

pub struct Etcd {
    pub port: u16,
    tls: ServerTlsConfig,
    kept: Arc<Kept>,
    runtime: Option<Runtime>,
}

/// What outlives a process of it.
struct Kept {
    state: Mutex<State>,
    changed: watch::Sender<i64>,
}

#[derive(Default)]
struct State {
    revision: i64,
    latest_lease: i64,
    /// The lease of each key.
    keys: BTreeMap<Vec<u8>, i64>,
    leases: BTreeMap<i64, (i64, Instant)>,
    /// Everything that has happened to keys.
    events: Vec<pb::Event>,
}

impl State {
    fn header(&self) -> Option<pb::ResponseHeader> {
        Some(pb::ResponseHeader {
            revision: self.revision,
            ..Default::default()
        })
    }

    fn happens(&mut self, what: EventType, key: &[u8], lease: i64) {
        self.revision += 1;
        let kv = pb::KeyValue {
            key: key.to_vec(),
            mod_revision: self.revision,
            lease,
            ..Default::default()
        };
        self.events.push(pb::Event {
            r#type: what.into(),
            kv: Some(kv),
            prev_kv: None,
        });
    }

    fn end(&mut self, lease: i64) -> bool {
        let keys: Vec<Vec<u8>> = self
            .keys
            .extract_if(.., |_, of| *of == lease)
            .map(|(key, _)| key)
            .collect();
        for key in keys {
            self.happens(EventType::Delete, &key, 0);
        }
        self.leases.remove(&lease).is_some()
    }
}

impl Kept {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Changes something, and whoever watches sees it.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let changed = change(&mut state);
        self.changed.send_replace(state.revision);
        changed
    }
}

impl Etcd {
    /// It shows a certificate of this CA, and takes clients that do.
    pub fn start(pki: &Pki) -> Self {
        let Credentials {
            certificate,
            key,
            ca,
            ..
        } = pki.server("localhost");
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(&certificate, key.as_bytes()))
            .client_ca_root(Certificate::from_pem(&ca));
        let mut etcd = Self {
            port: 0,
            tls,
            kept: Arc::new(Kept {
                state: Mutex::default(),
                changed: watch::Sender::new(0),
            }),
            runtime: None,
        };
        etcd.start_again();
        etcd
    }

    /// Where it is, as a coordinator is told, with a certificate for its clients.
    pub fn membership(&self, pki: &Pki) -> Membership {
        Membership {
            place: format!("etcd://localhost:{}", self.port),
            credentials: Some(pki.party("to-etcd")),
        }
    }

    /// All connections break.
    pub fn kill(&mut self) {
        let runtime = self.runtime.take().unwrap();
        runtime.shutdown_timeout(Duration::from_secs(1));
    }

    /// As etcd does, it gives every lease its whole time once more.
    pub fn start_again(&mut self) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        for (ttl, end) in self.kept.state().leases.values_mut() {
            *end = Instant::now() + Duration::from_secs(*ttl as u64);
        }
        let _guard = runtime.enter();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], self.port).into()).unwrap();
        let listener = socket.listen(64).unwrap();
        self.port = listener.local_addr().unwrap().port();
        let service = Service(self.kept.clone());
        let services = Services {
            kv: pb::kv_server::KvServer::new(service.clone()),
            lease: pb::lease_server::LeaseServer::new(service.clone()),
            watch: pb::watch_server::WatchServer::new(service),
        };
        let served = Server::builder()
            .tls_config(self.tls.clone())
            .unwrap()
            .serve_with_incoming(services, TcpListenerStream::new(listener));
        runtime.spawn(served);
        runtime.spawn(run_out(self.kept.clone()));
        drop(_guard);
        self.runtime = Some(runtime);
    }

    /// It loses everything that it knew.
    pub fn forget(&self) {
        *self.kept.state() = State::default();
    }

    /// The lease of a member ends, whatever its holder does.
    pub fn fail(&self, name: &str) {
        let key = key(name);
        self.kept.change(|state| {
            let lease = state.keys[&key];
            state.end(lease);
        });
    }

    /// Who is a member.
    pub fn members(&self) -> Vec<String> {
        let state = self.kept.state();
        let prefix = key("");
        let names = state
            .keys
            .keys()
            .map(|key| key.strip_prefix(&prefix[..]).unwrap());
        names
            .map(|name| String::from_utf8(name.to_vec()).unwrap())
            .collect()
    }

    /// Until these are the members.
    pub fn wait_for(&self, members: &[&str]) {
        let until = Instant::now() + PATIENCE;
        while self.members() != members {
            assert!(Instant::now() < until, "{:?} are members", self.members());
            std::thread::sleep(LOOK);
        }
    }

    /// How many leases there are.
    pub fn leases(&self) -> usize {
        self.kept.state().leases.len()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The key of a member of the job of these tests.
fn key(name: &str) -> Vec<u8> {
    format!("/blindsum/test/members/{name}").into_bytes()
}

/// A port at which nobody listens.
pub fn nobody() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

async fn run_out(kept: Arc<Kept>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let now = Instant::now();
        kept.change(|state| {
            let leases = state.leases.iter();
            let over = leases
                .filter(|(_, (_, end))| *end <= now)
                .map(|(id, _)| *id);
            for id in over.collect::<Vec<_>>() {
                state.end(id);
            }
        });
    }
}

#[derive(Clone)]
struct Service(Arc<Kept>);

#[tonic::async_trait]
impl pb::kv_server::Kv for Service {
    async fn range(
        &self,
        request: Request<pb::RangeRequest>,
    ) -> Result<Response<pb::RangeResponse>, Status> {
        let pb::RangeRequest { key, range_end, .. } = request.into_inner();
        let state = self.0.state();
        let kvs = state
            .keys
            .range(key..range_end)
            .map(|(key, lease)| pb::KeyValue {
                key: key.clone(),
                lease: *lease,
                ..Default::default()
            });
        Ok(Response::new(pb::RangeResponse {
            header: state.header(),
            kvs: kvs.collect(),
            ..Default::default()
        }))
    }

    async fn put(
        &self,
        request: Request<pb::PutRequest>,
    ) -> Result<Response<pb::PutResponse>, Status> {
        let pb::PutRequest { key, lease, .. } = request.into_inner();
        self.0.change(|state| {
            if !state.leases.contains_key(&lease) {
                return Err(Status::not_found("etcdserver: requested lease not found"));
            }
            state.happens(EventType::Put, &key, lease);
            state.keys.insert(key, lease);
            let header = state.header();
            Ok(Response::new(pb::PutResponse { header }))
        })
    }
}

/// Each service by its path.
#[derive(Clone)]
struct Services {
    kv: pb::kv_server::KvServer<Service>,
    lease: pb::lease_server::LeaseServer<Service>,
    watch: pb::watch_server::WatchServer<Service>,
}

impl tower::Service<http::Request<Body>> for Services {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match request.uri().path().split('/').nth(1) {
            Some("etcdserverpb.KV") => self.kv.call(request),
            Some("etcdserverpb.Lease") => self.lease.call(request),
            _ => self.watch.call(request),
        }
    }
}

type Stream<T> = ReceiverStream<Result<T, Status>>;

#[tonic::async_trait]
impl pb::lease_server::Lease for Service {
    async fn lease_grant(
        &self,
        request: Request<pb::LeaseGrantRequest>,
    ) -> Result<Response<pb::LeaseGrantResponse>, Status> {
        let ttl = request.into_inner().ttl;
        let mut state = self.0.state();
        state.latest_lease += 1;
        let id = state.latest_lease;
        let end = Instant::now() + Duration::from_secs(ttl as u64);
        state.leases.insert(id, (ttl, end));
        let header = state.header();
        Ok(Response::new(pb::LeaseGrantResponse {
            header,
            id,
            ttl,
            error: String::new(),
        }))
    }

    async fn lease_revoke(
        &self,
        request: Request<pb::LeaseRevokeRequest>,
    ) -> Result<Response<pb::LeaseRevokeResponse>, Status> {
        let id = request.into_inner().id;
        match self.0.change(|state| state.end(id)) {
            true => Ok(Response::new(pb::LeaseRevokeResponse::default())),
            false => Err(Status::not_found("etcdserver: requested lease not found")),
        }
    }

    type LeaseKeepAliveStream = Stream<pb::LeaseKeepAliveResponse>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let (mut asked, kept) = (request.into_inner(), self.0.clone());
        let (sender, answers) = mpsc::channel(64);
        tokio::spawn(async move {
            while let Some(Ok(pb::LeaseKeepAliveRequest { id })) = asked.next().await {
                let ttl = kept.state().leases.get_mut(&id).map_or(0, |(ttl, end)| {
                    *end = Instant::now() + Duration::from_secs(*ttl as u64);
                    *ttl
                });
                let header = None;
                let answer = pb::LeaseKeepAliveResponse { header, id, ttl };
                if sender.send(Ok(answer)).await.is_err() {
                    break;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(answers)))
    }
}

#[tonic::async_trait]
impl pb::watch_server::Watch for Service {
    type WatchStream = Stream<pb::WatchResponse>;

    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (mut asked, kept) = (request.into_inner(), self.0.clone());
        let (sender, answers) = mpsc::channel(64);
        tokio::spawn(async move {
            let Some(Ok(pb::WatchRequest {
                request_union: Some(RequestUnion::CreateRequest(create)),
            })) = asked.next().await
            else {
                return;
            };
            let mut next = create.start_revision;
            let mut changed = kept.changed.subscribe();
            loop {
                let events: Vec<_> = {
                    let state = kept.state();
                    let revision = |event: &pb::Event| event.kv.as_ref().unwrap().mod_revision;
                    let new = state.events.iter().filter(|event| revision(event) >= next);
                    let new = new.cloned().collect();
                    next = state.revision + 1;
                    new
                };
                if !events.is_empty() {
                    let seen = pb::WatchResponse {
                        events,
                        ..Default::default()
                    };
                    if sender.send(Ok(seen)).await.is_err() {
                        return;
                    }
                }
                tokio::select! {
                    changed = changed.changed() => if changed.is_err() { return },
                    // The other side asks for no more.
                    more = asked.next() => if more.is_none_or(|more| more.is_err()) { return },
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(answers)))
    }
}
