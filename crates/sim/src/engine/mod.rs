//! Whole jobs in virtual time: the machines of the coordinator, of every party and of the other servers, over connections
//! and lines that take their time and may break. How long everything takes, what goes wrong and what callers do is the
//! matter of the [`Conditions`]. The same answers of these lead to the same events in the same order.

mod conditions;
mod coordinator;
mod driving;
mod endings;
mod event;
mod events;
mod followers;
mod hosts;
mod parties;
#[cfg(test)]
mod tests;
mod transit;

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_job::coordinator::Peer;
use blindsum_job::follower::ServerMachine;
use blindsum_job::machine::{Now, Task, Time};
use blindsum_job::membership::Leases;
use blindsum_job::party::{LinkId, PartyMachine};
use blindsum_job::pb::PartyFrame;
use blindsum_protocol::{Job, ServerRole};

pub(crate) use conditions::{Answer, Conditions};
use event::Event;
pub(crate) use event::{Errand, Micros, Who};
use hosts::{Coordinator, Host};
use transit::Transit;

/// The machines of a job, and what is on its way between them.
pub(crate) struct Engine {
    job: Arc<Job>,
    pub transit: Transit,
    /// How many events there were.
    pub steps: u64,
    pub coordinator: Coordinator,
    pub parties: Vec<Host<PartyMachine>>,
    /// The servers that are not the coordinator.
    pub followers: BTreeMap<ServerRole, Host<ServerMachine>>,
    /// The task that each machine has under way.
    tasks: BTreeMap<Who, Task>,
    /// When machines will be woken, by their life.
    wakes: BTreeMap<Who, (u32, Micros)>,
    leases: Option<Leases>,
}

impl Engine {
    /// Of machines that were not started yet.
    pub fn new(
        job: Arc<Job>,
        parties: impl IntoIterator<Item = Peer>,
        followers: impl IntoIterator<Item = (ServerRole, Peer)>,
    ) -> Self {
        let followers = followers.into_iter();
        Self {
            job,
            transit: Transit::default(),
            steps: 0,
            coordinator: Coordinator::default(),
            parties: parties.into_iter().map(Host::new).collect(),
            followers: followers
                .map(|(role, peer)| (role, Host::new(peer)))
                .collect(),
            tasks: BTreeMap::new(),
            wakes: BTreeMap::new(),
            leases: None,
        }
    }

    /// The time.
    pub fn time(&self) -> Micros {
        self.transit.time()
    }

    /// The time, as machines want to know it.
    pub fn now(&self) -> Now {
        self.transit.now()
    }

    /// Whether the machine of somebody is there, and has not come to its end.
    pub fn is_alive(&self, who: Who) -> bool {
        match who {
            Who::Server => self.coordinator.machine.is_some(),
            Who::Party(number) => self.parties.get(number).is_some_and(Host::is_alive),
            Who::Follower(role) => self.followers.get(&role).is_some_and(Host::is_alive),
        }
    }

    /// How often the machine of somebody was started.
    pub fn life_of(&self, who: Who) -> u32 {
        match who {
            Who::Server => self.coordinator.life,
            Who::Party(number) => self.parties.get(number).map_or(0, |party| party.life),
            Who::Follower(role) => self.followers.get(&role).map_or(0, |server| server.life),
        }
    }

    /// The connection to the coordinator, where this host thinks that it has one.
    pub fn link_of(&self, host: Who) -> Option<u64> {
        match host {
            Who::Server => None,
            Who::Party(number) => self.parties.get(number)?.link,
            Who::Follower(role) => self.followers.get(&role)?.link,
        }
    }

    /// The connections that the coordinator knows of and that are whole.
    pub fn whole_links(&self) -> Vec<u64> {
        let known = self.coordinator.links.keys().copied();
        known.filter(|link| self.transit.is_whole(*link)).collect()
    }

    /// Where everybody but the coordinator stands, for people.
    pub fn standing(&self) -> Vec<String> {
        let parties = self.parties.iter().enumerate().map(|(number, party)| {
            let known = |link| self.coordinator.links.contains_key(&link);
            let known = party.link.is_some_and(known);
            format!("party {number}: {}, known {known}", party.standing())
        });
        let servers = self.followers.iter();
        let servers = servers.map(|(role, server)| format!("the {role}: {}", server.standing()));
        parties.chain(servers).collect()
    }

    /// A machine asks to be woken.
    fn wake_later(&mut self, who: Who, wake: Option<Time>) {
        let Some(wake) = wake else { return };
        // What is due now was looked at just before: a moment later it is again.
        let now = self.time();
        let at = (wake.0.as_micros() as Micros).max(now + 1);
        let life = self.life_of(who);
        let known = self.wakes.entry(who).or_insert((0, Micros::MAX));
        if *known != (life, at) && !(known.0 == life && known.1 <= at && known.1 > now) {
            *known = (life, at);
            self.transit.agenda.at(at, Event::Wake { who, life });
        }
    }

    /// A task is under way.
    fn task_begins(&mut self, by: &mut impl Conditions, who: Who, task: Task) {
        let life = self.life_of(who);
        self.tasks.insert(who, task);
        let takes = by.work(who);
        self.transit
            .agenda
            .after(takes, Event::TaskEnds { who, life });
    }

    /// A party, or another server, sends a frame on this connection, where it thinks that it has it.
    fn send_up(&mut self, by: &mut impl Conditions, host: Who, on: LinkId, frame: PartyFrame) {
        let link = self.link_of(host).filter(|link| *link == on.0);
        self.transit.send_up(by, link, frame);
    }

    fn set_link(&mut self, host: Who, link: Option<u64>) {
        let of = match host {
            Who::Server => None,
            Who::Party(number) => self.parties.get_mut(number).map(|party| &mut party.link),
            Who::Follower(role) => self.followers.get_mut(&role).map(|server| &mut server.link),
        };
        if let Some(of) = of {
            *of = link;
        }
    }
}
