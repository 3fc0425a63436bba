//! What one side sends over a stream: a queue of frames and of large messages, which are cut into
//! chunks only when it is their turn, so that a slow receiver holds no copies.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::chunks::pieces;
use crate::pb;

/// A frame type that chunks of messages travel in.
pub(crate) trait Frame: Send + 'static {
    fn chunk(chunk: pb::Chunk) -> Self;
    /// A piece of a model, on the side that sends models.
    fn model_chunk(chunk: pb::ModelChunk) -> Option<Self>
    where
        Self: Sized;
}

/// One thing to send.
pub(crate) enum Queued<F> {
    Frame(F),
    /// A protocol message.
    Message {
        round: u64,
        stage: u8,
        message: Bytes,
    },
    /// A model.
    Model {
        version: u64,
        values: Bytes,
    },
    /// The last frame; the stream ends after it.
    Last(F),
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

    async fn message(&self, round: u64, stage: u8, message: Bytes) -> Result<(), SendEnd> {
        let total = message.len() as u64;
        for (offset, data) in pieces(message) {
            let stage = stage.into();
            let chunk = pb::Chunk {
                round,
                stage,
                offset,
                total,
                data,
            };
            self.send(F::chunk(chunk)).await?;
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
            if let Some(frame) = F::model_chunk(chunk) {
                self.send(frame).await?;
            }
        }
        Ok(())
    }
}
