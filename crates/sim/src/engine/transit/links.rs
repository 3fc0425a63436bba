//! Connections to the coordinator: frames keep their order, take their time, and are lost where a connection breaks.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_job::coordinator::{LinkId, Peer};
use blindsum_job::pb::{CoordinatorFrame, PartyFrame};
use blindsum_job::session::{Count, Session};

use super::Transit;
use crate::engine::conditions::Conditions;
use crate::engine::event::{Event, Micros, Who};

/// All connections that there ever were.
#[derive(Default)]
pub(super) struct Links {
    all: BTreeMap<u64, Link>,
    latest: u64,
}

/// One connection on the way.
struct Link {
    /// The end that is not the coordinator's.
    host: Who,
    /// When the latest frame arrives, up and down: no frame overtakes another.
    up: Micros,
    down: Micros,
    /// Whether frames still get through.
    whole: bool,
}

/// The coordinator's side of one connection.
pub(in crate::engine) struct Connection {
    pub host: Who,
    pub session: Session,
    /// Its frames, in place of their bytes.
    pub count: Arc<Count>,
}

impl Connection {
    /// A connection of somebody who was not heard yet.
    pub fn of(link: u64, host: Who, peer: Peer) -> Self {
        let count = Arc::<Count>::default();
        let peer = Peer {
            traffic: count.clone(),
            ..peer
        };
        Self {
            host,
            session: Session::new(LinkId(link), peer),
            count,
        }
    }
}

impl Transit {
    /// Somebody makes a connection; its number.
    pub fn make_link(&mut self, host: Who) -> u64 {
        let time = self.time();
        let link = Link {
            host,
            up: time,
            down: time,
            whole: true,
        };
        self.links.latest += 1;
        self.links.all.insert(self.links.latest, link);
        self.links.latest
    }

    /// Who is at the other end of a connection than the coordinator.
    pub fn host(&self, number: u64) -> Option<Who> {
        self.links.all.get(&number).map(|link| link.host)
    }

    /// Whether frames still get through.
    pub fn is_whole(&self, number: u64) -> bool {
        self.links.all.get(&number).is_some_and(|link| link.whole)
    }

    /// A frame for the coordinator, which is lost where there is no connection.
    pub fn send_up(&mut self, by: &mut impl Conditions, link: Option<u64>, frame: PartyFrame) {
        let (way, time) = (by.way(), self.time());
        let Some((number, link)) = link.and_then(|n| Some((n, self.links.all.get_mut(&n)?))) else {
            return;
        };
        link.up = link.up.max(time + way);
        if link.whole {
            let (at, link) = (link.up, number);
            self.agenda.at(at, Event::AtServer { link, frame });
        }
    }

    /// A frame of the coordinator.
    pub fn send_down(&mut self, by: &mut impl Conditions, number: u64, frame: CoordinatorFrame) {
        let (way, time) = (by.way(), self.time());
        let Some(link) = self.links.all.get_mut(&number) else {
            return;
        };
        link.down = link.down.max(time + way);
        if link.whole {
            let (at, link) = (link.down, number);
            self.agenda.at(at, Event::AtHost { link, frame });
        }
    }

    /// One end of a connection is closed. The other one learns of it after what was sent last, or at once if it is not there.
    pub fn close(&mut self, number: u64, at: Who, reason: &str) {
        let link = self.links.all.get(&number);
        let last = link.map(|link| match at {
            Who::Server => link.up,
            _ => link.down,
        });
        let ends = Event::Ends {
            link: number,
            at,
            reason: reason.to_owned(),
        };
        self.agenda.at(last.unwrap_or(self.time()), ends);
    }

    /// A connection breaks. What is on its way is lost, and each side learns of it in its own time.
    pub fn cut(&mut self, by: &mut impl Conditions, number: u64, reason: &str) {
        let links = &mut self.links.all;
        let Some(link) = links.get_mut(&number).filter(|link| link.whole) else {
            return;
        };
        link.whole = false;
        for at in [Who::Server, link.host] {
            let (link, reason) = (number, reason.to_owned());
            self.agenda
                .after(by.notice(), Event::Ends { link, at, reason });
        }
    }
}
