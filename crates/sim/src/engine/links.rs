//! Connections to the coordinator: frames keep their order, take their time, and are lost where a connection breaks.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_job::coordinator::{LinkId, Peer};
use blindsum_job::pb::{CoordinatorFrame, PartyFrame};
use blindsum_job::session::{Count, Session};

use super::agenda::{Agenda, Event, Micros, Who};
use super::conditions::Conditions;

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
pub(super) struct Connection {
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

impl Links {
    /// Somebody makes a connection; its number.
    pub fn make(&mut self, time: Micros, host: Who) -> u64 {
        self.latest += 1;
        let link = Link {
            host,
            up: time,
            down: time,
            whole: true,
        };
        self.all.insert(self.latest, link);
        self.latest
    }

    /// Who is at the other end of a connection than the coordinator.
    pub fn host(&self, number: u64) -> Option<Who> {
        self.all.get(&number).map(|link| link.host)
    }

    /// Whether frames still get through.
    pub fn is_whole(&self, number: u64) -> bool {
        self.all.get(&number).is_some_and(|link| link.whole)
    }

    /// A frame for the coordinator, which is lost where there is no connection.
    pub fn send_up(
        &mut self,
        agenda: &mut Agenda,
        by: &mut impl Conditions,
        link: Option<u64>,
        frame: PartyFrame,
    ) {
        let way = by.way();
        let Some((number, link)) = link.and_then(|n| Some((n, self.all.get_mut(&n)?))) else {
            return;
        };
        link.up = link.up.max(agenda.time() + way);
        if link.whole {
            let (at, link) = (link.up, number);
            agenda.at(at, Event::AtServer { link, frame });
        }
    }

    /// A frame of the coordinator.
    pub fn send_down(
        &mut self,
        agenda: &mut Agenda,
        by: &mut impl Conditions,
        number: u64,
        frame: CoordinatorFrame,
    ) {
        let way = by.way();
        let Some(link) = self.all.get_mut(&number) else {
            return;
        };
        link.down = link.down.max(agenda.time() + way);
        if link.whole {
            let (at, link) = (link.down, number);
            agenda.at(at, Event::AtHost { link, frame });
        }
    }

    /// When the latest frame to the coordinator arrives.
    pub fn latest_up(&self, agenda: &Agenda, number: u64) -> Micros {
        self.all.get(&number).map_or(agenda.time(), |link| link.up)
    }

    /// When the latest frame to the other end arrives.
    pub fn latest_down(&self, agenda: &Agenda, number: u64) -> Micros {
        self.all
            .get(&number)
            .map_or(agenda.time(), |link| link.down)
    }

    /// A connection breaks. What is on its way is lost, and each side learns of it in its own time.
    pub fn cut(
        &mut self,
        agenda: &mut Agenda,
        by: &mut impl Conditions,
        number: u64,
        reason: &str,
    ) {
        let Some(link) = self.all.get_mut(&number).filter(|link| link.whole) else {
            return;
        };
        link.whole = false;
        for at in [Who::Server, link.host] {
            let (link, reason) = (number, reason.to_owned());
            agenda.after(by.notice(), Event::Ends { link, at, reason });
        }
    }
}
