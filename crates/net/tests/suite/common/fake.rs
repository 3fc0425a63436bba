//! A coordinator that says whatever a test wants it to: what must a party never believe?

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use blindsum_crypto::kdf;
use blindsum_math::words::Words;
use blindsum_net::party::{Party, PartyConfig, RoundResult};

use blindsum_net::pb::coordinator_server::{Coordinator, CoordinatorServer};
use blindsum_net::pb::party_frame::Frame;
use blindsum_net::pb::{self, CoordinatorFrame, PartyFrame, StatusReply, StatusRequest};
use blindsum_net::{Credentials, Model, NetError};
use blindsum_protocol::{Job, JobSpec, ProtocolName};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Empty, StreamExt};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

use super::raw::certificate;
use super::{PATIENCE, Pki, spec};

pub struct Fake {
    pub port: u16,
    runtime: Runtime,
    connections: Receiver<Connection>,
}

struct Connection {
    inbound: Streaming<PartyFrame>,
    outbound: Option<mpsc::Sender<CoordinatorFrame>>,
}

struct Service(Sender<Connection>);

#[tonic::async_trait]
impl Coordinator for Service {
    type ConnectStream = std::pin::Pin<
        Box<dyn tokio_stream::Stream<Item = Result<CoordinatorFrame, Status>> + Send>,
    >;
    type WatchStream = Empty<Result<StatusReply, Status>>;

    async fn connect(
        &self,
        request: Request<Streaming<PartyFrame>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let (outbound, frames) = mpsc::channel(64);
        let (inbound, outbound) = (request.into_inner(), Some(outbound));
        let _ = self.0.send(Connection { inbound, outbound });
        Ok(Response::new(Box::pin(ReceiverStream::new(frames).map(Ok))))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusReply>, Status> {
        Err(Status::unimplemented(""))
    }

    async fn watch(
        &self,
        _: Request<StatusRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented(""))
    }
}

impl Fake {
    pub fn start(pki: &Pki) -> Self {
        Self::with(pki, pki.coordinator())
    }

    /// One with this certificate.
    pub fn with(pki: &Pki, own: Credentials) -> Self {
        let runtime = super::raw::runtime();
        let tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(&own.certificate, own.key.as_bytes()))
            .client_ca_root(Certificate::from_pem(pki.ca_pem()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, connections) = channel();
        runtime.spawn(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            Server::builder()
                .tls_config(tls)
                .unwrap()
                .serve_with_incoming(
                    CoordinatorServer::new(Service(sender)),
                    TcpListenerStream::new(listener),
                )
                .await
        });
        Self {
            port,
            runtime,
            connections,
        }
    }

    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// The next connection, after its Hello.
    pub fn accept(&self) -> (Line<'_>, pb::Hello) {
        let connection = self.connections.recv_timeout(PATIENCE);
        self.greeted(connection.expect("nobody connects"))
    }

    /// The next connection, where there is one already.
    pub fn next_hello(&self) -> Option<(Line<'_>, pb::Hello)> {
        let connection = self.connections.try_recv().ok()?;
        Some(self.greeted(connection))
    }

    fn greeted(&self, connection: Connection) -> (Line<'_>, pb::Hello) {
        let mut line = Line {
            fake: self,
            connection,
        };
        match line.next() {
            Some(Frame::Hello(hello)) => (line, hello),
            other => panic!("no Hello: {other:?}"),
        }
    }

    /// The next connection, welcomed to `job`; none where nobody will come any more.
    pub fn welcome_or(&self, job: &Job, gone: impl Fn() -> bool) -> Option<Line<'_>> {
        loop {
            match self.connections.recv_timeout(Duration::from_millis(20)) {
                Ok(connection) => {
                    let mut line = Line {
                        fake: self,
                        connection,
                    };
                    return line.next().map(|_| {
                        line.send(welcome(job));
                        line
                    });
                }
                Err(_) if gone() => return None,
                Err(_) => {}
            }
        }
    }

    /// The next connection, welcomed to `job`.
    pub fn welcome(&self, job: &Job) -> Line<'_> {
        let (line, _) = self.accept();
        line.send(welcome(job));
        line
    }
}

pub fn welcome(job: &Job) -> pb::Welcome {
    pb::Welcome {
        version: *pb::WIRE_VERSIONS.end(),
        program: "fake".into(),
        job_spec: serde_json::to_string(job.spec()).unwrap(),
        job_hash: job.hash().to_vec(),
        model: Some(name(&Model::initial(job))),
        ..pb::Welcome::default()
    }
}

pub fn name(model: &Model) -> pb::ModelName {
    pb::ModelName {
        version: model.version(),
        hash: model.hash().to_vec(),
        dim: model.values().len() as u64,
    }
}

/// One party's connection.
pub struct Line<'a> {
    fake: &'a Fake,
    connection: Connection,
}

impl Line<'_> {
    pub fn send(&self, frame: impl Into<CoordinatorFrame>) {
        let outbound = self.connection.outbound.as_ref().expect("closed already");
        let _ = self.fake.runtime.block_on(outbound.send(frame.into()));
    }

    /// Says nothing more; what the party says is still heard.
    pub fn close(&mut self) {
        self.connection.outbound = None;
    }

    pub fn next(&mut self) -> Option<Frame> {
        let next = async {
            tokio::time::timeout(PATIENCE, self.connection.inbound.message())
                .await
                .expect("the party says nothing")
        };
        match self.fake.runtime.block_on(next) {
            Ok(Some(frame)) => Some(frame.frame.expect("an empty frame")),
            Ok(None) | Err(_) => None,
        }
    }

    /// The party leaves the job, and says nothing else.
    pub fn leaves(&mut self) -> pb::Leaving {
        let leaving = match self.next() {
            Some(Frame::Leaving(leaving)) => leaving,
            other => panic!("it goes on: {other:?}"),
        };
        assert!(self.next().is_none(), "it goes on after its goodbye");
        leaving
    }

    /// Offers a round that starts from `model`; the party's nonce.
    pub fn offer(&mut self, round: u64, model: &Model) -> Vec<u8> {
        self.send(pb::RoundOffer {
            round,
            model: Some(name(model)),
            ..pb::RoundOffer::default()
        });
        match self.next() {
            Some(Frame::Ready(ready)) => {
                assert_eq!((ready.round, ready.nonce.len()), (round, 32));
                ready.nonce
            }
            other => panic!("not ready: {other:?}"),
        }
    }

    /// The refusal that must come next: nothing else may be said before it.
    pub fn refusal(&mut self) -> (pb::RoundRefusalCode, String) {
        match self.next() {
            Some(Frame::RoundRefused(refused)) => (refused.code(), refused.reason),
            other => panic!("not refused: {other:?}"),
        }
    }

    pub fn chunk(&mut self) -> pb::Chunk {
        match self.next() {
            Some(Frame::Chunk(chunk)) => chunk,
            other => panic!("no chunk: {other:?}"),
        }
    }
}

/// A job of plain sums for up to four parties.
pub fn job() -> Arc<Job> {
    // A party is in no round beyond these.
    let spec = JobSpec {
        rounds: 9,
        ..spec(ProtocolName::Plain, 4)
    };
    Arc::new(spec.validate().unwrap())
}

/// The certificates and nonces of a round.
pub struct Cast(pub Vec<(Vec<u8>, Vec<u8>)>);

impl Cast {
    /// The party `a` with its nonce, and others.
    pub fn new(a: &Credentials, nonce: &[u8], others: &[&Credentials]) -> Self {
        let mut cast = vec![(certificate(a), nonce.to_vec())];
        cast.extend(others.iter().map(|other| (certificate(other), vec![7; 32])));
        Self(cast)
    }

    pub fn start(&self, round: u64, model: &Model) -> pb::RoundStart {
        let roster = self.0.iter().map(|(certificate, nonce)| pb::Participant {
            fingerprint: kdf::hash("blindsum certificate", &[certificate])
                .to_vec()
                .into(),
            nonce: nonce.clone().into(),
        });
        let certificates = self.0.iter().map(|(one, _)| one.clone().into());
        let mut certificates: Vec<_> = certificates.collect();
        certificates.dedup();
        pb::RoundStart {
            round,
            model: Some(name(model)),
            roster: roster.collect(),
            certificates,
            answers_taken: 0,
            kind: pb::RoundKind::Sum.into(),
            numbers: None,
            terms: None,
            tag: None,
            about: Vec::new(),
        }
    }
}

pub type Outcome = Result<Option<Result<RoundResult, NetError>>, NetError>;

/// The party's program: waits for one round, submits ones, and tells what became of it.
pub fn one_round(config: PartyConfig) -> JoinHandle<(Outcome, Option<Party>)> {
    std::thread::spawn(move || {
        let mut party = match Party::join(config) {
            Ok(party) => party,
            Err(error) => return (Err(error), None),
        };
        let outcome = match party.next_round() {
            Ok(Some(mut round)) => match round.submit(vec![1.0f32; 5], 1) {
                Ok(()) => Ok(Some(round.result())),
                Err(error) => Ok(Some(Err(error))),
            },
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        (outcome, Some(party))
    })
}

/// A round of three parties whose sum is three times what `a` says.
pub fn tripled(job: &Job, chunk: &pb::Chunk) -> pb::Chunk {
    let (frame, body) = chunk.data.split_at(34);
    let mut sum = Words::unpack(job.width(), job.lanes(), body).unwrap();
    let own = Words::unpack(job.width(), job.lanes(), body).unwrap();
    sum.add(&own).unwrap();
    sum.add(&own).unwrap();
    let data = [frame, &[0b111], &sum.pack()].concat();
    pb::Chunk {
        total: data.len() as u64,
        data: data.into(),
        ..chunk.clone()
    }
}

/// What is said after `told`, the message that told the sum.
pub fn done(model: &Model, told: &pb::Chunk) -> pb::RoundDone {
    // Version, stage and context come before everything else.
    let context = &told.data[2..34];
    pb::RoundDone {
        round: told.round,
        model: Some(name(model)),
        result: kdf::hash("blindsum result", &[context, &told.data]).to_vec(),
    }
}
