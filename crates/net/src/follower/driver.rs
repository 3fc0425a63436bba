//! Drives such a server: what comes from the coordinator, from parties and over lines goes in, and what the machine
//! asks for is done, in its order.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::ControlFlow;

use blindsum_job::JobError;
use blindsum_job::follower::{Effect, Input, Parts, ServerMachine, UploadId, Uploaded};
use blindsum_job::party::LinkId;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tracing::error;

use super::uplink::Event;
use super::uploads::Visit;
use crate::NetError;
use crate::computing::{Heard, ServerChannels};
use crate::drive::Drive;
use crate::outbox::Outbox;
use crate::party::queued;
use crate::pb::PartyFrame;
use crate::system::{Clock, WallClock, entropy};

/// Events of the connection that wait for the machine; it is not read meanwhile.
const EVENTS_AHEAD: usize = 2;

/// Where everything comes in but the connection to the coordinator.
pub(crate) struct Inbox {
    pub(super) visits: mpsc::UnboundedReceiver<Visit>,
    /// None where no other server computes with this one.
    pub heard: Option<mpsc::Receiver<Heard>>,
    pub stopping: watch::Receiver<bool>,
}

impl Inbox {
    /// That of a server to which parties give nothing, and that computes alone.
    pub fn of_coordinator(stopping: watch::Receiver<bool>) -> Self {
        let (_, visits) = mpsc::unbounded_channel();
        Self {
            visits,
            heard: None,
            stopping,
        }
    }
}

/// The machine and what it is driven with.
pub(crate) struct Driver {
    drive: Drive<Input, Effect>,
    lines: Option<ServerChannels>,
    inbox: Inbox,
    /// The latest connection to the coordinator.
    outbox: Option<(LinkId, Outbox<PartyFrame>)>,
    /// Where connections are given up.
    given_up: watch::Sender<LinkId>,
    /// Who waits for what becomes of an upload.
    waiting: BTreeMap<UploadId, oneshot::Sender<Uploaded>>,
    over: watch::Sender<bool>,
}

/// What happens next.
enum Next {
    Input(Input),
    /// Time has passed, or nothing that the machine must know.
    Nothing,
    /// The end, from outside.
    End(Result<(), NetError>),
}

impl Driver {
    /// A driver of a machine that begins, and where it is told that it has come to its end.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn open(
        parts: Parts,
        lines: Option<ServerChannels>,
        inbox: Inbox,
        clock: WallClock,
    ) -> Result<(Self, watch::Receiver<bool>), NetError> {
        let (over, ended) = watch::channel(false);
        let clock = Clock::new(clock);
        let name = parts.name.clone();
        let machine = ServerMachine::open(parts, clock.now(), entropy()?);
        let drive = Drive::new(machine, clock, name);
        let driver = Self {
            drive,
            lines,
            inbox,
            outbox: None,
            given_up: watch::Sender::new(LinkId::default()),
            waiting: BTreeMap::new(),
            over,
        };
        Ok((driver, ended))
    }

    /// Drives it to its end.
    ///
    /// # Errors
    /// Why it could not go on.
    pub async fn run<F>(
        mut self,
        uplink: impl FnOnce(mpsc::Sender<Event>, watch::Receiver<LinkId>) -> F,
    ) -> Result<(), NetError>
    where
        F: Future<Output = Result<Infallible, NetError>> + Send + 'static,
    {
        let (events, mut came) = mpsc::channel(EVENTS_AHEAD);
        let mut connecting = JoinSet::new();
        connecting.spawn(uplink(events, self.given_up.subscribe()));
        let end = loop {
            if let ControlFlow::Break(end) = self.carry_out() {
                break end.map_err(NetError::from);
            }
            match self.next(&mut came, &mut connecting).await {
                Next::Input(input) => self.drive.handle(input),
                Next::Nothing => {}
                Next::End(end) => break end,
            }
        };
        if let Err(error) = &end {
            error!(%error, "this server cannot go on");
        }
        drop(self.inbox);
        if let Some(lines) = self.lines {
            lines.end().await;
        }
        self.over.send_replace(true);
        end
    }

    /// Does what the machine asks for, unless it has come to its end.
    fn carry_out(&mut self) -> ControlFlow<Result<(), JobError>> {
        while let Some(effect) = self.drive.poll() {
            match effect {
                Effect::Send(link, say) => {
                    if let Some((_, outbox)) = self.outbox.as_ref().filter(|(of, _)| *of == link) {
                        outbox.put(queued(say));
                    }
                }
                Effect::Uploaded(id, uploaded) => {
                    if let Some(answer) = self.waiting.remove(&id) {
                        let _ = answer.send(uploaded);
                    }
                }
                Effect::Letter { to, round, letter } => {
                    if let Some(lines) = &self.lines {
                        lines.say(to, round, letter);
                    }
                }
                Effect::Reconnect(link, _) => {
                    self.given_up.send_replace(link);
                }
                Effect::Over(end) => return ControlFlow::Break(end),
            }
        }
        ControlFlow::Continue(())
    }

    async fn next(
        &mut self,
        came: &mut mpsc::Receiver<Event>,
        connecting: &mut JoinSet<Result<Infallible, NetError>>,
    ) -> Next {
        if self.drive.machine.is_busy() {
            // What comes meanwhile waits outside.
            self.drive.goes_on().await;
            return Next::Nothing;
        }
        tokio::select! {
            biased;
            () = stopped(&mut self.inbox.stopping) => Next::End(Ok(())),
            Some(ended) = connecting.join_next() => Next::End(match ended {
                Ok(Ok(never)) => match never {},
                Ok(Err(error)) => Err(error),
                Err(error) => Err(NetError::system(error)),
            }),
            Some(event) = came.recv() => Next::Input(self.connection(event)),
            Some(heard) = next_letter(&mut self.inbox.heard) => Next::Input(letter(heard)),
            Some(visit) = self.inbox.visits.recv() => self.visit(visit),
            () = self.drive.goes_on() => Next::Nothing,
        }
    }

    /// What happens to the connection to the coordinator.
    fn connection(&mut self, event: Event) -> Input {
        match event {
            Event::Linked(link, outbox) => {
                self.outbox = Some((link, outbox));
                Input::Linked(link)
            }
            Event::Frame(link, frame) => Input::Frame(link, frame),
            Event::Lost(link, reason) => {
                self.outbox.take_if(|(of, _)| *of == link);
                Input::Lost(link, reason)
            }
        }
    }

    /// What happens where parties upload.
    fn visit(&mut self, visit: Visit) -> Next {
        match visit {
            Visit::Came(came) => {
                self.waiting.insert(came.id, came.answer);
                Next::Input(Input::Upload {
                    id: came.id,
                    name: came.name,
                    round: came.round,
                    message: came.message,
                    hold: came.hold,
                })
            }
            // Whoever was answered goes, too.
            Visit::Gone(id) => match self.waiting.remove(&id) {
                Some(_) => Next::Input(Input::UploadGone(id)),
                None => Next::Nothing,
            },
        }
    }
}

/// Waits until the server is told to stop, or nobody can tell it any more.
async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Waits for what comes over lines, where there are any.
async fn next_letter(heard: &mut Option<mpsc::Receiver<Heard>>) -> Option<Heard> {
    match heard {
        Some(heard) => heard.recv().await,
        None => std::future::pending().await,
    }
}

/// What comes over lines.
fn letter(heard: Heard) -> Input {
    match heard {
        Heard::Lost { to, reason } => Input::LineLost { to, reason },
        Heard::Letter {
            from,
            round,
            letter,
        } => Input::Letter {
            from,
            round,
            letter,
        },
    }
}
