//! The connection of a party: it is made, kept, and made again. What is sent over it is decided by its machine: the
//! driver hands in what has come, and carries out what the party asks for.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use blindsum_job::foreign;
use blindsum_job::party::{
    Departure, Effect, Input, LinkId, Mark, Over, RENEWED, RoundResult, Say, Told,
};
use blindsum_protocol::Job;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

use super::uploads::Uploads;
use super::{Holding, Notice, PartyConfig, RoundHandle};
use crate::connect::{CONNECT_TIME, ConnectError, Connected, PAUSES, Target};
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
    pub commands: UnboundedSender<Input>,
    pub received: UnboundedReceiver<Input>,
    pub notices: Sender<Notice>,
    pub link: LinkId,
    /// The job, once it is known: the address and the certificates are right then.
    pub job: Option<Arc<Job>>,
    /// Whether the coordinator has welcomed the party over this connection.
    pub welcomed: bool,
    /// Whether the coordinator has asked over this connection to come again with a token, and whether the one before
    /// ended so.
    pub asked_now: bool,
    pub asked_again: bool,
    /// Why there is no connection, as the log has said since there was one.
    pub told_lost: Option<String>,
    /// The connection, while there is one.
    pub outbox: Option<Outbox<PartyFrame>>,
    /// Where the caller hears what became of its round.
    pub results: Option<(u64, Sender<Result<RoundResult, NetError>>)>,
    /// Where the caller sees why operators let no round begin.
    pub holding: Holding,
    /// Why the coordinator says that the job has failed, since it last let the party in.
    pub failed: Option<String>,
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
        let give_up = seconds(self.config.give_up_after);
        let time = CONNECT_TIME.min(give_up);
        let (mut until, mut pause) = (Instant::now() + give_up, PAUSES.0);
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
            if std::mem::take(&mut self.welcomed) {
                (until, pause) = (Instant::now() + give_up, PAUSES.0);
                self.told_lost = None;
            }
            let reason = match ended {
                Ended::Lost(reason) => reason,
                Ended::Over => return None,
                Ended::Never(error) => return Some(error),
            };
            let lost = Input::Lost(self.link, reason.clone());
            self.drive.handle(lost);
            // guard: trouble-that-stays-is-given-up
            if Instant::now() >= until {
                return Some(NetError::Unreachable {
                    url: self.target.url().into(),
                    seconds: self.config.give_up_after,
                    reason: match self.failed.take() {
                        Some(failed) if failed != reason => {
                            format!("{reason}; before that: {failed}")
                        }
                        _ => reason,
                    },
                });
            }
            let asked_before = self.asked_again;
            self.asked_again = std::mem::take(&mut self.asked_now);
            if self.asked_again && !asked_before {
                // So begins every process of a party that was here before: it comes at once, with the token.
                debug!(party = %self.identity.name, %reason, "connecting again, as the coordinator asks");
                continue;
            } else if reason == RENEWED {
                info!(party = %self.identity.name, "{reason}");
            } else if self.told_lost.as_ref() != Some(&reason) {
                self.told_lost = Some(reason.clone());
                let seconds = self.config.give_up_after;
                warn!(party = %self.identity.name, %reason, seconds, "no connection; trying again");
            } else {
                debug!(party = %self.identity.name, %reason, pause, "no connection yet");
            }
            if self.wait(Instant::now() + seconds(pause)).await {
                return None;
            }
            pause = (pause * 2.0).min(PAUSES.1);
        }
    }

    /// What came in the way of a connection. Whoever was welcomed before has the right address and
    /// certificates: whatever stands in the way now will pass.
    fn no_connection(&self, error: ConnectError) -> Ended {
        match error {
            // guard: lasting-trouble-ends-a-newcomer, passing-trouble-is-waited-out
            ConnectError::Never(error) if self.job.is_none() => Ended::Never(error),
            ConnectError::Never(error) => Ended::Lost(error.to_string()),
            ConnectError::OutOfTime(error) => match self.identity.own_time() {
                // One of the two clocks is wrong, and may be right again soon.
                // guard: a-party-that-tls-refused-for-its-time-comes-again
                Ok(times) => Ended::Lost(format!("{times}; {error}")),
                Err(_) if self.job.is_none() => Ended::Never(error),
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
        self.welcomed = matches!(first.frame, Some(Frame::Welcome(_)));
        if self.welcomed {
            self.failed = None;
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
            match refused.code() {
                RefusalCode::RefusalCertificate | RefusalCode::RefusalOutOfTime => {
                    self.heed_newer()
                }
                RefusalCode::RefusalComeAgain => self.asked_now = true,
                RefusalCode::RefusalJobFailed => self.failed = Some(foreign(&refused.reason)),
                _ => {}
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
                    self.over(over);
                    ended = Some(Ended::Over);
                }
                Effect::Tell(told) => self.tell(told),
            }
        }
        ended
    }

    fn tell(&mut self, told: Told) {
        let notice = match told {
            Told::Joined(job) => {
                self.job = Some(job.clone());
                Notice::Joined(job)
            }
            Told::Round(begun) => {
                // It is known before any round begins.
                let Some(job) = self.job.clone() else { return };
                let (sender, results) = channel();
                self.results = Some((begun.number, sender));
                let handle = RoundHandle::new(begun, job, self.commands.clone(), results);
                Notice::Round(Box::new(handle))
            }
            Told::Refused(error) => Notice::Refused(error.into()),
            Told::Ended(round, result) => {
                self.uploads.end(round);
                let of_round = |(number, _): &mut (u64, _)| *number == round;
                if let Some((_, results)) = self.results.take_if(of_round) {
                    let _ = results.send(result.map(|result| *result).map_err(NetError::from));
                }
                return;
            }
            Told::Held(reason) => match self.holding.set(reason) {
                true => Notice::Held,
                false => return,
            },
            Told::Dropped(error) => {
                debug!(%error, "an update was dropped");
                return;
            }
            Told::Over(_) => return,
        };
        let _ = self.notices.send(notice);
    }

    fn over(&mut self, over: Over) {
        self.holding.set(String::new());
        let notice = match over {
            Over::Left => return,
            Over::JobDone { model, reason } => Notice::JobDone(model, reason),
            Over::Failed(error) => {
                let own = self.gave_up.take();
                Notice::Failed(own.unwrap_or(error.into()))
            }
        };
        let _ = self.notices.send(notice);
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
