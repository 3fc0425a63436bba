//! The bytes of a round's messages over TLS alone: with the same certificates, cipher, connections and threads, but
//! without HTTP/2, protobuf or a protocol.

use std::sync::Arc;
use std::time::{Duration, Instant};

use blindsum_crypto::usage::Role;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::{Credentials, NetError};

/// Bytes that are written and read at once: what a rustls connection holds by default.
const PIECE: usize = 64 * 1024;

/// The bytes that one connection transfers.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Bytes from the party to the coordinator.
    pub up: usize,
    /// Bytes back, sent once all parties' bytes have come.
    pub down: usize,
}

/// Transfers the bytes of a round `times` times, between one coordinator, with a thread for each core, and parties with
/// a thread each. Gives the seconds of each time: from the coordinator's signal to begin until the last party has
/// everything.
///
/// # Errors
/// Credentials that cannot be used, or a connection that breaks.
pub fn transfers(
    coordinator: &Credentials,
    parties: &[Credentials],
    transfer: Transfer,
    times: usize,
) -> Result<Vec<f64>, NetError> {
    let acceptor = TlsAcceptor::from(Arc::new(coordinator.server()?));
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(NetError::system)?;
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
    let listener = listener.map_err(NetError::system)?;
    let port = listener.local_addr().map_err(NetError::system)?.port();
    let mut threads: Vec<Runtime> = Vec::new();
    for party in parties {
        let connector = TlsConnector::from(Arc::new(party.client(Role::Coordinator)?));
        let mut thread = Builder::new_multi_thread();
        let thread = thread.worker_threads(1).enable_all().build();
        let thread = thread.map_err(NetError::system)?;
        thread.spawn(take_part(connector, port, transfer));
        threads.push(thread);
    }
    let measured = runtime.block_on(coordinate(
        listener,
        acceptor,
        parties.len(),
        transfer,
        times,
    ));
    for thread in threads {
        thread.shutdown_timeout(Duration::from_secs(1));
    }
    measured.map_err(NetError::system)
}

type Connection = TlsStream<TcpStream>;

async fn coordinate(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    parties: usize,
    transfer: Transfer,
    times: usize,
) -> std::io::Result<Vec<f64>> {
    let mut connections = Vec::new();
    while connections.len() < parties {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        connections.push(acceptor.accept(stream).await?);
    }
    let mut seconds = Vec::new();
    for _ in 0..times {
        let begin = Instant::now();
        connections = of_all(connections, move |stream| collect(stream, transfer.up)).await?;
        connections = of_all(connections, move |stream| deliver(stream, transfer.down)).await?;
        seconds.push(begin.elapsed().as_secs_f64());
    }
    Ok(seconds)
}

/// Does the same with all connections at once, and waits for all.
async fn of_all<F>(
    connections: Vec<Connection>,
    work: impl Fn(Connection) -> F,
) -> std::io::Result<Vec<Connection>>
where
    F: Future<Output = std::io::Result<Connection>> + Send + 'static,
{
    let mut tasks: JoinSet<_> = connections.into_iter().map(work).collect();
    let mut connections = Vec::new();
    while let Some(done) = tasks.join_next().await {
        connections.push(done??);
    }
    Ok(connections)
}

/// Tells a party to begin, and reads what it sends.
async fn collect(mut stream: Connection, bytes: usize) -> std::io::Result<Connection> {
    stream.write_all(&[1]).await?;
    stream.flush().await?;
    read(&mut stream, bytes).await?;
    Ok(stream)
}

/// Sends a party its bytes, and waits until it has all of them.
async fn deliver(mut stream: Connection, bytes: usize) -> std::io::Result<Connection> {
    write(&mut stream, bytes).await?;
    read(&mut stream, 1).await?;
    Ok(stream)
}

/// A party: it waits for the word to begin, again and again until the coordinator has gone.
async fn take_part(connector: TlsConnector, port: u16, transfer: Transfer) -> std::io::Result<()> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::from(std::net::Ipv4Addr::LOCALHOST);
    let mut stream = connector.connect(name, stream).await?;
    loop {
        read(&mut stream, 1).await?;
        write(&mut stream, transfer.up).await?;
        read(&mut stream, transfer.down).await?;
        stream.write_all(&[1]).await?;
        stream.flush().await?;
    }
}

async fn write(stream: &mut (impl AsyncWriteExt + Unpin), bytes: usize) -> std::io::Result<()> {
    let piece = vec![7; PIECE.min(bytes)];
    let mut left = bytes;
    while left > 0 {
        let (now, _) = piece.split_at(left.min(PIECE));
        stream.write_all(now).await?;
        left -= now.len();
    }
    stream.flush().await
}

async fn read(stream: &mut (impl AsyncReadExt + Unpin), bytes: usize) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE.min(bytes)];
    let mut left = bytes;
    while left > 0 {
        let (now, _) = piece.split_at_mut(left.min(PIECE));
        match stream.read(now).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => left -= read,
        }
    }
    Ok(())
}
