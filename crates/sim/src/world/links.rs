//! Connections: frames keep their order, take their time, and are lost where a connection breaks.

use std::time::Duration;

use blindsum_job::party::LinkId;
use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::pb::{CoordinatorFrame, PartyFrame};

use super::agenda::{Event, Micros, Who};
use super::coordinator::Connection;
use super::hosts::News;
use super::{Broken, World};

/// One connection on the way.
pub(super) struct Link {
    /// The end that is not the coordinator's.
    pub host: Who,
    /// When the latest frame arrives, up and down: no frame overtakes another.
    up: Micros,
    down: Micros,
    /// Whether frames still get through.
    whole: bool,
}

impl World {
    /// How long a frame is on its way.
    pub(super) fn delay(&mut self) -> Micros {
        match self.dice.chance(self.faults.late) {
            true => self.dice.below(4_000_000),
            false => 100 + self.dice.below(20_000),
        }
    }

    /// When a task that begins now is done.
    pub(super) fn task_time(&mut self) -> Micros {
        let takes = match self.dice.chance(self.faults.slow) {
            true => self.dice.below(3_000_000),
            false => self.dice.below(3_000),
        };
        self.time + takes
    }

    pub(super) fn connect_later(&mut self, host: Who) {
        let pause = self.pause();
        self.agenda.push(self.time + pause, Event::Connect(host));
    }

    /// How long somebody waits before another connection.
    pub(super) fn pause(&mut self) -> Micros {
        50_000 + self.dice.below(500_000)
    }

    /// A party, or another server, makes a connection, if it has none and there is somebody at the other end.
    pub(super) fn connect(&mut self, host: Who) -> Result<(), Broken> {
        if !self.is_alive(host) || self.link_of(host).is_some() {
            return Ok(());
        }
        if self.server.machine.is_none() {
            self.connect_later(host);
            return Ok(());
        }
        let Some(peer) = self.peer(host) else {
            return Ok(());
        };
        self.latest_link += 1;
        let link = self.latest_link;
        let (up, down, whole) = (self.time, self.time, true);
        let of = Link {
            host,
            up,
            down,
            whole,
        };
        self.links.insert(link, of);
        let connection = Connection::of(link, host, peer);
        self.server.links.insert(link, connection);
        self.set_link(host, Some(link));
        self.hand_host(host, LinkId(link), News::Linked)
    }

    pub(super) fn send_up(&mut self, link: Option<u64>, frame: PartyFrame) {
        let delay = self.delay();
        let Some((number, link)) = link.and_then(|n| Some((n, self.links.get_mut(&n)?))) else {
            return;
        };
        link.up = link.up.max(self.time + delay);
        if link.whole {
            let (at, link) = (link.up, number);
            self.agenda.push(at, Event::AtServer { link, frame });
        }
    }

    pub(super) fn send_down(&mut self, number: u64, frame: CoordinatorFrame) {
        let delay = self.delay();
        self.sent_down(number);
        let Some(link) = self.links.get_mut(&number) else {
            return;
        };
        link.down = link.down.max(self.time + delay);
        if link.whole {
            let (at, link) = (link.down, number);
            self.agenda.push(at, Event::AtHost { link, frame });
        }
    }

    /// When the latest frame to the other end arrives.
    pub(super) fn latest_down(&self, link: u64) -> Micros {
        self.links.get(&link).map_or(self.time, |link| link.down)
    }

    /// A frame of the coordinator reaches its party, or its server.
    pub(super) fn at_host(&mut self, link: u64, frame: CoordinatorFrame) -> Result<(), Broken> {
        let Some(of) = self.links.get(&link).filter(|of| of.whole) else {
            return Ok(());
        };
        let host = of.host;
        match (host, &frame.frame) {
            (Who::Party(number), Some(Frame::RoundStart(start))) => {
                self.book.starts_anew(number, start.round);
            }
            (Who::Party(number), Some(Frame::RoundDone(done))) => {
                self.book.announces(number, done.round, &done.result);
            }
            _ => {}
        }
        self.hand_host(host, LinkId(link), News::Frame(frame))
    }

    /// Whether a frame of a party still gets through.
    pub(super) fn is_whole(&self, link: u64) -> bool {
        self.links.get(&link).is_some_and(|link| link.whole)
    }

    /// A connection breaks. What is on its way is lost, and each side learns of it in its own time.
    pub(super) fn cut(&mut self, number: u64, reason: &str) {
        let Some(link) = self.links.get_mut(&number).filter(|link| link.whole) else {
            return;
        };
        link.whole = false;
        let host = link.host;
        for at in [Who::Server, host] {
            let notices = self.notices();
            let (link, reason) = (number, reason.to_owned());
            let event = Event::Ends { link, at, reason };
            self.agenda.push(self.time + notices, event);
        }
    }

    /// How long it takes until somebody learns that a connection broke.
    pub(super) fn notices(&mut self) -> Micros {
        match self.dice.chance(0.2) {
            true => self.dice.below(6_000_000),
            false => self.dice.below(50_000),
        }
    }

    /// A party, or another server, ends its connection.
    pub(super) fn hang_up(&mut self, host: Who) {
        let Some(link) = self.link_of(host) else {
            return;
        };
        self.set_link(host, None);
        // What it said last still goes out.
        let at = self.links.get(&link).map_or(self.time, |link| link.up);
        let reason = "closed at the other end".into();
        let event = Event::Ends {
            link,
            at: Who::Server,
            reason,
        };
        self.agenda.push(at, event);
    }

    pub(super) fn wake_later(&mut self, who: Who, wake: Option<blindsum_job::machine::Time>) {
        let Some(wake) = wake else { return };
        // What is due now was looked at just before: a moment later it is again.
        let at = (wake.0.as_micros() as Micros).max(self.time + 1);
        let life = self.life_of(who);
        let known = self.wakes.entry(who).or_insert((0, Micros::MAX));
        if *known != (life, at) && !(known.0 == life && known.1 <= at && known.1 > self.time) {
            *known = (life, at);
            self.agenda.push(at, Event::Wake { who, life });
        }
    }

    pub(super) fn now(&self) -> blindsum_job::machine::Now {
        blindsum_job::machine::Now {
            time: blindsum_job::machine::Time(Duration::from_micros(self.time)),
            unix_millis: crate::cohort::NOW * 1000 + self.time / 1000,
        }
    }
}
