//! Health checks by plain HTTP, for programs that watch the daemon: which jobs there are and their state, and nothing
//! about parties or models.

use std::sync::Arc;
use std::time::Duration;

use blindsum_net::NetError;
use blindsum_net::coordinator::check_address;
use blindsum_net::report::JobStatus;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

/// Answers at once, and time for each.
const AT_ONCE: usize = 16;
const TIME: Duration = Duration::from_secs(5);

/// Listens on the address. Connections are answered once [`serve`] runs.
pub async fn listen(address: &str) -> Result<TcpListener, NetError> {
    check_address("health", address)?;
    TcpListener::bind(address)
        .await
        .map_err(|error| NetError::Listen {
            address: address.into(),
            reason: format!("{error} (program.health)"),
        })
}

/// Answers until it is aborted.
pub fn serve(listener: TcpListener, jobs: Vec<watch::Receiver<JobStatus>>) -> JoinHandle<()> {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    tokio::spawn(async move {
        while let Ok(place) = places.clone().acquire_owned().await {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let answer = answer(&jobs);
            tokio::spawn(async move {
                let _ = tokio::time::timeout(TIME, reply(stream, answer)).await;
                drop(place);
            });
        }
    })
}

/// `200` while no job has failed, `503` afterwards.
fn answer(jobs: &[watch::Receiver<JobStatus>]) -> String {
    let mut lines = String::new();
    let mut line = "200 OK";
    for job in jobs {
        let status = job.borrow();
        lines.push_str(&format!("{} {}\n", status.job, status.state.as_str()));
        if status.state.has_broken_off() {
            line = "503 Service Unavailable";
        }
    }
    format!(
        "HTTP/1.1 {line}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{lines}",
        lines.len()
    )
}

async fn reply(mut stream: TcpStream, answer: String) -> std::io::Result<()> {
    let mut request = [0; 1024];
    let mut filled = 0;
    while let Some(room) = request.get_mut(filled..).filter(|room| !room.is_empty()) {
        let read = stream.read(room).await?;
        filled += read;
        let head = request.get(..filled).unwrap_or_default();
        if read == 0 || head.windows(4).any(|end| end == b"\r\n\r\n") {
            break;
        }
    }
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
