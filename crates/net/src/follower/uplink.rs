//! The connection of such a server to its coordinator: it is made, kept, and made again for as long as the server runs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use blindsum_job::party::LinkId;
use blindsum_protocol::ServerIndex;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tracing::warn;

use crate::connect::{CONNECT_TIME, ConnectError, PAUSES};
use crate::conversation::{Conversation, Silence};
use crate::limits::Limits;
use crate::outbox::Outbox;
use crate::pb::coordinator_frame::Frame;
use crate::pb::{CoordinatorFrame, PartyFrame};
use crate::servers::Servers;
use crate::tls::{Renewed, ServerSide};
use crate::{NetError, seconds};

/// What happens to the connection.
pub(crate) enum Event {
    /// There is one.
    Linked(LinkId, Outbox<PartyFrame>),
    Frame(LinkId, CoordinatorFrame),
    Lost(LinkId, String),
}

/// What the connection is made of.
pub(super) struct Uplink {
    servers: Arc<Servers>,
    side: Arc<Renewed<ServerSide>>,
    keepalive: Duration,
    chunk_timeout: Duration,
    link: LinkId,
    /// Whether the coordinator has ever welcomed this server: the address and the certificates are right then.
    was_welcomed: bool,
}

impl Uplink {
    pub fn new(servers: Arc<Servers>, side: Arc<Renewed<ServerSide>>, limits: &Limits) -> Self {
        Self {
            servers,
            side,
            keepalive: seconds(limits.keepalive),
            chunk_timeout: seconds(limits.chunk_timeout),
            link: LinkId::default(),
            was_welcomed: false,
        }
    }

    /// Connects again and again, and tells what happens. Connections up to the number in `given_up` are ended.
    ///
    /// # Errors
    /// What will never pass.
    pub async fn keep(
        mut self,
        events: mpsc::Sender<Event>,
        mut given_up: watch::Receiver<LinkId>,
    ) -> Result<Infallible, NetError> {
        let mut pause = PAUSES.0;
        loop {
            let before = self.was_welcomed;
            let (reason, was_welcomed) = match self.converse(&events, &mut given_up).await {
                Ok(ended) => ended,
                Err(ConnectError::Never(error)) if !before => return Err(error),
                Err(error) => (error.reason(), false),
            };
            if was_welcomed {
                pause = PAUSES.0;
            }
            warn!(%reason, pause, "no connection to the coordinator; trying again");
            sleep(seconds(pause)).await;
            pause = (pause * 2.0).min(PAUSES.1);
        }
    }

    /// One connection, from its beginning to its end: why it ended, and whether it began with a Welcome.
    async fn converse(
        &mut self,
        events: &mpsc::Sender<Event>,
        given_up: &mut watch::Receiver<LinkId>,
    ) -> Result<(String, bool), ConnectError> {
        let coordinator = ServerIndex::ALL[0];
        let side = self.side.current();
        let target = self.servers.target(coordinator, &side, self.keepalive);
        let target = target.map_err(ConnectError::Never)?;
        let connected = target.connect(CONNECT_TIME).await?;
        let (outbox, queue) = Outbox::new();
        self.link.0 += 1;
        let link = self.link;
        tell(events, Event::Linked(link, outbox)).await;
        let begun =
            Conversation::begin(&target, connected, queue, CONNECT_TIME, self.chunk_timeout);
        let (mut conversation, first) = match begun.await {
            Ok(begun) => begun,
            Err(error) => {
                tell(events, Event::Lost(link, "it was never answered".into())).await;
                return Err(error);
            }
        };
        let is_welcome = matches!(first.frame, Some(Frame::Welcome(_)));
        self.was_welcomed |= is_welcome;
        tell(events, Event::Frame(link, first)).await;
        let reason = loop {
            let heard = tokio::select! {
                heard = conversation.heard() => heard,
                _ = given_up.wait_for(|given_up| *given_up >= link) => break "it was given up".into(),
            };
            match heard {
                Ok(frame) => tell(events, Event::Frame(link, frame)).await,
                Err(Silence::Lost(reason)) => break reason,
                Err(Silence::TakesNothing) => {
                    if let Some(refusal) = conversation.last_word().await {
                        tell(events, Event::Frame(link, refusal)).await;
                    }
                    break "the coordinator takes nothing more".into();
                }
            }
        };
        tell(events, Event::Lost(link, String::clone(&reason))).await;
        Ok((reason, is_welcome))
    }
}

/// Whoever drives the server ends this task with it.
async fn tell(events: &mpsc::Sender<Event>, event: Event) {
    let _ = events.send(event).await;
}
