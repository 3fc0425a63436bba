//! What one side sends over a stream: a queue of frames and of large messages. A large message is cut into chunks only
//! when its turn comes, so that no copies are kept for a slow receiver.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::chunks::pieces;
use crate::line::Waiting;
use crate::pb;
use crate::relay::{Chunk, Relayed};
use crate::wire::{Frames, Sent};

/// One thing to send.
pub(crate) enum Queued<F> {
    Frame(F),
    /// A frame that goes to many.
    Encoded(Sent),
    /// A protocol message.
    Message {
        round: u64,
        stage: u8,
        message: Content,
    },
    /// A model.
    Model {
        version: u64,
        values: Bytes,
    },
    /// The last frame; the stream ends after it.
    Last(F),
}

/// Where the bytes of a protocol message are.
#[derive(Clone)]
pub(crate) enum Content {
    Here(Bytes),
    /// On a shelf, from which they are read when they are sent.
    Relayed(Relayed),
}

/// Where a stream's frames are put. Putting never waits: what is queued is bounded by what the round
/// says to one party, and shared between parties.
pub(crate) struct Outbox<F> {
    queue: mpsc::UnboundedSender<Queued<F>>,
    farewell: mpsc::Sender<F>,
    /// Why the stream ends, for people, once that is known.
    why: Arc<OnceLock<String>>,
}

/// What was put into an outbox.
pub(crate) struct Queue<F> {
    queued: mpsc::UnboundedReceiver<Queued<F>>,
    farewell: mpsc::Receiver<F>,
    /// What has left the queue and is dropped as well when the stream is ended before its time.
    waiting: Option<Waiting>,
}

impl<F> Clone for Outbox<F> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            farewell: self.farewell.clone(),
            why: self.why.clone(),
        }
    }
}

impl<F: Frames> Outbox<F> {
    /// An outbox and what empties it.
    pub fn new() -> (Self, Queue<F>) {
        let (queue, queued) = mpsc::unbounded_channel();
        let (farewell, said) = mpsc::channel(1);
        let queue_end = Queue {
            queued,
            farewell: said,
            waiting: None,
        };
        let why = Arc::default();
        (
            Self {
                queue,
                farewell,
                why,
            },
            queue_end,
        )
    }

    /// An outbox before a line, whose frames are dropped as well where the receiver does not take them in time, or
    /// the stream is [ended now](Self::end_now).
    pub fn before(waiting: Waiting) -> (Self, Queue<F>) {
        let (outbox, queue) = Self::new();
        let waiting = Some(waiting);
        (outbox, Queue { waiting, ..queue })
    }

    /// Queues one thing; it is lost where the connection has ended.
    pub fn put(&self, queued: Queued<F>) {
        let _ = self.queue.send(queued);
    }

    /// Remembers why the stream ends; the first reason counts.
    pub fn ends_because(&self, reason: &str) {
        let _ = self.why.set(reason.to_owned());
    }

    /// The reason why the stream ends, if one side has sent one.
    pub fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }

    /// Drops what is queued, what is being sent, and what waits in the line: this frame is the last one. A receiver that
    /// reads nothing keeps no more in memory than what HTTP/2 has taken already, until its connection is cut.
    pub fn end_now(&self, frame: F) {
        // guard: ended-streams-keep-nothing
        let _ = self.farewell.try_send(frame);
    }
}

impl Content {
    fn len(&self) -> usize {
        match self {
            Content::Here(bytes) => bytes.len(),
            Content::Relayed(relayed) => relayed.len(),
        }
    }
}

/// Why sending ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SendEnd {
    /// The last frame was taken, or nobody can queue more.
    Finished,
    /// The receiver has gone.
    Closed,
    /// The receiver did not take a chunk in time.
    TooSlow,
}

/// Sends what is queued until the end; each frame must be taken within `timeout`.
pub(crate) async fn send_all<F: Frames>(
    queue: Queue<F>,
    stream: &mpsc::Sender<Sent>,
    timeout: Duration,
) -> SendEnd {
    let Queue {
        queued,
        mut farewell,
        waiting,
    } = queue;
    let sender = Sender { stream, timeout };
    // The queue is dropped with the branch that holds it.
    let last = tokio::select! {
        biased;
        Some(last) = farewell.recv() => Ok(last),
        end = sender.queued(queued) => Err(end),
    };
    if let (Ok(_) | Err(SendEnd::TooSlow), Some(waiting)) = (&last, waiting) {
        // guard: lines-keep-nothing
        waiting.clear();
    }
    match last {
        Ok(last) => sender.last(&last).await,
        Err(end) => end,
    }
}

struct Sender<'a> {
    stream: &'a mpsc::Sender<Sent>,
    timeout: Duration,
}

impl Sender<'_> {
    async fn queued<F: Frames>(&self, mut queued: mpsc::UnboundedReceiver<Queued<F>>) -> SendEnd {
        while let Some(queued) = queued.recv().await {
            let sent = match queued {
                Queued::Frame(frame) => self.send(Sent::whole(&frame)).await,
                Queued::Encoded(frame) => self.send(frame).await,
                Queued::Last(frame) => return self.last(&frame).await,
                Queued::Message {
                    round,
                    stage,
                    message,
                } => self.message::<F>(round, stage, message).await,
                Queued::Model { version, values } => self.model::<F>(version, values).await,
            };
            if let Err(end) = sent {
                return end;
            }
        }
        SendEnd::Finished
    }

    async fn last(&self, frame: &impl Frames) -> SendEnd {
        self.send(Sent::whole(frame))
            .await
            .err()
            .unwrap_or(SendEnd::Finished)
    }

    async fn send(&self, frame: Sent) -> Result<(), SendEnd> {
        match tokio::time::timeout(self.timeout, self.stream.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(SendEnd::Closed),
            Err(_) => Err(SendEnd::TooSlow),
        }
    }

    async fn message<F: Frames>(
        &self,
        round: u64,
        stage: u8,
        message: Content,
    ) -> Result<(), SendEnd> {
        let total = message.len() as u64;
        let chunk = |offset, data| {
            F::chunk(pb::Chunk {
                round,
                stage: stage.into(),
                offset,
                total,
                data,
            })
        };
        match message {
            Content::Here(bytes) => {
                for (offset, data) in pieces(bytes) {
                    self.send(chunk(offset, data)).await?;
                }
            }
            Content::Relayed(relayed) => {
                let (mut reading, mut offset) = (relayed.read(), 0);
                while offset < total {
                    let (again, next) = reading.next().await;
                    let Chunk::Bytes(data) = next else {
                        break;
                    };
                    (reading, offset) = (again, offset + data.len() as u64);
                    self.send(chunk(offset - data.len() as u64, data)).await?;
                }
            }
        }
        Ok(())
    }

    async fn model<F: Frames>(&self, version: u64, values: Bytes) -> Result<(), SendEnd> {
        let total = values.len() as u64;
        for (offset, data) in pieces(values) {
            let chunk = pb::ModelChunk {
                version,
                offset,
                total,
                data,
            };
            self.send(F::model_chunk(chunk)).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use blindsum_job::coordinator::{Shelf, Shelves};
    use blindsum_protocol::{Outgoing, PartyId, Piece};
    use tokio_stream::StreamExt;

    use super::*;
    use crate::chunks::{Assembly, CHUNK, Pushed};
    use crate::line::line;
    use crate::pb::{CoordinatorFrame, coordinator_frame};
    use crate::relay::Spools;

    const LENGTH: usize = 2 * CHUNK + 100;

    /// A message of which all but one byte is in a file, and what it is.
    fn relayed(upto: usize) -> (Content, Bytes, Arc<dyn Shelf>) {
        let answer: Bytes = (0..LENGTH).map(|i| (i % 253) as u8).collect();
        let mut shelf = Spools::new(0, None).shelf();
        shelf.keep(PartyId(0), answer.clone()).unwrap();
        let (from, shelf) = (PartyId(0), Arc::<dyn Shelf>::from(shelf));
        let outgoing = Outgoing {
            head: Bytes::from_static(b"h"),
            pieces: vec![Piece {
                from,
                range: 0..upto,
            }],
        };
        let whole = outgoing.assemble(|_| Some(&answer)).unwrap_or_default();
        let failed = mpsc::unbounded_channel().0;
        let relayed = Relayed::new(outgoing.into(), Arc::downgrade(&shelf), 1, failed);
        (Content::Relayed(relayed), whole, shelf)
    }

    /// Everything that is sent for a message of stage 3 and a frame after it.
    async fn sent(message: Content) -> Vec<coordinator_frame::Frame> {
        let (outbox, queue) = Outbox::<CoordinatorFrame>::new();
        outbox.put(Queued::Message {
            round: 1,
            stage: 3,
            message,
        });
        outbox.put(Queued::Last(pb::JobDone::default().into()));
        let (stream, mut frames) = mpsc::channel(100);
        let end = send_all(queue, &stream, Duration::from_secs(20)).await;
        assert_eq!(end, SendEnd::Finished);
        drop(stream);
        let mut sent = Vec::new();
        while let Some(frame) = frames.recv().await {
            sent.push(frame.frame::<CoordinatorFrame>().frame.unwrap());
        }
        assert!(matches!(
            sent.pop(),
            Some(coordinator_frame::Frame::JobDone(_))
        ));
        sent
    }

    #[tokio::test]
    async fn a_message_from_a_spool_looks_like_any_other() {
        let (message, whole, _spool) = relayed(LENGTH);
        let mut assembly = Assembly::begin(whole.len() as u64, whole.len() as u64).unwrap();
        let chunks = sent(message.clone()).await;
        assert_eq!(chunks, sent(Content::Here(whole.clone())).await);
        let mut chunks = chunks.into_iter();
        let assembled = loop {
            let Some(coordinator_frame::Frame::Chunk(chunk)) = chunks.next() else {
                panic!("the message is not whole");
            };
            assert_eq!((chunk.round, chunk.stage), (1, 3));
            match assembly
                .push(chunk.offset, chunk.total, chunk.data)
                .unwrap()
            {
                Pushed::Part(part) => assembly = part,
                Pushed::Whole(message) => break message,
            }
        };
        assert_eq!(assembled, whole);
        assert!(chunks.next().is_none());
    }

    #[tokio::test]
    async fn what_follows_a_message_that_cannot_be_read_is_still_sent() {
        let (message, _, spool) = relayed(LENGTH + 1);
        assert_eq!(sent(message.clone()).await.len(), 2);
        drop(spool);
        assert_eq!(sent(message).await.len(), 0);
    }

    /// Bytes of which it can be seen whether they are still in memory.
    struct Seen {
        bytes: Vec<u8>,
        _kept: Arc<()>,
    }

    impl AsRef<[u8]> for Seen {
        fn as_ref(&self) -> &[u8] {
            &self.bytes
        }
    }

    #[tokio::test]
    async fn case_31_a_stream_that_is_ended_now_keeps_nothing_for_a_receiver_that_reads_nothing() {
        let (line, mut taking) = line(2);
        let (outbox, queue) = Outbox::<CoordinatorFrame>::before(line.waiting.clone());
        let kept = Arc::new(());
        for version in 1..=2 {
            let values = Seen {
                bytes: vec![7; 3 * CHUNK],
                _kept: kept.clone(),
            };
            outbox.put(Queued::Model {
                version,
                values: Bytes::from_owner(values),
            });
        }
        let sending = send_all(queue, &line.frames, Duration::from_secs(3600));
        let mut sending = std::pin::pin!(sending);
        // Two pieces are in the line, the next one waits for its turn.
        assert!(polled(sending.as_mut()).await.is_none());
        outbox.end_now(pb::JobDone::default().into());
        assert_eq!(polled(sending).await, Some(SendEnd::Finished));
        assert_eq!(Arc::strong_count(&kept), 1);
        let last = taking
            .next()
            .await
            .unwrap()
            .frame::<CoordinatorFrame>()
            .frame;
        assert!(matches!(last, Some(coordinator_frame::Frame::JobDone(_))));
    }

    #[tokio::test]
    async fn case_31_a_stream_that_is_not_taken_in_time_keeps_nothing() {
        let (line, _taking) = line(2);
        let (outbox, queue) = Outbox::<CoordinatorFrame>::before(line.waiting.clone());
        let kept = Arc::new(());
        let values = Seen {
            bytes: vec![7; 3 * CHUNK],
            _kept: kept.clone(),
        };
        outbox.put(Queued::Model {
            version: 1,
            values: Bytes::from_owner(values),
        });
        let end = send_all(queue, &line.frames, Duration::from_millis(10)).await;
        assert_eq!((end, Arc::strong_count(&kept)), (SendEnd::TooSlow, 1));
        // The connection is told to end where it takes nothing.
        assert!(!line.end(Duration::from_millis(10)).await);
    }

    /// What a future has come to, where it needs not wait.
    async fn polled<T>(mut future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(done) => std::task::Poll::Ready(Some(done)),
            std::task::Poll::Pending => std::task::Poll::Ready(None),
        })
        .await
    }
}
