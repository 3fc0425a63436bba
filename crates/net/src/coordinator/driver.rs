//! Drives one job: hands in what its sessions receive, and carries out its effects in order.
//!
//! The job with all its decisions is [`CoordinatorMachine`]. Here are the clock, the threads and the queues of the connections.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use blindsum_job::JobError;
use blindsum_job::calls::{Call, CallEnd, CallError, CallId};
use blindsum_job::coordinator::{
    self as job, CoordinatorMachine, Effect, Gate, Input, LinkId, Peer, Say, Shown,
};
use blindsum_job::orders::{Order, OrderError, OrderId, Outcome};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::open_calls::Calls;
use crate::NetError;
use crate::computing::{Heard, ServerChannels};
use crate::drive::Drive;
use crate::membership::Members;
use crate::outbox::{Content, Outbox, Queued};
use crate::pb::{self, CoordinatorFrame};
use crate::relay::{Relayed, Unreadable};
use crate::report::{JobStatus, RoundState};
use crate::system::Clock;
use crate::wire::Sent;

/// Ends of rounds that are kept for whoever hears of all of them and is slow.
const ENDS_KEPT: usize = 256;

/// What a session tells its job.
pub(crate) enum Event {
    /// A party asks to be let in.
    Connected {
        link: LinkId,
        peer: Peer,
        hello: pb::Hello,
        outbox: Outbox<CoordinatorFrame>,
        admitted: oneshot::Sender<Result<(), pb::Refused>>,
    },
    /// An operator orders something.
    Order {
        order: Order,
        answer: oneshot::Sender<Result<Outcome, OrderError>>,
    },
    /// A host begins a round.
    Call {
        call: Call,
        taken: oneshot::Sender<Result<CallId, CallError>>,
        ended: oneshot::Sender<CallEnd>,
    },
    /// Anything else.
    Input(Input),
}

/// Where a session finds its job.
#[derive(Clone)]
pub(crate) struct JobHandle {
    pub events: mpsc::Sender<Event>,
    pub gate: watch::Receiver<Arc<Gate>>,
}

/// A connection at its driver.
struct Connection {
    outbox: Outbox<CoordinatorFrame>,
    /// Where the job's word on it is waited for.
    admitted: Option<oneshot::Sender<Result<(), pb::Refused>>>,
}

/// The lines to servers that compute with this one, and where it is heard what comes over them.
pub(crate) struct Computing {
    pub lines: ServerChannels,
    pub heard: mpsc::Receiver<Heard>,
}

impl Computing {
    /// What comes next; nothing where there is nobody.
    async fn next(computing: &mut Option<Self>) -> Input {
        let heard = match computing {
            Some(computing) => computing.heard.recv().await,
            None => None,
        };
        match heard {
            None => std::future::pending().await,
            Some(Heard::Lost { to, reason }) => Input::LineLost { to, reason },
            Some(Heard::Letter {
                from,
                round,
                letter,
            }) => Input::Letter {
                from,
                round,
                letter,
            },
        }
    }
}

/// A job and what it is driven with.
pub(crate) struct Driver {
    drive: Drive<Input, Effect, Shown>,
    connections: BTreeMap<LinkId, Connection>,
    /// The orders that were not answered yet, and the number of orders.
    orders: (
        BTreeMap<OrderId, oneshot::Sender<Result<Outcome, OrderError>>>,
        u64,
    ),
    /// The calls of a host that have not ended.
    calls: Calls,
    /// The servers that compute with this one, where there are any.
    computing: Option<Computing>,
    /// The leases of its parties.
    members: Members,
    events: mpsc::Receiver<Event>,
    gate: watch::Sender<Arc<Gate>>,
    status: watch::Sender<JobStatus>,
    ends: broadcast::Sender<Arc<JobStatus>>,
    /// The status that was told last.
    told: Arc<JobStatus>,
    stopping: watch::Receiver<bool>,
    /// Where it is told that what a round passes on cannot be read, and where that is heard.
    unreadable: (
        mpsc::UnboundedSender<Unreadable>,
        mpsc::UnboundedReceiver<Unreadable>,
    ),
}

impl Driver {
    /// The driver of a job that was opened by this clock, and where sessions and watchers find it.
    pub fn new(
        server: CoordinatorMachine,
        clock: Clock,
        computing: Option<Computing>,
        members: Members,
        stopping: watch::Receiver<bool>,
    ) -> (Self, JobHandle, watch::Receiver<JobStatus>) {
        let told = server.status();
        let (status, mut watched) = watch::channel(JobStatus::clone(&told));
        // Where the job stands as it begins is news to everybody who watches.
        watched.mark_changed();
        let (gate, guarded) = watch::channel(server.gate());
        let (sender, events) = mpsc::channel(256);
        let driver = Self {
            drive: Drive::new(server, clock, told.job.clone()),
            connections: BTreeMap::new(),
            orders: Default::default(),
            calls: Calls::default(),
            computing,
            members,
            events,
            gate,
            status,
            ends: broadcast::Sender::new(ENDS_KEPT),
            told,
            stopping,
            unreadable: mpsc::unbounded_channel(),
        };
        let handle = JobHandle {
            events: sender,
            gate: guarded,
        };
        (driver, handle, watched)
    }

    /// The channel of every end of a round.
    pub fn ends(&self) -> broadcast::Sender<Arc<JobStatus>> {
        self.ends.clone()
    }

    /// Drives the job to its end.
    ///
    /// # Errors
    /// Why the job could not go on.
    pub async fn run(mut self) -> Result<(), NetError> {
        let end = self.go_through().await;
        self.members.end().await;
        if let Some(Computing { lines, heard }) = self.computing {
            drop(heard);
            lines.end().await;
        }
        end.map_err(NetError::from)
    }

    async fn go_through(&mut self) -> Result<(), JobError> {
        loop {
            self.publish();
            while let Some(effect) = self.drive.poll() {
                if let ControlFlow::Break(end) = self.carry_out(effect) {
                    return end;
                }
            }
            if self.heed_leases() {
                continue;
            }
            if let Some(event) = self.next().await {
                let input = self.input(event);
                self.drive.handle(input);
            }
        }
    }

    /// The job is told whose lease has run out; true where there is anybody. What it has said before is carried out then: who
    /// is back has its new lease.
    fn heed_leases(&mut self) -> bool {
        let lost = self.members.leases.lost(self.drive.clock.now().time);
        let is_news = !lost.is_empty();
        for name in lost {
            self.drive.handle(Input::LeaseLost { name });
        }
        is_news
    }

    /// What the job shows is seen before anybody hears of it: whoever is told of a stage finds its gate open.
    fn publish(&mut self) {
        let gate = self.drive.machine.gate();
        self.gate.send_if_modified(|known| {
            let news = !Arc::ptr_eq(known, &gate);
            *known = gate;
            news
        });
        let status = self.drive.machine.status();
        if !Arc::ptr_eq(&self.told, &status) {
            if has_ended(&self.told, &status) {
                // Perhaps nobody wants to hear it.
                let _ = self.ends.send(status.clone());
            }
            self.status.send_replace(JobStatus::clone(&status));
            self.told = status;
        }
    }

    /// Does what the job asks for, unless that was its last effect.
    fn carry_out(&mut self, effect: Effect) -> ControlFlow<Result<(), JobError>> {
        match effect {
            Effect::Admit(link) => self.answer(link, Ok(())),
            Effect::Refuse(link, refused) => {
                self.answer(link, Err(refused));
                self.connections.remove(&link);
            }
            Effect::Send(link, say) => self.put(link, |failed| queued(say, failed)),
            Effect::Letter { to, round, letter } => match &self.computing {
                Some(computing) => computing.lines.say(to, round, letter),
                None => {
                    let reason = "there is no line to it".into();
                    let lost = Input::LineLost { to, reason };
                    self.drive.handle(lost);
                }
            },
            Effect::Close(link, last) => {
                if let Some(connection) = self.connections.get(&link) {
                    connection.outbox.ends_because(&last.reason);
                }
                self.put(link, |_| Queued::Last(last.into()));
            }
            Effect::Cut(link, last) => {
                if let Some(connection) = self.connections.remove(&link) {
                    connection.outbox.ends_because(&last.reason);
                    connection.outbox.end_now(last.into());
                }
            }
            Effect::Lease(word) => {
                let now = self.drive.clock.now();
                self.members.leases.carry_out(now.time, word);
            }
            Effect::Ordered { id, outcome } => {
                if let Some(answer) = self.orders.0.remove(&id) {
                    // Perhaps nobody waits for it any more.
                    let _ = answer.send(outcome);
                }
            }
            Effect::Called { id, taken } => self.calls.taken(id, taken),
            Effect::CallEnded { id, end } => self.calls.ended(id, end),
            Effect::Over(end) => return ControlFlow::Break(end),
        }
        ControlFlow::Continue(())
    }

    fn answer(&mut self, link: LinkId, answer: Result<(), pb::Refused>) {
        let connection = self.connections.get_mut(&link);
        if let Some(admitted) = connection.and_then(|connection| connection.admitted.take()) {
            // A session that has gone says so itself.
            let _ = admitted.send(answer);
        }
    }

    fn put(
        &self,
        link: LinkId,
        what: impl FnOnce(&mpsc::UnboundedSender<Unreadable>) -> Queued<CoordinatorFrame>,
    ) {
        if let Some(connection) = self.connections.get(&link) {
            connection.outbox.put(what(&self.unreadable.0));
        }
    }

    /// What happens next; none where the job goes on by itself, and where a lease may have run out. While work is under way
    /// the rest waits. Leases are renewed meanwhile: nobody has failed because the coordinator is busy.
    async fn next(&mut self) -> Option<Event> {
        let (clock, is_free) = (self.drive.clock.clone(), !self.drive.machine.is_busy());
        tokio::select! {
            biased;
            _ = self.stopping.wait_for(|stopping| *stopping), if is_free => Some(Event::Input(Input::Stop)),
            Some(Unreadable { round, reason }) = self.unreadable.1.recv(), if is_free => {
                Some(Event::Input(Input::Unreadable { round, reason }))
            }
            input = Computing::next(&mut self.computing), if is_free => Some(Event::Input(input)),
            event = self.events.recv(), if is_free => event.or(Some(Event::Input(Input::Stop))),
            () = self.members.news.notified() => None,
            () = clock.until(self.members.leases.wake()) => None,
            () = self.drive.goes_on() => None,
        }
    }

    fn input(&mut self, event: Event) -> Input {
        match event {
            Event::Connected {
                link,
                peer,
                hello,
                outbox,
                admitted,
            } => {
                let admitted = Some(admitted);
                self.connections
                    .insert(link, Connection { outbox, admitted });
                Input::Connected { link, peer, hello }
            }
            Event::Order { order, answer } => {
                let id = OrderId(self.orders.1);
                self.orders.1 += 1;
                self.orders.0.insert(id, answer);
                Input::Order { id, order }
            }
            Event::Call { call, taken, ended } => {
                let id = self.calls.begin(taken, ended);
                Input::Call { id, call }
            }
            Event::Input(input) => {
                if let Input::Lost { link, .. } = &input {
                    self.connections.remove(link);
                }
                input
            }
        }
    }
}

/// Whether a round has ended between these two.
fn has_ended(before: &JobStatus, now: &JobStatus) -> bool {
    let end = |status: &JobStatus| {
        let round = status.round.as_ref()?;
        let is_over = matches!(round.state, RoundState::Done | RoundState::Aborted);
        is_over.then_some(round.number)
    };
    end(now).is_some() && end(now) != end(before)
}

/// Something to say, as a connection's queue takes it.
fn queued(say: Say, failed: &mpsc::UnboundedSender<Unreadable>) -> Queued<CoordinatorFrame> {
    match say {
        Say::Frame(frame) => Queued::Frame(frame),
        Say::Shared(frame) => Queued::Encoded(Sent::encoded(frame.encoded().clone())),
        Say::Model { version, values } => Queued::Model { version, values },
        Say::Message {
            round,
            stage,
            content,
        } => Queued::Message {
            round,
            stage,
            message: match content {
                job::Content::Here(bytes) => Content::Here(bytes),
                job::Content::Kept { outgoing, shelf } => {
                    Content::Relayed(Relayed::new(outgoing, shelf, round, failed.clone()))
                }
            },
        },
    }
}
