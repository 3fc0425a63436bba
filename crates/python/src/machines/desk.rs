//! A coordinator's machine at the desk of whoever carries its frames: its connections, and what leaves it.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_job::calls::{CallEnd, CallError};
use blindsum_job::coordinator::{CoordinatorMachine, Effect, Input, LinkId, Say};
use blindsum_job::frames::of_coordinator;
use blindsum_job::machine::Now;
use blindsum_job::pb::{CoordinatorFrame, PartyFrame, RefusalCode, Refused};
use blindsum_job::session::{Count, Session};
use blindsum_job::{JobError, chunks};
use bytes::Bytes;
use prost::Message as _;

/// The largest frame of a party, in bytes: a chunk, and what names it.
const LARGEST_FRAME: usize = chunks::CHUNK + 4096;

/// The machine, and what lies between it and whoever carries its frames.
pub(super) struct Desk {
    pub machine: CoordinatorMachine,
    pub connections: BTreeMap<LinkId, Connection>,
    /// The number of the latest connection.
    pub latest: u64,
    /// The number of calls, and the word on the latest one.
    pub calls: u64,
    pub taken: Option<Result<(), CallError>>,
    pub leaving: Vec<(u64, Bytes)>,
    pub events: Vec<Event>,
}

/// One connection, and the bytes that went over it.
pub(super) struct Connection {
    pub session: Session,
    pub count: Arc<Count>,
}

/// What a coordinator tells.
pub(super) enum Event {
    LinkEnded(u64, String),
    CallEnded(CallEnd),
    JobOver(Result<(), JobError>),
}

impl Desk {
    pub fn give(&mut self, input: Input, now: Now) {
        self.machine.handle(now, input);
        self.carry_out(now);
    }

    pub fn receive(&mut self, link: LinkId, bytes: &[u8], now: Now) {
        let Some(connection) = self.connections.get(&link) else {
            return;
        };
        connection.count.came(bytes.len());
        match read_frame(bytes) {
            Ok(frame) => self.handle_frame(link, frame, now),
            Err(refused) => self.end(link, refused, now),
        }
    }

    fn handle_frame(&mut self, link: LinkId, frame: PartyFrame, now: Now) {
        let gate = self.machine.gate();
        let Some(connection) = self.connections.get_mut(&link) else {
            return;
        };
        match connection.session.hear(&gate, frame) {
            Ok(None) => {}
            Ok(Some(input)) => self.give(input, now),
            Err(refused) => self.end(link, refused, now),
        }
    }

    /// The party is let in; what it said meanwhile is heard.
    fn admit(&mut self, link: LinkId, now: Now) {
        let connection = self.connections.get_mut(&link);
        let waiting = connection.map(|connection| connection.session.admit());
        for frame in waiting.unwrap_or_default() {
            self.handle_frame(link, frame, now);
        }
    }

    /// A connection has ended; whoever carries it hears so, where it was the coordinator that ended it.
    pub fn lost(&mut self, link: LinkId, reason: String, returns: bool, now: Now) {
        let Some(Connection { session, .. }) = self.connections.remove(&link) else {
            return;
        };
        if !returns {
            self.events.push(Event::LinkEnded(link.0, reason.clone()));
        }
        if session.is_known() {
            let lost = Input::Lost {
                link,
                reason,
                returns,
            };
            self.give(lost, now);
        }
    }

    /// Does what the machine asks for, until it waits for somebody else.
    pub fn carry_out(&mut self, now: Now) {
        while let Some(effect) = self.machine.poll_working(now) {
            match effect {
                Effect::Admit(link) => self.admit(link, now),
                Effect::Send(link, say) => self.say(link, say, now),
                Effect::Refuse(link, last) => {
                    let reason = last.reason.clone();
                    self.send(link, &last.into());
                    self.connections.remove(&link);
                    self.events.push(Event::LinkEnded(link.0, reason));
                }
                Effect::Close(link, last) => self.end(link, last, now),
                Effect::Cut(link, last) => {
                    self.leaving.retain(|(of, _)| *of != link.0);
                    self.end(link, last, now);
                }
                // It is the caller who knows which of its connections live.
                // It gives no orders.
                Effect::Lease(_) | Effect::Ordered { .. } => {}
                Effect::Called { taken, .. } => self.taken = Some(taken),
                Effect::CallEnded { end, .. } => self.events.push(Event::CallEnded(end)),
                // A transport of the caller's own has no lines between servers.
                Effect::Letter { to, .. } => {
                    let reason = "there is no line to it".into();
                    let lost = Input::LineLost { to, reason };
                    self.machine.handle(now, lost);
                }
                Effect::Over(result) => self.events.push(Event::JobOver(result)),
            }
        }
    }

    fn end(&mut self, link: LinkId, last: Refused, now: Now) {
        let reason = last.reason.clone();
        self.send(link, &last.into());
        self.lost(link, reason, false, now);
    }

    fn say(&mut self, link: LinkId, say: Say, now: Now) {
        let round = match &say {
            Say::Message { round, .. } => *round,
            Say::Shared(frame) => return self.send_bytes(link, frame.encoded().clone()),
            Say::Frame(_) | Say::Model { .. } => 0,
        };
        match of_coordinator(say) {
            Ok(frames) => frames.iter().for_each(|frame| self.send(link, frame)),
            Err(error) => {
                let reason = error.to_string();
                self.give(Input::Unreadable { round, reason }, now);
            }
        }
    }

    fn send(&mut self, link: LinkId, frame: &CoordinatorFrame) {
        self.send_bytes(link, frame.encode_to_vec().into());
    }

    fn send_bytes(&mut self, link: LinkId, bytes: Bytes) {
        if let Some(connection) = self.connections.get(&link) {
            connection.count.sent(bytes.len());
            self.leaving.push((link.0, bytes));
        }
    }
}

fn read_frame(bytes: &[u8]) -> Result<PartyFrame, Refused> {
    let wrong = |reason: String| Refused::new(RefusalCode::RefusalBadFrame, reason);
    if bytes.len() > LARGEST_FRAME {
        let length = bytes.len();
        return Err(wrong(format!(
            "a frame of {length} bytes, more than {LARGEST_FRAME}"
        )));
    }
    PartyFrame::decode(bytes).map_err(|error| wrong(format!("a frame: {error}")))
}
