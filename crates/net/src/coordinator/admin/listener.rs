//! Connections of operators: TCP, the TLS handshake with its time limit, and the name of the operator at the other end.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use blindsum_crypto::certificate::{CertificateError, TrustAnchor};
use tokio::io::{self, AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;
use tonic::{Request, Status};
use tracing::{debug, warn};

use crate::limits::Limits;
use crate::seconds;
use crate::system::WallClock;
use crate::tls::{Accepting, CoordinatorSide, Renewed, tls_error, words};

/// The most connections at a time, those included that shake hands.
const MAX_CONNECTIONS: usize = 32;

/// An operator, as TLS has verified it.
#[derive(Clone)]
pub(super) struct Operator {
    pub name: Arc<str>,
    certificate: Arc<[u8]>,
    clock: WallClock,
}

impl Operator {
    /// Who makes a request, if its certificate still counts.
    ///
    /// # Errors
    /// The certificate was revoked, or has expired, since it connected.
    pub fn of<T>(request: &Request<T>, anchor: &TrustAnchor) -> Result<Self, Status> {
        let operator = request.extensions().get::<Self>().cloned();
        let operator =
            operator.ok_or_else(|| Status::unauthenticated("no verified certificate"))?;
        let verified = identify(anchor, &operator.certificate, &operator.clock);
        verified.map_err(|error| {
            Status::unauthenticated(format!(
                "this operator's certificate is not accepted any more: {error}"
            ))
        })?;
        Ok(operator)
    }
}

/// A connection of an operator. It holds its place among the connections until it is dropped.
pub(super) struct Connection {
    stream: TlsStream<TcpStream>,
    operator: Operator,
    _place: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = Operator;

    fn connect_info(&self) -> Operator {
        self.operator.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The connections of operators, until the stream is dropped.
pub(super) fn accept(
    listener: TcpListener,
    side: Arc<Renewed<CoordinatorSide>>,
    limits: &Limits,
) -> ReceiverStream<io::Result<Connection>> {
    let (sender, connections) = mpsc::channel(4);
    let timeout = seconds(limits.handshake_timeout);
    tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        while let Ok(place) = places.clone().acquire_owned().await {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = sender.closed() => return,
            };
            match accepted {
                Ok((stream, address)) => {
                    let (side, sender) = (side.clone(), sender.clone());
                    tokio::spawn(async move {
                        if let Some(connection) =
                            shake(stream, address, &side, timeout, place).await
                        {
                            let _ = sender.send(Ok(connection)).await;
                        }
                    });
                }
                Err(error) => {
                    warn!(%error, "cannot take a connection of an operator");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    });
    ReceiverStream::new(connections)
}

/// The handshake. Whoever is no operator is refused, and the log says why.
async fn shake(
    stream: TcpStream,
    address: SocketAddr,
    side: &Renewed<CoordinatorSide>,
    timeout: Duration,
    place: OwnedSemaphorePermit,
) -> Option<Connection> {
    let _ = stream.set_nodelay(true);
    let acceptor = TlsAcceptor::from(side.current().accepting());
    let refused = |reason: &str| {
        warn!(%address, %reason, "admin: connection refused: only certificates of operators are let in");
    };
    let mut stream = match tokio::time::timeout(timeout, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            refused(&tls_error(&error).map_or_else(|| error.to_string(), words));
            return None;
        }
        Err(_) => {
            refused("the TLS handshake was not finished in time");
            return None;
        }
    };
    let clock = side.clock().clone();
    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificate: Arc<[u8]> = shown.first().map_or(&[][..], AsRef::as_ref).into();
    let verified = identify(side.anchor(), &certificate, &clock);
    match verified {
        Ok(name) => {
            debug!(%address, operator = %name, "an operator has connected");
            let operator = Operator {
                name,
                certificate,
                clock,
            };
            Some(Connection {
                stream,
                operator,
                _place: place,
            })
        }
        Err(error) => {
            let _ = stream.shutdown().await;
            refused(&error.to_string());
            None
        }
    }
}

/// The name of the operator whose certificate this is.
fn identify(
    anchor: &TrustAnchor,
    certificate: &[u8],
    clock: &WallClock,
) -> Result<Arc<str>, CertificateError> {
    let name = anchor.verify_operator(certificate, clock.unix_seconds())?;
    Ok(name.into())
}
