//! The connection of a party: it is made, kept, and made again. What is sent over it is decided by its machine: the
//! driver hands in what has come, and carries out what the party asks for.

use std::time::Duration;

use blindsum_job::party::{Departure, Effect, Input, LinkId, Mark, Say, Told};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};
use tracing::info;

use super::PartyConfig;
use super::attempts::Attempts;
use super::caller::Caller;
use super::uploads::Uploads;
use crate::connect::{CONNECT_TIME, ConnectError, Connected, Target};
use crate::conversation::{Conversation, Silence};
use crate::drive::Drive;
use crate::outbox::{Content, Outbox, Queued};
use crate::pb::coordinator_frame::Frame;
use crate::pb::{CoordinatorFrame, PartyFrame, RefusalCode};
use crate::tls::OwnIdentity;
use crate::{NetError, seconds};

/// Why a connection ends.
enum Ended {
    /// It may be made again.
    Lost(String),
    /// The party's part in the job is over.
    Over,
    /// No connection will ever come about.
    Never(NetError),
}

/// A party's work behind the scenes.
pub(super) struct Driver {
    pub drive: Drive<Input, Effect, Mark>,
    pub config: PartyConfig,
    pub identity: OwnIdentity,
    pub target: Target,
    pub uploads: Uploads,
    pub received: UnboundedReceiver<Input>,
    pub caller: Caller,
    pub attempts: Attempts,
    pub link: LinkId,
    /// The connection, while there is one.
    pub outbox: Option<Outbox<PartyFrame>>,
    /// Why the party gave up, where that was not its own doing.
    pub gave_up: Option<NetError>,
}

impl Driver {
    /// Runs until the job is over, the caller leaves, or nothing more can be done.
    pub async fn run(mut self) {
        if let Some(error) = self.connect_and_keep().await {
            let reason = error.to_string();
            self.gave_up = Some(error);
            self.drive.handle(Input::GiveUp(reason));
            while self.carry_out().is_none() {
                self.drive.goes_on().await;
            }
        }
    }

    /// Connects, and again where a connection is lost; gives why that cannot be done any more, where the party's part
    /// in the job is not over.
    async fn connect_and_keep(&mut self) -> Option<NetError> {
        let time = CONNECT_TIME.min(seconds(self.config.give_up_after));
        loop {
            if self.wait(Instant::now()).await {
                return None;
            }
            if let Some(newest) = self.identity.newest() {
                self.target.set_tls(newest.config.clone());
                self.uploads.set_tls(newest.to_servers.clone());
            }
            let ended = match self.target.connect(time).await {
                Ok(connected) => self.converse(connected, time).await,
                Err(error) => self.no_connection(error),
            };
            self.outbox = None;
            self.attempts.ended();
            let reason = match ended {
                Ended::Lost(reason) => reason,
                Ended::Over => return None,
                Ended::Never(error) => return Some(error),
            };
            let lost = Input::Lost(self.link, reason.clone());
            self.drive.handle(lost);
            match self.attempts.again(&self.identity.name, reason) {
                Ok(None) => {}
                Ok(Some(pause)) => {
                    if self.wait(Instant::now() + pause).await {
                        return None;
                    }
                }
                Err(reason) => {
                    return Some(NetError::Unreachable {
                        url: self.target.url().into(),
                        seconds: self.config.give_up_after,
                        reason,
                    });
                }
            }
        }
    }

    /// What came in the way of a connection. Whoever was welcomed before has the right address and
    /// certificates: whatever stands in the way now will pass.
    fn no_connection(&self, error: ConnectError) -> Ended {
        match error {
            // guard: lasting-trouble-ends-a-newcomer, passing-trouble-is-waited-out
            ConnectError::Never(error) if !self.caller.has_joined() => Ended::Never(error),
            ConnectError::Never(error) => Ended::Lost(error.to_string()),
            ConnectError::OutOfTime(error) => match self.identity.own_time() {
                // One of the two clocks is wrong, and may be right again soon.
                // guard: a-party-that-tls-refused-for-its-time-comes-again
                Ok(times) => Ended::Lost(format!("{times}; {error}")),
                Err(_) if !self.caller.has_joined() => Ended::Never(error),
                Err(own) => Ended::Lost(format!("{error}; {own}")),
            },
            ConnectError::Later(reason) => Ended::Lost(reason),
        }
    }

    /// Waits without a connection, and for the task under way; true where all is over meanwhile.
    async fn wait(&mut self, until: Instant) -> bool {
        loop {
            if matches!(self.carry_out(), Some(Ended::Over)) {
                return true;
            }
            let busy = self.drive.machine.is_busy();
            tokio::select! {
                command = self.received.recv() => self.obey(command),
                () = self.drive.goes_on() => {}
                () = sleep_until(until), if !busy => return false,
            }
        }
    }

    /// One connection, from the Hello to its end.
    async fn converse(&mut self, connected: Connected, time: Duration) -> Ended {
        let (outbox, queue) = Outbox::new();
        self.outbox = Some(outbox);
        self.link.0 += 1;
        let key_exchange = connected.traffic.key_exchange();
        info!(party = %self.identity.name, coordinator = self.target.url(), key_exchange, "TLS connection made");
        let linked = Input::Linked(self.link);
        self.drive.handle(linked);
        if let Some(ended) = self.carry_out() {
            return ended;
        }
        let timeout = seconds(self.config.chunk_timeout);
        let begun = Conversation::begin(&self.target, connected, queue, time, timeout).await;
        let (mut conversation, first) = match begun {
            Ok(begun) => begun,
            Err(error) => return self.no_connection(error),
        };
        if matches!(first.frame, Some(Frame::Welcome(_))) {
            self.attempts.welcomed();
        }
        self.frame(first);
        let ended = loop {
            if let Some(ended) = self.carry_out() {
                break ended;
            }
            if let Err(ended) = self.next(&mut conversation).await {
                break ended;
            }
        };
        if matches!(ended, Ended::Over) {
            self.outbox = None;
            conversation.goodbye().await;
        }
        ended
    }

    /// Waits for the next thing to happen, and hands it in.
    async fn next(&mut self, conversation: &mut Conversation) -> Result<(), Ended> {
        let busy = self.drive.machine.is_busy();
        tokio::select! {
            // The caller's word comes first, however much the coordinator says; what has come counts before any deadline.
            biased;
            command = self.received.recv() => self.obey(command),
            // What waits for a task waits at the coordinator.
            frame = conversation.heard(), if !busy => match frame {
                Ok(frame) => self.frame(frame),
                Err(Silence::Lost(reason)) => return Err(Ended::Lost(reason)),
                Err(Silence::TakesNothing) => return Err(self.last_word(conversation).await),
            },
            Ok(()) = self.identity.renewals.changed() => self.heed_newer(),
            () = self.drive.goes_on() => {}
        }
        Ok(())
    }

    fn obey(&mut self, command: Option<Input>) {
        let command = command.unwrap_or(Input::Leave(Departure::default()));
        // Only uploads give up, and only where they go to a wrong place.
        if let Input::GiveUp(reason) = &command {
            self.gave_up = Some(NetError::config("servers", reason.clone()));
        }
        self.drive.handle(command);
    }

    fn frame(&mut self, mut frame: CoordinatorFrame) {
        if let Some(Frame::Refused(refused)) = &mut frame.frame {
            self.identity.compare_clocks(refused);
            self.attempts.refused(refused);
            let is_of_certificate = matches!(
                refused.code(),
                RefusalCode::RefusalCertificate | RefusalCode::RefusalOutOfTime
            );
            if is_of_certificate {
                self.heed_newer();
            }
        }
        self.drive.handle(Input::Frame(self.link, frame));
    }

    fn heed_newer(&mut self) {
        if self.identity.has_newer() {
            self.drive.handle(Input::Renewed);
        }
    }

    /// The coordinator takes nothing more: what it still says tells whether to come back.
    async fn last_word(&mut self, conversation: &mut Conversation) -> Ended {
        if let Some(refusal) = conversation.last_word().await {
            self.frame(refusal);
        }
        let lost = || Ended::Lost("the connection has ended".into());
        self.carry_out().unwrap_or_else(lost)
    }

    /// Does what the party asks for; gives why the connection ends, where it does.
    fn carry_out(&mut self) -> Option<Ended> {
        let mut ended = None;
        while let Some(effect) = self.drive.poll() {
            match effect {
                Effect::Send(link, say) => {
                    if let Some(outbox) = self.outbox.as_ref().filter(|_| link == self.link) {
                        outbox.put(queued(say));
                    }
                }
                Effect::Upload {
                    round,
                    role,
                    message,
                } => self.uploads.begin(round, role, message),
                Effect::Reconnect(link, reason) if link == self.link => {
                    ended = Some(Ended::Lost(reason));
                }
                // That one has ended already.
                Effect::Reconnect(..) => {}
                Effect::Tell(Told::Over(over)) => {
                    self.caller.over(over, self.gave_up.take());
                    ended = Some(Ended::Over);
                }
                Effect::Tell(told) => {
                    if let Told::Ended(round, _) = &told {
                        self.uploads.end(*round);
                    }
                    self.caller.tell(told);
                }
            }
        }
        ended
    }
}

/// Something to say, as a connection's queue takes it.
pub(crate) fn queued(say: Say) -> Queued<PartyFrame> {
    match say {
        Say::Frame(frame) => Queued::Frame(frame),
        Say::Message {
            round,
            stage,
            message,
        } => Queued::Message {
            round,
            stage,
            message: Content::Here(message),
        },
        Say::Model { version, values } => Queued::Model { version, values },
    }
}
