//! Tests of what the coordinator keeps in memory for a receiver that reads nothing: in the line, in HTTP/2 and in
//! between, over a connection of which the test writes every byte.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::transport::Server;

use crate::chunks::CHUNK;
use crate::line::{Taking, line};
use crate::outbox::{Content, Outbox, Queued, SendEnd, send_all};
use crate::pb::CoordinatorFrame;
use crate::wire::{LARGEST_PIECE, Sending};

/// What is due to the receiver.
const MESSAGES: u64 = 1000;

/// Bytes that the network holds for a receiver that reads nothing.
const NETWORK: usize = 64 * 1024;

/// How long the sender waits; nothing here depends on it.
const TIMEOUT: Duration = Duration::from_millis(50);

/// The preface of HTTP/2, settings with the room of a stream, as much room for the connection as there can be, and the
/// beginning of a request.
fn request(room: u32) -> Vec<u8> {
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let head = [0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream];
        [&head, payload].concat()
    };
    let more = (i32::MAX as u32 - 65_535).to_be_bytes();
    let settings = [&[0, 4][..], &room.to_be_bytes()].concat();
    let headers = [
        &[0x83, 0x87, 0x84][..],
        // POST, https and / from the table; the authority as it is.
        &[0x01, 9],
        b"localhost",
    ];
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
        frame(4, 0, 0, &settings),
        frame(8, 0, 0, &more),
        frame(1, 4, 1, &headers.concat()),
    ]
    .concat()
}

/// Serves one connection, whose answer is what comes over a line.
fn served(connection: DuplexStream, taking: Taking) -> JoinHandle<()> {
    let mut body = Some(Body::new(Sending::response(taking)));
    let answers = Arc::new(std::sync::Mutex::new(move || body.take()));
    let service = tower::service_fn(move |_: http::Request<Body>| {
        let body = answers.lock().unwrap()();
        std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(
            body.unwrap_or_default(),
        )))
    });
    let connections = tokio_stream::once(Ok::<_, std::io::Error>(connection));
    tokio::spawn(async move {
        let server = Server::builder().max_frame_size(Some(LARGEST_PIECE));
        let _ = { server }.serve_with_incoming(service, connections).await;
    })
}

/// A message of one chunk, of which it can be seen whether it is still in memory.
struct Seen {
    bytes: Arc<Vec<u8>>,
    _kept: Arc<()>,
}

impl AsRef<[u8]> for Seen {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sends many messages to a receiver that reads nothing and gives this room: how many of them are in memory when it is
/// given up, and that none is once the connection is cut.
async fn held(room: u32) -> usize {
    let (mut receiver, connection) = duplex(NETWORK);
    let (line, taking) = line(4);
    let (outbox, queue) = Outbox::<CoordinatorFrame>::before(line.waiting.clone());
    let (bytes, kept) = (Arc::new(vec![7; CHUNK]), Arc::new(()));
    for round in 1..=MESSAGES {
        let seen = Seen {
            bytes: bytes.clone(),
            _kept: kept.clone(),
        };
        outbox.put(Queued::Message {
            round,
            stage: 0,
            message: Content::Here(Bytes::from_owner(seen)),
        });
    }
    receiver.write_all(&request(room)).await.unwrap();
    let serving = served(connection, taking);
    let end = send_all(queue, &line.frames, TIMEOUT).await;
    assert_eq!(end, SendEnd::TooSlow);
    let held = Arc::strong_count(&kept) - 1;
    assert!(!line.end(TIMEOUT).await, "it is told to be taken");
    // As the listener does with a connection that is cut.
    drop(receiver);
    let _ = serving.await;
    while Arc::strong_count(&kept) > 1 {
        tokio::task::yield_now().await;
    }
    held
}

/// Case 31: what HTTP/2 has taken already, and no more, whether the receiver gives no room or does not read at all.
#[tokio::test]
async fn case_31_a_receiver_that_takes_nothing_holds_a_few_messages_and_then_none() {
    // The one whose beginning waits for room.
    assert_eq!(held(0).await, 1);
    // As much as HTTP/2 buffers, one that waits behind it, and one whose beginning was taken.
    let most = held(i32::MAX as u32).await;
    assert!((2..=4).contains(&most), "{most} messages");
}
