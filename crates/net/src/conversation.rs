//! What a party, or another server, says to its coordinator and hears of it over one connection.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tonic::Streaming;

use crate::connect::{ConnectError, Connected, Target};
use crate::outbox::{Queue, SendEnd, send_all};
use crate::pb::coordinator_frame::Frame;
use crate::pb::{CoordinatorFrame, PartyFrame};
use crate::plain::status_words;
use crate::stream::Traffic;

/// Time for the last frames to go out.
const GOODBYE_TIME: Duration = Duration::from_secs(1);

/// A stream to a coordinator that has answered the Hello.
pub(crate) struct Conversation {
    inbound: Streaming<CoordinatorFrame>,
    sending: JoinHandle<SendEnd>,
    traffic: Arc<Traffic>,
}

/// Why there is no next frame.
pub(crate) enum Silence {
    Lost(String),
    /// The coordinator takes nothing more; it may have a last word.
    TakesNothing,
}

impl Conversation {
    /// Sends what is queued, the Hello before all, and waits for the first frame. Both steps get `time`, and each frame
    /// that is sent `chunk_timeout`.
    pub async fn begin(
        target: &Target,
        mut connected: Connected,
        queue: Queue<PartyFrame>,
        time: Duration,
        chunk_timeout: Duration,
    ) -> Result<(Self, CoordinatorFrame), ConnectError> {
        let traffic = connected.traffic.clone();
        let (stream, frames) = mpsc::channel(4);
        let sending = tokio::spawn(async move { send_all(queue, &stream, chunk_timeout).await });
        let broken = |status: tonic::Status| target.broken(&traffic, status_words(&status));
        let late = || ConnectError::Later("the coordinator does not answer the Hello".into());
        let connect = connected.stream(frames);
        let mut inbound = match tokio::time::timeout(time, connect).await {
            Ok(Ok(inbound)) => inbound,
            Ok(Err(status)) => return Err(broken(status)),
            Err(_) => return Err(late()),
        };
        let first = match tokio::time::timeout(time, inbound.message()).await {
            Ok(Ok(Some(frame))) => frame,
            Ok(Ok(None)) => return Err(ConnectError::Later(CLOSED.into())),
            Ok(Err(status)) => return Err(broken(status)),
            Err(_) => return Err(late()),
        };
        let conversation = Self {
            inbound,
            sending,
            traffic,
        };
        Ok((conversation, first))
    }

    /// Receives the next frame. May be cancelled and called again, until it has returned that there is none.
    pub async fn heard(&mut self) -> Result<CoordinatorFrame, Silence> {
        tokio::select! {
            biased;
            frame = self.inbound.message() => match frame {
                Ok(Some(frame)) => Ok(frame),
                Ok(None) => Err(Silence::Lost(CLOSED.into())),
                Err(status) => {
                    let reason = self.traffic.error().map(str::to_owned);
                    Err(Silence::Lost(reason.unwrap_or_else(|| status_words(&status))))
                }
            },
            end = &mut self.sending => Err(match end {
                Ok(SendEnd::TooSlow) => Silence::Lost("the coordinator accepts no more data".into()),
                _ => Silence::TakesNothing,
            }),
        }
    }

    /// The refusal with which a coordinator ends that takes nothing more, if there is one.
    pub async fn last_word(&mut self) -> Option<CoordinatorFrame> {
        let refusal = async {
            while let Ok(Some(frame)) = self.inbound.message().await {
                if matches!(frame.frame, Some(Frame::Refused(_))) {
                    return Some(frame);
                }
            }
            None
        };
        let refusal = tokio::time::timeout(GOODBYE_TIME, refusal).await;
        refusal.ok().flatten()
    }

    /// Sends queued frames, and waits until the coordinator closes its side, before the connection is dropped.
    /// Nothing more may be queued.
    pub async fn goodbye(mut self) {
        let goodbye = async {
            if !self.sending.is_finished() {
                let _ = (&mut self.sending).await;
            }
            while let Ok(Some(_)) = self.inbound.message().await {}
        };
        let _ = tokio::time::timeout(GOODBYE_TIME, goodbye).await;
    }
}

/// The coordinator has ended the stream.
const CLOSED: &str = "the coordinator closed the connection";
