//! Parties and the servers that are not the coordinator: what they have in common, which is a connection to it.

use std::sync::Arc;

use blindsum_job::coordinator::Peer;
use blindsum_job::follower;
use blindsum_job::machine::Ticket;
use blindsum_job::party::{self, LinkId};
use blindsum_job::pb::CoordinatorFrame;
use blindsum_job::session::Count;

use super::agenda::Who;
use super::{Broken, World};

/// What a connection to the coordinator tells.
pub(super) enum News {
    Linked,
    Lost(String),
    Frame(CoordinatorFrame),
}

impl World {
    /// Whether the machine of somebody is there, and has not come to its end.
    pub(super) fn is_alive(&self, who: Who) -> bool {
        match who {
            Who::Server => self.server.machine.is_some(),
            Who::Party(number) => {
                let party = self.parties.get(number);
                party.is_some_and(|party| party.machine.is_some() && !party.over)
            }
            Who::Follower(role) => {
                let server = self.followers.get(&role);
                server.is_some_and(|server| server.machine.is_some() && !server.over)
            }
        }
    }

    /// The connection to the coordinator, where this host thinks that it has one.
    pub(super) fn link_of(&self, host: Who) -> Option<u64> {
        match host {
            Who::Server => None,
            Who::Party(number) => self.parties.get(number)?.link,
            Who::Follower(role) => self.followers.get(&role)?.link,
        }
    }

    pub(super) fn set_link(&mut self, host: Who, link: Option<u64>) {
        let of = match host {
            Who::Server => None,
            Who::Party(number) => self.parties.get_mut(number).map(|party| &mut party.link),
            Who::Follower(role) => self.followers.get_mut(&role).map(|server| &mut server.link),
        };
        if let Some(of) = of {
            *of = link;
        }
    }

    /// Whom the coordinator sees at the other end of a connection.
    pub(super) fn peer(&self, host: Who) -> Option<Peer> {
        let (name, role, certificate, key, address) = match host {
            Who::Server => return None,
            Who::Party(number) => {
                let party = self.parties.get(number)?;
                let address = format!("party {number}");
                (
                    &party.name,
                    None,
                    &party.certificate,
                    &party.identity.key,
                    address,
                )
            }
            Who::Follower(role) => {
                let server = self.followers.get(&role)?;
                let address = role.to_string();
                (
                    &server.name,
                    Some(role),
                    &server.certificate,
                    &server.key,
                    address,
                )
            }
        };
        Some(Peer {
            name: name.clone(),
            role,
            address,
            certificate: certificate.clone(),
            key: key.verifying_key().clone(),
            traffic: Arc::<Count>::default(),
        })
    }

    /// A host hears of its connection, where it lives, and does what follows.
    pub(super) fn hand_host(&mut self, host: Who, link: LinkId, news: News) -> Result<(), Broken> {
        match host {
            Who::Server => Ok(()),
            Who::Party(number) => {
                let input = match news {
                    News::Linked => party::Input::Linked(link),
                    News::Lost(reason) => party::Input::Lost(link, reason),
                    News::Frame(frame) => party::Input::Frame(link, frame),
                };
                self.hand_party(number, input)
            }
            Who::Follower(role) => {
                let input = match news {
                    News::Linked => follower::Input::Linked(link),
                    News::Lost(reason) => follower::Input::Lost(link, reason),
                    News::Frame(frame) => follower::Input::Frame(link, frame),
                };
                self.hand_follower(role, input)
            }
        }
    }

    /// The connection of a host, as far as it knows, has ended.
    pub(super) fn lost_at_host(
        &mut self,
        host: Who,
        link: u64,
        reason: String,
    ) -> Result<(), Broken> {
        if self.link_of(host) != Some(link) {
            return Ok(());
        }
        self.set_link(host, None);
        self.connect_later(host);
        self.hand_host(host, LinkId(link), News::Lost(reason))
    }

    /// Time has passed for a machine.
    pub(super) fn tick(&mut self, who: Who) -> Result<(), Broken> {
        let now = self.now();
        match who {
            Who::Server => {
                if let Some(machine) = &mut self.server.machine {
                    machine.tick(now);
                }
            }
            Who::Party(number) => {
                if let Some(machine) = self.machine_of(number) {
                    machine.tick(now);
                }
            }
            Who::Follower(role) => {
                if let Some(machine) = self.follower(role) {
                    machine.tick(now);
                }
            }
        }
        self.serve(who)
    }

    /// A task of a machine is done.
    pub(super) fn worked(&mut self, who: Who, ticket: Ticket) -> Result<(), Broken> {
        let now = self.now();
        match who {
            Who::Server => {
                if let Some(machine) = &mut self.server.machine {
                    machine.worked(now, ticket);
                }
            }
            Who::Party(number) => {
                if let Some(machine) = self.machine_of(number) {
                    machine.worked(now, ticket);
                }
            }
            Who::Follower(role) => {
                let opens = self.note_written(role)?;
                if let Some(machine) = self.follower(role) {
                    machine.worked(now, ticket);
                }
                self.serve(who)?;
                // It has opened a result, and is gone before the round counts.
                if opens && self.dice.chance(self.faults.opened) {
                    self.kill(who);
                }
                return Ok(());
            }
        }
        self.serve(who)
    }

    /// Does what a machine wants done.
    fn serve(&mut self, who: Who) -> Result<(), Broken> {
        match who {
            Who::Server => self.serve_coordinator(),
            Who::Party(number) => self.serve_party(number),
            Who::Follower(role) => self.serve_follower(role),
        }
    }
}
