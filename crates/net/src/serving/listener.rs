//! Accepting connections: TCP, the TLS handshake with its time limit, and the name of the party at the other end.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use blindsum_crypto::certificate::{CertificateError, CertifiedParty, TrustAnchor};
use blindsum_crypto::sign::VerifyingKey;
use blindsum_crypto::usage::Role;
use blindsum_job::coordinator::Who;
use blindsum_job::totals::RefusedBecause;
use blindsum_protocol::ServerRole;
use rustls_pki_types::CertificateDer;
use tokio::io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;
use tonic::{Request, Status};
use tracing::{debug, info, warn};

use super::places::{Calling, Calls, Place, Places};
use super::refusals::{Refusal, Refusals};
use crate::ahead::Ahead;
use crate::counts::Counts;
use crate::limits::Limits;
use crate::observers::Observers;
use crate::seconds;
use crate::servers::Servers;
use crate::stream::{Traffic, Watched};
use crate::system::WallClock;
use crate::tls::{Accepting, Renewed, key_exchange, noting_refusals, tls_error, words};

/// Who is at the other end, as TLS has verified it.
#[derive(Clone)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    /// The party's name, or the host by which a server is known.
    pub name: Arc<str>,
    /// Its role, if it is another server of the job.
    pub role: Option<ServerRole>,
    /// Its certificate in DER.
    pub certificate: Arc<[u8]>,
    /// Those between it and the CA, as it has shown them.
    between: Arc<[Vec<u8>]>,
    /// The key in it.
    pub key: VerifyingKey,
    pub traffic: Arc<Traffic>,
    calls: Calls,
    cut: mpsc::Sender<()>,
    /// By which its certificate is in its time.
    clock: WallClock,
}

impl From<&Peer> for blindsum_job::coordinator::Peer {
    fn from(peer: &Peer) -> Self {
        Self {
            name: peer.name.clone(),
            role: peer.role,
            address: peer.address.to_string(),
            certificate: peer.certificate.clone(),
            key: peer.key.clone(),
            traffic: peer.traffic.clone(),
        }
    }
}

impl Peer {
    /// Who makes a request.
    ///
    /// # Errors
    /// Nobody whom TLS has verified: no such request comes from outside.
    pub fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        let peer = request.extensions().get::<Self>().cloned();
        peer.ok_or_else(unknown)
    }

    /// By what it is counted.
    pub fn who(&self) -> Who {
        Who::of(&self.name, self.role)
    }

    /// Checks the certificate again, which was verified when it connected.
    pub fn verify(&self, anchor: &TrustAnchor) -> Result<(), CertificateError> {
        let (certificate, now) = (&self.certificate, self.clock.unix_seconds());
        match self.role {
            None => anchor.verify_party(certificate, now).map(drop),
            Some(_) => anchor
                .verify_server(certificate, &self.between, now)
                .map(drop),
        }
    }

    /// The same, in words for its owner.
    pub fn holds(&self, anchor: &TrustAnchor) -> Result<(), Status> {
        self.verify(anchor).map_err(|error| match error {
            CertificateError::RevocationListExpired { .. } => {
                Status::unavailable(error.to_string())
            }
            error => Status::unauthenticated(format!(
                "this certificate is not accepted any more: {error}"
            )),
        })
    }

    /// A call over the connection, which stays while there is one.
    pub fn calling(&self) -> Calling {
        self.calls.begin()
    }

    /// Ends the connection at once, and everything that goes over it.
    pub fn cut(&self) {
        // Where it is full already that is known.
        let _ = self.cut.try_send(());
    }
}

/// What is said to nobody.
pub(crate) fn unknown() -> Status {
    Status::unauthenticated("no verified certificate")
}

/// A connection after the handshake; holds its place among the connections until it is dropped.
pub(crate) struct Connection {
    stream: TlsStream<Ahead<Watched<TcpStream>>>,
    peer: Peer,
    cuts: mpsc::Receiver<()>,
    is_cut: bool,
    _place: Place,
}

impl Connection {
    /// Fails once the connection is cut; until then the task is woken when that happens.
    fn uncut(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        self.is_cut |= self.cuts.poll_recv(cx) == Poll::Ready(Some(()));
        match self.is_cut {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.uncut(cx)?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.uncut(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.uncut(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.uncut(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Takes connections until the receiver is dropped. When more are shaking hands than are allowed to,
/// the oldest of them is dropped: an honest one is done long before, and peers that never finish keep
/// nobody out.
pub(crate) async fn accept_all<S: Accepting>(
    listener: TcpListener,
    side: Arc<Renewed<S>>,
    servers: Option<Arc<Servers>>,
    limits: Limits,
    connections: mpsc::Sender<io::Result<Connection>>,
    observers: Observers,
) {
    // guard: connections-are-bounded
    let places = Places::new(limits.connections, limits.connections_per_party);
    let (timeout, idle) = (
        seconds(limits.handshake_timeout),
        seconds(limits.hello_timeout),
    );
    let mut shaking: VecDeque<AbortHandle> = VecDeque::new();
    let counts = observers.counts.clone();
    let refusals = Refusals::new(observers.clone());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = connections.closed() => return,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: those in use come back in time.
                warn!(%error, "cannot take a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        shaking.retain(|handshake| !handshake.is_finished());
        if shaking.len() >= limits.handshakes
            && let Some(oldest) = shaking.pop_front()
        {
            // guard: handshakes-make-room
            oldest.abort();
        }
        let (acceptor, anchor, servers, connections, places) = (
            TlsAcceptor::from(side.current().accepting()),
            side.anchor().clone(),
            servers.clone(),
            connections.clone(),
            places.clone(),
        );
        let (refusals, clock, counts) = (refusals.clone(), side.clock().clone(), counts.clone());
        let handshake = async move {
            let known = Known {
                anchor: &anchor,
                servers: servers.as_deref(),
                clock,
                counts: &counts,
            };
            let shaken = in_time(timeout, shake(stream, address, acceptor, known)).await;
            if let Ok(shaken) = shaken.map_err(|refusal| refusals.note(address, refusal))
                && let Some(connection) = placed(shaken, address, &places, &counts)
            {
                // guard: unused-connections-end
                tokio::spawn(cut_when_idle(connection.peer.clone(), idle));
                let _ = connections.send(Ok(connection)).await;
            }
        };
        shaking.push_back(tokio::spawn(handshake).abort_handle());
    }
}

/// A handshake, which must be over in time.
async fn in_time(
    time: Duration,
    shake: impl Future<Output = Result<Shaken, Refusal>>,
) -> Result<Shaken, Refusal> {
    let late = |_| Refusal::from("not finished in time".to_owned());
    tokio::time::timeout(time, shake).await.map_err(late)?
}

/// The connection of a handshake that succeeded, where there is a place for it.
fn placed(
    shaken: Shaken,
    address: SocketAddr,
    places: &Arc<Places>,
    counts: &Counts,
) -> Option<Connection> {
    let (stream, peer, cuts) = shaken;
    let place = match places.take(peer.who()) {
        Ok(place) => place,
        Err(reason) => {
            warn!(%address, party = %peer.name, %reason, "connection refused");
            counts.refuse(RefusedBecause::Places);
            return None;
        }
    };
    debug!(%address, party = %peer.name, "connected");
    Some(Connection {
        stream,
        peer,
        cuts,
        is_cut: false,
        _place: place,
    })
}

/// Ends a connection over which nothing was asked for so long.
async fn cut_when_idle(peer: Peer, time: Duration) {
    let (idle, cut) = (peer.calls.idle_for(time), peer.cut.clone());
    let (address, name) = (peer.address, peer.name.clone());
    // What is left of the connection here must not keep it.
    drop(peer);
    tokio::select! {
        () = idle => {
            info!(%address, party = %name, "connection cut: nothing is asked over it");
            let _ = cut.try_send(());
        }
        () = cut.closed() => {}
    }
}

/// What a handshake leads to: the stream, who is at its other end, and where it is heard that it is to be cut.
type Shaken = (
    TlsStream<Ahead<Watched<TcpStream>>>,
    Peer,
    mpsc::Receiver<()>,
);

/// By what it is known who connects.
struct Known<'a> {
    anchor: &'a TrustAnchor,
    /// The servers that compute together, where there are any.
    servers: Option<&'a Servers>,
    clock: WallClock,
    counts: &'a Arc<Counts>,
}

/// Who a certificate is of.
struct Identity {
    name: Arc<str>,
    key: VerifyingKey,
    role: Option<ServerRole>,
}

impl Known<'_> {
    /// The party, or the server by the one host of the list that its certificate is for.
    fn identify(&self, chain: &[CertificateDer<'_>]) -> Result<Identity, String> {
        let (own, between) = chain.split_first().ok_or("no certificate")?;
        let now = self.clock.unix_seconds();
        // What a certificate is for tells who shows it: only that of a server may have others between it and the CA.
        let as_server = self
            .servers
            .map(|servers| (servers, Role::Server.check(own)));
        let servers = match as_server {
            Some((servers, Ok(()))) => servers,
            not_a_server => {
                let party = self.anchor.verify_party(own, now);
                let CertifiedParty { name, key } = party.map_err(|error| match not_a_server {
                    Some((_, Err(server))) if error == CertificateError::Usage => {
                        format!("as a party, {error}; as a server, {server}")
                    }
                    _ => error.to_string(),
                })?;
                let (name, role) = (name.into(), None);
                return Ok(Identity { name, key, role });
            }
        };
        let server = self.anchor.verify_server(own, between, now);
        let server = server.map_err(|error| error.to_string())?;
        let place = servers.place_of(&server.hosts).inspect_err(|reason| {
            // Only the CA makes such certificates, so this fills no log.
            warn!(%reason, "a server is refused");
        })?;
        let role = servers.role(place);
        let role = role.ok_or(
            "the certificate is for the host of the coordinator, which opens no connections",
        )?;
        Ok(Identity {
            name: servers.address(place).host.as_str().into(),
            key: server.key,
            role: Some(role),
        })
    }
}

/// The handshake, and whose certificate was shown.
async fn shake(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: TlsAcceptor,
    known: Known<'_>,
) -> Result<Shaken, Refusal> {
    let _ = stream.set_nodelay(true);
    let traffic = Arc::new(Traffic::counted(known.counts.clone()));
    let stream = Ahead::new(Watched::new(stream, traffic.clone()));
    let accepting = acceptor.accept(stream).into_fallible();
    let mut stream = match noting_refusals(accepting).await {
        (Ok(stream), _) => stream,
        (Err((error, stream)), certificate) => {
            linger(stream).await;
            let reason = tls_error(&error).map_or_else(|| error.to_string(), words);
            return Err(Refusal {
                reason,
                certificate,
            });
        }
    };
    traffic.agreed(key_exchange(stream.get_ref().1));
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let (own, between) = chain.split_first().unzip();
    let certificate = Arc::from(own.map_or(&[][..], AsRef::as_ref));
    let between = between.unwrap_or_default().iter();
    match known.identify(chain) {
        Ok(identity) => {
            let (cut, cuts) = mpsc::channel(1);
            let peer = Peer {
                address,
                name: identity.name,
                role: identity.role,
                key: identity.key,
                certificate,
                between: match identity.role {
                    None => Arc::default(),
                    Some(_) => between.map(|der| der.to_vec()).collect(),
                },
                traffic,
                calls: Calls::new(),
                cut,
                clock: known.clock,
            };
            Ok((stream, peer, cuts))
        }
        Err(reason) => {
            let _ = stream.shutdown().await;
            Err(reason.into())
        }
    }
}

/// Reads what the peer still sends, for a moment: closing a socket with unread bytes resets it, and
/// the alert that says what is wrong would never be read.
async fn linger(mut stream: Ahead<Watched<TcpStream>>) {
    let _ = stream.shutdown().await;
    let mut rest = [0; 4096];
    let drain = async { while matches!(stream.read(&mut rest).await, Ok(1..)) {} };
    let _ = tokio::time::timeout(Duration::from_secs(1), drain).await;
}
