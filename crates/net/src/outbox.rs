//! What one side sends over a stream: a queue of frames and of large messages, which are cut into
//! chunks only when it is their turn, so that a slow receiver holds no copies.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::chunks::pieces;
use crate::pb;
use crate::relay::{Chunk, Relayed};

/// A frame type that chunks of messages travel in.
pub(crate) trait Frame: Send + 'static {
    fn chunk(chunk: pb::Chunk) -> Self;
    fn model_chunk(chunk: pb::ModelChunk) -> Self;
}

/// One thing to send.
pub(crate) enum Queued<F> {
    Frame(F),
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
    /// In a spool, from which they are read when they are sent.
    Relayed(Relayed),
}

/// Where a stream's frames are put. Putting never waits: what is queued is bounded by what the round
/// says to one party, and shared between parties.
pub(crate) struct Outbox<F>(mpsc::UnboundedSender<Queued<F>>);

impl<F> Clone for Outbox<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<F: Frame> Outbox<F> {
    /// An outbox and what empties it.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<Queued<F>>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    /// Queues one thing; it is lost where the connection has ended.
    pub fn put(&self, queued: Queued<F>) {
        let _ = self.0.send(queued);
    }

    pub fn frame(&self, frame: F) {
        self.put(Queued::Frame(frame));
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
pub(crate) async fn send_all<F: Frame>(
    mut queue: mpsc::UnboundedReceiver<Queued<F>>,
    stream: &mpsc::Sender<F>,
    timeout: Duration,
) -> SendEnd {
    let sender = Sender { stream, timeout };
    while let Some(queued) = queue.recv().await {
        let sent = match queued {
            Queued::Frame(frame) => sender.send(frame).await,
            Queued::Last(frame) => {
                return sender.send(frame).await.err().unwrap_or(SendEnd::Finished);
            }
            Queued::Message {
                round,
                stage,
                message,
            } => sender.message(round, stage, message).await,
            Queued::Model { version, values } => sender.model(version, values).await,
        };
        if let Err(end) = sent {
            return end;
        }
    }
    SendEnd::Finished
}

struct Sender<'a, F> {
    stream: &'a mpsc::Sender<F>,
    timeout: Duration,
}

impl<F: Frame> Sender<'_, F> {
    async fn send(&self, frame: F) -> Result<(), SendEnd> {
        match tokio::time::timeout(self.timeout, self.stream.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(SendEnd::Closed),
            Err(_) => Err(SendEnd::TooSlow),
        }
    }

    async fn message(&self, round: u64, stage: u8, message: Content) -> Result<(), SendEnd> {
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

    async fn model(&self, version: u64, values: Bytes) -> Result<(), SendEnd> {
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

    use blindsum_protocol::{Outgoing, PartyId, Piece};

    use super::*;
    use crate::chunks::{Assembly, CHUNK, Pushed};
    use crate::pb::{CoordinatorFrame, coordinator_frame};
    use crate::relay::{Spool, Spools};

    const LENGTH: usize = 2 * CHUNK + 100;

    /// A message of which all but one byte is in a file, and what it is.
    fn relayed(upto: usize) -> (Content, Bytes, Arc<Spool>) {
        let answer: Bytes = (0..LENGTH).map(|i| (i % 253) as u8).collect();
        let mut spool = Spool::new(&Spools::new(0, None));
        spool.keep(PartyId(0), answer.clone()).unwrap();
        let (from, spool) = (PartyId(0), Arc::new(spool));
        let outgoing = Outgoing {
            head: Bytes::from_static(b"h"),
            pieces: vec![Piece {
                from,
                range: 0..upto,
            }],
        };
        let whole = outgoing.assemble(|_| Some(&answer)).unwrap_or_default();
        let failed = mpsc::unbounded_channel().0;
        let message = Content::Relayed(Relayed::new(outgoing, &spool, 1, failed));
        (message, whole, spool)
    }

    /// Everything that is sent for a message of stage 3 and a frame after it.
    async fn sent(message: Content) -> Vec<coordinator_frame::Frame> {
        let (outbox, queue) = Outbox::<CoordinatorFrame>::new();
        outbox.put(Queued::Message {
            round: 1,
            stage: 3,
            message,
        });
        outbox.put(Queued::Last(pb::JobDone { model: None }.into()));
        let (stream, mut frames) = mpsc::channel(100);
        let end = send_all(queue, &stream, Duration::from_secs(20)).await;
        assert_eq!(end, SendEnd::Finished);
        drop(stream);
        let mut sent = Vec::new();
        while let Some(frame) = frames.recv().await {
            sent.push(frame.frame.unwrap());
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
}
