//! Connecting to a coordinator: TCP, TLS, HTTP/2, each with errors of its own.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::{CONTENT_TYPE, TE};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
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
use crate::ahead::Ahead;
use crate::chunks::CHUNK;
use crate::error::with_causes;
use crate::pb::CoordinatorFrame;
use crate::pb::coordinator_client::CoordinatorClient;
use crate::stream::{Traffic, Watched};
use crate::wire::{CONNECT, LARGEST_PIECE, Sending, Sent};

/// Bytes of the largest frame that is taken: a round's start names every party and brings certificates.
const MAX_FRAME: usize = 256 << 20;

/// Where a coordinator is, and how this side shows who it is.
pub(crate) struct Target {
    url: String,
    host: String,
    port: u16,
    server_name: ServerName<'static>,
    tls: Arc<ClientConfig>,
    keepalive: Duration,
}

/// Why a connection did not come about.
pub(crate) enum ConnectError {
    /// It may work later.
    Later(String),
    /// It will not.
    Never(NetError),
}

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
}

impl Target {
    /// Checks the address. `server_name` is the name in the coordinator's certificate, where it is not
    /// the host of the URL.
    pub fn new(
        url: &str,
        server_name: Option<&str>,
        tls: Arc<ClientConfig>,
        keepalive: Duration,
    ) -> Result<Self, NetError> {
        let wrong = |rule: &str| NetError::config("url", format!("{url:?}: {rule}"));
        let uri: Uri = url
            .parse()
            .map_err(|_| wrong("must be https://HOST:PORT"))?;
        if uri.scheme_str() != Some("https") {
            return Err(wrong(
                "must begin with https://: the connection is always TLS",
            ));
        }
        let host = uri.host().ok_or_else(|| wrong("must name a host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = server_name.unwrap_or(host).to_owned();
        let server_name =
            ServerName::try_from(name).map_err(|_| wrong("the host must be a name or address"))?;
        Ok(Self {
            url: url.into(),
            host: host.into(),
            port: uri.port_u16().unwrap_or(9443),
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
        &self.url
    }

    /// Connects; each of the three steps gets `time`.
    pub async fn connect(&self, time: Duration) -> Result<Connected, ConnectError> {
        let late = |what: &str| ConnectError::Later(format!("{what}: no answer in time"));
        let address = (self.host.as_str(), self.port);
        let stream = match timeout(time, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(ConnectError::Later(error.to_string())),
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
        let stream = TokioIo::new(Watched::new(stream, traffic.clone()));
        let channel = timeout(time, self.http(stream)).await;
        match channel {
            Ok(Ok(channel)) => Ok(Connected { channel, traffic }),
            Ok(Err(error)) => Err(self.broken(&traffic, with_causes(&error))),
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
        let inner = error
            .get_ref()
            .and_then(|e| e.downcast_ref::<rustls::Error>());
        match inner {
            None => ConnectError::Later(format!("TLS: {error}")),
            Some(inner) => ConnectError::Never(NetError::Tls {
                url: self.url.clone(),
                reason: self.tls_reason(inner),
            }),
        }
    }

    fn tls_reason(&self, error: &rustls::Error) -> String {
        use rustls::CertificateError as C;
        let certificate = match error {
            rustls::Error::InvalidCertificate(certificate) => certificate,
            rustls::Error::InvalidMessage(_) => return "what answers there speaks no TLS".into(),
            other => return other.to_string(),
        };
        match certificate {
            C::UnknownIssuer | C::BadSignature => {
                "the coordinator's certificate is not signed by the CA that this party trusts"
                    .into()
            }
            C::Expired | C::ExpiredContext { .. } => {
                "the coordinator's certificate has expired".into()
            }
            C::Revoked => "the coordinator's certificate is revoked".into(),
            C::InvalidPurpose | C::InvalidPurposeContext { .. } => {
                "what answers there shows no coordinator's certificate: one has server authentication as its only \
                 extended key usage; the CA makes it by: blindsum pki issue CA NAME --coordinator --host HOST"
                    .into()
            }
            C::NotValidForName | C::NotValidForNameContext { .. } => format!(
                "the coordinator's certificate is for other hosts than {}; connect by a host that \
                 it names, or give its name as server_name",
                self.server_name.to_str()
            ),
            other => format!("the coordinator's certificate: {other:?}"),
        }
    }

    /// A connection that broke after the handshake: with TLS 1.3 the coordinator's word on this side's
    /// certificate comes only then.
    pub fn broken(&self, traffic: &Traffic, otherwise: String) -> ConnectError {
        match traffic.error() {
            Some(error) if error.contains("alert") => ConnectError::Never(NetError::Tls {
                url: self.url.clone(),
                reason: format!(
                    "the coordinator does not accept this party's certificate ({error}): it must \
                     be of the job's CA, in its time, and not revoked"
                ),
            }),
            Some(error) => ConnectError::Later(error.to_owned()),
            None => ConnectError::Later(otherwise),
        }
    }
}
