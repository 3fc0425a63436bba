//! Machines, alive or not, and what they know of their connections.

use std::collections::{BTreeMap, VecDeque};

use blindsum_job::coordinator::{CoordinatorMachine, Peer};
use blindsum_job::pb::PartyFrame;

use super::transit::Connection;

/// A party, or a server that is not the coordinator.
pub(crate) struct Host<M> {
    /// Whom the coordinator sees at the other end of its connections.
    pub peer: Peer,
    pub machine: Option<M>,
    /// How often it was started.
    pub life: u32,
    /// Its connection to the coordinator, where it thinks that it has one.
    pub link: Option<u64>,
    /// Whether it has left the job for good, or heard that it is done.
    pub over: bool,
}

impl<M> Host<M> {
    /// One that was not started yet.
    pub fn new(peer: Peer) -> Self {
        Self {
            peer,
            machine: None,
            life: 0,
            link: None,
            over: false,
        }
    }

    /// Whether its machine is there, and has not come to its end.
    pub fn is_alive(&self) -> bool {
        self.machine.is_some() && !self.over
    }

    /// It is started.
    pub fn begins(&mut self, machine: M) {
        self.machine = Some(machine);
        self.life += 1;
    }

    /// Where it stands, for people.
    pub fn standing(&self) -> String {
        let (life, link, over) = (self.life, self.link, self.over);
        let lives = self.machine.is_some();
        format!("life {life}, lives {lives}, link {link:?}, over {over}")
    }
}

/// The coordinator.
#[derive(Default)]
pub(crate) struct Coordinator {
    pub machine: Option<CoordinatorMachine>,
    /// How often it was started.
    pub life: u32,
    /// The connections that it knows of.
    pub(super) links: BTreeMap<u64, Connection>,
    /// Frames that came before their sender was let in, with their connections: they are heard one after the other, each
    /// once all is done that the one before led to.
    pub(super) heard: VecDeque<(u64, PartyFrame)>,
}

impl Coordinator {
    /// Its process ends.
    pub(super) fn ends(&mut self) {
        self.machine = None;
        self.links.clear();
        self.heard.clear();
    }
}
