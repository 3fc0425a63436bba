//! Machines and connections come to an end.

use blindsum_job::party::LinkId;
use blindsum_protocol::ServerIndex;

use super::Engine;
use super::conditions::Conditions;
use super::event::Who;

impl Engine {
    /// A party, or another server, ends its connection.
    pub(super) fn hang_up(&mut self, host: Who) {
        let Some(link) = self.link_of(host) else {
            return;
        };
        self.set_link(host, None);
        self.transit
            .close(link, Who::Server, "closed at the other end");
    }

    /// A party, or another server, that thinks that it has this connection makes another one.
    pub(super) fn reconnect(
        &mut self,
        by: &mut impl Conditions,
        host: Who,
        on: LinkId,
        reason: &str,
    ) {
        if self.link_of(host) == Some(on.0) {
            by.event(self, format_args!("{host:?} connects again: {reason}"));
            self.hang_up(host);
            self.transit.connect_later(by, host);
        }
    }

    /// A machine ends in the middle of whatever it does, and is started again later.
    pub fn kill(&mut self, by: &mut impl Conditions, who: Who) {
        by.event(self, format_args!("{who:?} is killed"));
        // The disk has done its part of a task already, or not.
        if let Some(task) = self.tasks.remove(&who)
            && by.is_work_done()
        {
            task.run();
        }
        let links: Vec<u64> = match who {
            Who::Server => self.coordinator.links.keys().copied().collect(),
            host => self.link_of(host).into_iter().collect(),
        };
        for link in links {
            self.transit.cut(by, link, "lost");
        }
        self.set_link(who, None);
        match who {
            Who::Server => {
                self.coordinator.ends();
                self.transit.end_lines(by, ServerIndex::ALL[0]);
            }
            Who::Party(number) => {
                if let Some(party) = self.parties.get_mut(number) {
                    party.machine = None;
                }
                self.transit.give_up_uploads(by, number, |_| true);
            }
            Who::Follower(role) => {
                if let Some(server) = self.followers.get_mut(&role) {
                    server.machine = None;
                }
                self.transit.silence(by, role);
            }
        }
        match by.stays_away(who) {
            Some(away) => self.transit.start_after(away, who),
            None => by.event(self, format_args!("{who:?} is gone for good")),
        }
    }
}
