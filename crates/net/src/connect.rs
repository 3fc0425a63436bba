//! Connecting to a coordinator, or to another server: TCP, TLS, HTTP/2, each with errors of its own.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use blindsum_crypto::usage::Role;
use http::header::{CONTENT_TYPE, TE};
use hyper_util::rt::TokioIo;
use rustls::{AlertDescription, ClientConfig};
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Status, Streaming};
use tonic_prost::ProstDecoder;
use tower::Service;

use crate::NetError;
use crate::address::{Address, bare};
use crate::ahead::Ahead;
use crate::chunks::CHUNK;
use crate::pb::CoordinatorFrame;
use crate::pb::computing_client::ComputingClient;
use crate::pb::coordinator_client::CoordinatorClient;
use crate::plain::{cause_words, io_words};
use crate::stream::{Traffic, Watched};
use crate::tls::{certificate_words, key_exchange, tls_error, words};
use crate::wire::{CONNECT, LARGEST_PIECE, Sending, Sent};

/// Bytes of the largest frame that is taken: a round's start names every party and brings certificates.
const MAX_FRAME: usize = 256 << 20;

/// Where a coordinator or another server is, and how this side shows who it is.
pub(crate) struct Target {
    address: Address,
    /// Nothing for what has no role in a job: etcd.
    role: Option<Role>,
    server_name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    keepalive: Duration,
}

/// Time for each step of a connection.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(10);

/// The first and the longest pause between two attempts to connect, in seconds.
pub(crate) const PAUSES: (f64, f64) = (0.1, 2.0);

/// Why a connection did not come about.
pub(crate) enum ConnectError {
    /// It may work later.
    Later(String),
    /// It will not.
    Never(NetError),
    /// The other side says that this side's certificate is not in its time. It will not, unless one of the clocks is wrong.
    OutOfTime(NetError),
}

impl ConnectError {
    /// In words, without the address.
    pub fn reason(self) -> String {
        match self {
            Self::Later(reason)
            | Self::Never(NetError::Tls { reason, .. })
            | Self::OutOfTime(NetError::Tls { reason, .. }) => reason,
            Self::Never(error) | Self::OutOfTime(error) => error.to_string(),
        }
    }
}

/// A coordinator that ends a connection without a word after the handshake.
const WRONG_DOOR: &str = "the other side closed the connection before it answered: the address of operators \
    (admin) accepts only certificates of operators (blindsum pki issue CA NAME --operator), the address of \
    parties only those of parties, and neither a revoked one; check port and certificate, the coordinator's log \
    has the reason";

type Stream = TokioIo<Watched<TlsStream<Ahead<TcpStream>>>>;

/// A connection and what went through it.
pub(crate) struct Connected {
    pub channel: Channel,
    pub traffic: Arc<Traffic>,
}

impl Connected {
    /// Opens a party's stream: what it sends, and what the coordinator does.
    pub async fn stream(
        &mut self,
        frames: mpsc::Receiver<Sent>,
    ) -> Result<Streaming<CoordinatorFrame>, Status> {
        let body = Body::new(Sending::request(ReceiverStream::new(frames)));
        let request = http::Request::post(CONNECT)
            .header(TE, "trailers")
            .header(CONTENT_TYPE, "application/grpc")
            .body(body)
            .map_err(|error| Status::internal(error.to_string()))?;
        let ready = poll_fn(|cx| self.channel.poll_ready(cx)).await;
        ready.map_err(|error| Status::from_error(error.into()))?;
        let response = self.channel.call(request).await;
        let response = response.map_err(|error| Status::from_error(error.into()))?;
        match Status::from_header_map(response.headers()) {
            // It says so where nothing else follows.
            Some(status) => Err(status),
            None => {
                let (status, decoder) = (response.status(), ProstDecoder::default());
                let (body, most) = (response.into_body(), Some(MAX_FRAME));
                Ok(Streaming::new_response(decoder, body, status, None, most))
            }
        }
    }

    /// Questions how jobs stand.
    pub fn client(self) -> CoordinatorClient<Channel> {
        CoordinatorClient::new(self.channel).max_decoding_message_size(MAX_FRAME)
    }

    /// Uploads to a server, and lines with one.
    pub fn computing(self) -> ComputingClient<Channel> {
        ComputingClient::new(self.channel)
    }
}

impl Target {
    /// A coordinator. `server_name` is the name in its certificate, where it is not the host of the address.
    pub fn coordinator(
        address: Address,
        server_name: Option<&str>,
        tls: Arc<ClientConfig>,
        keepalive: Duration,
    ) -> Result<Self, NetError> {
        Self::new(address, Role::Coordinator, server_name, tls, keepalive)
    }

    /// A server that computes with a coordinator.
    pub fn server(
        address: Address,
        tls: Arc<ClientConfig>,
        keepalive: Duration,
    ) -> Result<Self, NetError> {
        Self::new(address, Role::Server, None, tls, keepalive)
    }

    /// A server of etcd.
    pub fn etcd(
        address: Address,
        tls: Arc<ClientConfig>,
        keepalive: Duration,
    ) -> Result<Self, NetError> {
        Self::new(address, None, None, tls, keepalive)
    }

    fn new(
        address: Address,
        role: impl Into<Option<Role>>,
        server_name: Option<&str>,
        tls: Arc<ClientConfig>,
        keepalive: Duration,
    ) -> Result<Self, NetError> {
        let name = bare(server_name.unwrap_or(&address.host)).to_owned();
        let wrong = |_| {
            NetError::config(
                "server_name",
                format!(
                    "{name:?}: must be a name or address of the certificate, as in agg.example"
                ),
            )
        };
        let server_name = ServerName::try_from(name.clone()).map_err(wrong)?;
        Ok(Self {
            address,
            role: role.into(),
            server_name,
            tls,
            keepalive,
        })
    }

    /// Shows and trusts something else from the next connection on.
    pub fn set_tls(&mut self, tls: Arc<ClientConfig>) {
        self.tls = tls;
    }

    pub fn url(&self) -> &str {
        &self.address.url
    }

    /// Connects; each of the three steps gets `time`.
    pub async fn connect(&self, time: Duration) -> Result<Connected, ConnectError> {
        let late = |what: &str| {
            let seconds = time.as_secs_f64();
            ConnectError::Later(format!("no answer to {what} within {seconds} s"))
        };
        let address = (self.address.host.as_str(), self.address.port);
        let stream = match timeout(time, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(ConnectError::Later(io_words(&error))),
            Err(_) => return Err(late("TCP")),
        };
        let _ = stream.set_nodelay(true);
        let connector = TlsConnector::from(self.tls.clone());
        let shake = connector.connect(self.server_name.clone(), Ahead::new(stream));
        let stream = match timeout(time, shake).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(self.tls_failed(&error)),
            Err(_) => return Err(late("TLS")),
        };
        let traffic = Arc::new(Traffic::default());
        traffic.agreed(key_exchange(stream.get_ref().1));
        let stream = TokioIo::new(Watched::new(stream, traffic.clone()));
        let channel = timeout(time, self.http(stream)).await;
        match channel {
            Ok(Ok(channel)) => Ok(Connected { channel, traffic }),
            Ok(Err(error)) => Err(self.broken(&traffic, cause_words(&error))),
            Err(_) => Err(late("HTTP/2")),
        }
    }

    /// HTTP/2 over the one connection that is there; it is not replaced when it breaks.
    async fn http(&self, stream: Stream) -> Result<Channel, tonic::transport::Error> {
        let once = Arc::new(Mutex::new(Some(stream)));
        let connector = tower::service_fn(move |_: Uri| {
            let stream = once.lock().unwrap_or_else(PoisonError::into_inner).take();
            let gone = || std::io::Error::other("the connection has ended");
            std::future::ready(stream.ok_or_else(gone))
        });
        Endpoint::from_shared("http://coordinator")?
            .http2_keep_alive_interval(self.keepalive)
            .keep_alive_timeout(self.keepalive)
            .keep_alive_while_idle(true)
            .max_frame_size(Some(LARGEST_PIECE))
            .initial_stream_window_size(Some(2 * CHUNK as u32))
            .initial_connection_window_size(Some(4 * CHUNK as u32))
            .connect_with_connector(connector)
            .await
    }

    fn tls_failed(&self, error: &std::io::Error) -> ConnectError {
        match tls_error(error) {
            None => ConnectError::Later(format!("in the TLS handshake: {}", io_words(error))),
            Some(inner) => ConnectError::Never(self.failed(self.tls_reason(inner))),
        }
    }

    fn tls_reason(&self, error: &rustls::Error) -> String {
        use rustls::CertificateError as C;
        let whom = self.whom();
        let certificate = match error {
            rustls::Error::InvalidCertificate(certificate) => certificate,
            rustls::Error::InvalidMessage(_) => {
                return "the program there does not use TLS: check host and port".into();
            }
            other => return words(other),
        };
        match certificate {
            C::UnknownIssuer | C::BadSignature => {
                format!(
                    "the {whom}'s certificate is not signed by the CA that is trusted here: ask who runs the job for \
                     its CA certificate, or check host and port"
                )
            }
            C::Revoked => format!("the {whom}'s certificate is revoked"),
            C::InvalidPurpose | C::InvalidPurposeContext { .. } if self.role == Some(Role::Server) => {
                "what answers there shows no certificate of a server that computes with a coordinator: one has client \
                 and server authentication as its only extended key usages; the CA makes it by: \
                 blindsum pki issue CA NAME --server --host HOST"
                    .into()
            }
            C::InvalidPurpose | C::InvalidPurposeContext { .. } if self.role.is_none() => {
                "the certificate that etcd shows lacks server authentication".into()
            }
            C::InvalidPurpose | C::InvalidPurposeContext { .. } => {
                "what answers there shows no coordinator's certificate: one has server authentication as its only \
                 extended key usage; the CA makes it by: blindsum pki issue CA NAME --coordinator --host HOST"
                    .into()
            }
            C::NotValidForName | C::NotValidForNameContext { .. } if self.role.is_none() => {
                let host = self.server_name.to_str();
                format!("the certificate that etcd shows is for other hosts than {host}")
            }
            C::NotValidForName | C::NotValidForNameContext { .. } => format!(
                "the {whom}'s certificate is for other hosts than {}; connect by a host that \
                 it names, or give its name (--server-name, in Python server_name)",
                self.server_name.to_str()
            ),
            other => format!("the {whom}'s certificate {}", certificate_words(other)),
        }
    }

    /// Who is at the other end, in messages.
    fn whom(&self) -> &'static str {
        match self.role {
            Some(Role::Server) => "server",
            Some(Role::Party | Role::Coordinator | Role::Operator) => "coordinator",
            None => "etcd server",
        }
    }

    /// A connection that broke after the handshake: with TLS 1.3 the coordinator's word on this side's
    /// certificate comes only then.
    pub fn broken(&self, traffic: &Traffic, otherwise: String) -> ConnectError {
        let error = traffic.error().unwrap_or_default();
        match traffic.alert() {
            Some(_) if self.role.is_none() => ConnectError::Later(format!(
                "it does not accept this side's certificate ({error}): that must have client authentication and be of \
                 a CA that etcd trusts"
            )),
            Some(AlertDescription::CertificateExpired) => {
                let whom = self.whom();
                ConnectError::OutOfTime(self.failed(format!(
                    "by the clock of the {whom} this side's certificate is outside its validity period \
                     ({error}): check the clocks of \
                     both machines; if they are right, the CA must issue a new certificate"
                )))
            }
            Some(AlertDescription::CertificateRevoked) => {
                let whom = self.whom();
                ConnectError::Never(self.failed(format!(
                    "the {whom} does not accept this side's certificate: it is revoked; ask the CA for a new one, with a \
                     new key"
                )))
            }
            Some(_) => ConnectError::Never(self.failed(format!(
                "the {} does not accept this side's certificate ({error}): it must \
                 be of the job's CA, in its time, and not revoked",
                self.whom()
            ))),
            // It has said nothing since the handshake.
            None if self.role == Some(Role::Coordinator) && traffic.has_read_nothing() => {
                ConnectError::Later(WRONG_DOOR.into())
            }
            None if !error.is_empty() => ConnectError::Later(error.to_owned()),
            None => ConnectError::Later(otherwise),
        }
    }

    fn failed(&self, reason: String) -> NetError {
        let url = self.address.url.clone();
        NetError::Tls { url, reason }
    }
}
