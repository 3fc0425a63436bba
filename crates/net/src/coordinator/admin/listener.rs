//! Connections of operators: TCP, the TLS handshake with its time limit, and the name of the operator at the other end.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use blindsum_crypto::certificate::{CertificateError, TrustAnchor};
use tokio::io::{self, AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;
use tonic::{Request, Status};
use tracing::{debug, warn};

use crate::limits::Limits;
use crate::observers::Observers;
use crate::plain::io_words;
use crate::seconds;
use crate::serving::{Refusal, Refusals};
use crate::system::WallClock;
use crate::tls::{
    Accepting, CoordinatorSide, RefusedCertificate, Renewed, noting_refusals, tls_error, words,
};

/// The most connections of operators at a time, and beside them of those who shake hands.
const MAX_CONNECTIONS: usize = 32;
const MAX_SHAKING: usize = 32;

/// An operator, as TLS has verified it.
#[derive(Clone)]
pub(super) struct Operator {
    pub name: Arc<str>,
    certificate: Arc<[u8]>,
    clock: WallClock,
}

impl Operator {
    /// The operator that makes a request, if its certificate is still valid.
    ///
    /// # Errors
    /// The certificate was revoked, or has expired, since it connected.
    pub fn of<T>(request: &Request<T>, anchor: &TrustAnchor) -> Result<Self, Status> {
        let operator = request.extensions().get::<Self>().cloned();
        let operator =
            operator.ok_or_else(|| Status::unauthenticated("no verified certificate"))?;
        // guard: a-revoked-operator-gives-no-orders
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

/// The connections of operators, until the stream is dropped. When more are shaking hands than may, the oldest of them is
/// dropped: an operator is done long before, and strangers that never finish keep nobody out.
pub(super) fn accept(
    listener: TcpListener,
    side: Arc<Renewed<CoordinatorSide>>,
    limits: &Limits,
    observers: Observers,
) -> ReceiverStream<io::Result<Connection>> {
    let (sender, connections) = mpsc::channel(4);
    let timeout = seconds(limits.handshake_timeout);
    let (places, refusals) = (
        Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        Refusals::new(observers),
    );
    tokio::spawn(async move {
        let mut shaking: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = sender.closed() => return,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "cannot take a connection of an operator");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            shaking.retain(|handshake| !handshake.is_finished());
            if shaking.len() >= MAX_SHAKING
                && let Some(oldest) = shaking.pop_front()
            {
                // guard: strangers-hold-no-place-of-operators
                oldest.abort();
            }
            let (side, sender) = (side.clone(), sender.clone());
            let (places, refusals) = (places.clone(), refusals.clone());
            let handshake = async move {
                let shaken = tokio::time::timeout(timeout, shake(stream, &side)).await;
                let late = |_| Refusal::from("not finished in time".to_owned());
                let placed = shaken
                    .map_err(late)
                    .flatten()
                    .and_then(|(stream, operator)| {
                        let place = places.try_acquire_owned();
                        let full = |_| Refusal::from("too many operators are connected".to_owned());
                        let _place = place.map_err(full)?;
                        Ok(Connection {
                            stream,
                            operator,
                            _place,
                        })
                    });
                match placed {
                    Ok(connection) => {
                        debug!(%address, operator = %connection.operator.name, "an operator has connected");
                        let _ = sender.send(Ok(connection)).await;
                    }
                    Err(refusal) => refusals.note(address, refusal.at("the admin address")),
                }
            };
            shaking.push_back(tokio::spawn(handshake).abort_handle());
        }
    });
    ReceiverStream::new(connections)
}

/// The handshake, and the operator whose certificate was shown.
async fn shake(
    stream: TcpStream,
    side: &Renewed<CoordinatorSide>,
) -> Result<(TlsStream<TcpStream>, Operator), Refusal> {
    let _ = stream.set_nodelay(true);
    let acceptor = TlsAcceptor::from(side.current().accepting());
    let (shaken, refused) = noting_refusals(acceptor.accept(stream)).await;
    let mut stream = shaken.map_err(|error| Refusal {
        reason: tls_error(&error).map_or_else(|| io_words(&error), words),
        certificate: refused,
    })?;
    let clock = side.clock().clone();
    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let certificate: Arc<[u8]> = shown.first().map_or(&[][..], AsRef::as_ref).into();
    match identify(side.anchor(), &certificate, &clock) {
        Ok(name) => {
            let operator = Operator {
                name,
                certificate,
                clock,
            };
            Ok((stream, operator))
        }
        Err(error) => {
            let _ = stream.shutdown().await;
            let is_party = side
                .anchor()
                .verify_party(&certificate, clock.unix_seconds());
            let is_party = is_party.is_ok();
            let signed = side.anchor().signed_name(&certificate);
            Err(Refusal {
                reason: format!("only certificates of operators are accepted: {error}"),
                certificate: signed.map(|name| RefusedCertificate {
                    name,
                    is_revoked: matches!(error, CertificateError::Revoked),
                    is_elsewhere: is_party,
                }),
            })
        }
    }
}

/// The name of the operator whose certificate this is.
fn identify(
    anchor: &TrustAnchor,
    certificate: &[u8],
    clock: &WallClock,
) -> Result<Arc<str>, CertificateError> {
    // guard: operators-alone-give-orders
    let name = anchor.verify_operator(certificate, clock.unix_seconds())?;
    Ok(name.into())
}
