//! Who is connected, parties and other servers; who was lately; and how they are told something.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use blindsum_protocol::{Job, ServerRole};
use tracing::warn;

use super::api::{Choice, LinkId};
use super::beginning::Shown;
use super::context::Context;
use super::departed::Departed;
use super::link::Link;
use super::presence::Presence;
use super::running::Running;
use crate::machine::Time;
use crate::pb::{self, CoordinatorFrame};
use crate::report;

/// Who is connected to a job, and who was lately.
#[derive(Default)]
pub(super) struct Connections {
    parties: BTreeMap<Arc<str>, Connected>,
    /// Whose connection it is, of the parties.
    links: BTreeMap<LinkId, Arc<str>>,
    /// The other servers of the job.
    servers: BTreeMap<ServerRole, Connected>,
    presence: Presence,
    /// Who was lost since the latest round was offered, and may come back.
    lost: BTreeSet<Arc<str>>,
    /// Who has left the job by itself, and why.
    pub departed: Departed,
    /// When somebody last came or went.
    changed: Time,
    /// Whether it was said that more parties are here than a round takes.
    crowd_told: bool,
}

/// A connected party, or another server.
pub(super) struct Connected {
    pub link: Link,
    /// Where it says that it is; empty where it does not say.
    pub location: String,
    /// Certificates that were sent over this connection.
    pub shown: Shown,
    /// Bytes of this connection that are accounted for.
    pub counted: report::Bytes,
    /// Whether the model was asked for and is being sent.
    pub model_sent: Option<u64>,
    /// Whether it can give the first model.
    pub gives_model: bool,
    /// Whether it knows the frame by which it is told that the job is held.
    pub knows_held: bool,
}

impl Connected {
    /// Whoever has come over this connection.
    pub fn new(link: Link, hello: &pb::Hello) -> Self {
        Self {
            link,
            location: hello.location.clone(),
            shown: Shown::default(),
            counted: report::Bytes::default(),
            model_sent: None,
            gives_model: hello.gives_model,
            knows_held: hello.knows_held,
        }
    }
}

impl Connections {
    /// Nobody is here at this time.
    pub fn new(now: Time) -> Self {
        Self {
            changed: now,
            ..Self::default()
        }
    }

    pub fn get(&self, name: &str) -> Option<&Connected> {
        self.parties.get(name)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Connected> {
        self.parties.get_mut(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.parties.contains_key(name)
    }

    /// How many parties are connected.
    pub fn len(&self) -> usize {
        self.parties.len()
    }

    /// The names of the connected parties.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.parties.keys()
    }

    /// The connected parties.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Connected)> {
        self.parties.iter()
    }

    pub fn server(&self, role: ServerRole) -> Option<&Connected> {
        self.servers.get(&role)
    }

    pub fn server_mut(&mut self, role: ServerRole) -> Option<&mut Connected> {
        self.servers.get_mut(&role)
    }

    /// The party at the other end of a connection.
    pub fn name_at(&self, link: LinkId) -> Option<&Arc<str>> {
        self.links.get(&link)
    }

    /// The server at the other end of a connection, if it is one.
    pub fn server_at(&self, link: LinkId) -> Option<ServerRole> {
        let mut servers = self.servers.iter();
        servers.find_map(|(role, server)| (server.link.id == link).then_some(*role))
    }

    /// When somebody last came or went.
    pub fn changed(&self) -> Time {
        self.changed
    }

    /// Who was lost since the latest round was offered, and may come back.
    pub fn lost(&self) -> Vec<String> {
        self.lost.iter().map(|name| name.to_string()).collect()
    }

    /// A round is offered: who was lost before is no news any more.
    pub fn forget_lost(&mut self) {
        self.lost.clear();
    }

    /// Whether a party of this name is here, or was lately.
    pub fn knows(&self, name: &str) -> bool {
        self.has(name) || self.lost.contains(name) || self.departed.has(name)
    }

    /// Decides whether a new connection replaces the one under its name ([`Presence::judge`]).
    pub fn judge(
        &mut self,
        hello: &pb::Hello,
        newer: &Link,
        grace: Duration,
    ) -> Result<bool, pb::Refused> {
        let older = self.parties.get(&newer.peer.name);
        let older = older.map(|member| &member.link);
        self.presence.judge(hello, newer, older, grace)
    }

    /// A party has been let in.
    pub fn enter(&mut self, name: &Arc<str>, member: Connected, now: Time) {
        self.lost.remove(name);
        self.departed.is_back(name);
        self.links.insert(member.link.id, name.clone());
        match self.parties.insert(name.clone(), member) {
            Some(older) => drop(self.links.remove(&older.link.id)),
            None => self.changed = now,
        }
    }

    /// The connection of a party has ended. `returns` says whether the party does not know that, and will come back: its
    /// lease runs on.
    pub fn leave(&mut self, link: LinkId, now: Time, returns: bool) {
        let Some(name) = self.links.remove(&link) else {
            return;
        };
        self.changed = now;
        let member = self.parties.remove(&name);
        if returns {
            self.lost.insert(name);
        } else if let Some(member) = member {
            member.link.release();
        }
    }

    /// A server has been let in; the one before it in its role, if there was one.
    pub fn enter_server(
        &mut self,
        role: ServerRole,
        server: Connected,
        now: Time,
    ) -> Option<Connected> {
        self.changed = now;
        self.servers.insert(role, server)
    }

    /// The connection of a server has ended.
    pub fn leave_server(&mut self, role: ServerRole, now: Time) {
        self.changed = now;
        self.servers.remove(&role);
    }

    /// Everybody goes: the job has ended here.
    pub fn dismiss(&mut self) -> impl Iterator<Item = Connected> + use<> {
        self.links.clear();
        for member in self.parties.values() {
            member.link.release();
        }
        let servers = std::mem::take(&mut self.servers).into_values();
        let parties = std::mem::take(&mut self.parties).into_values();
        parties.chain(servers)
    }

    /// The parties and the servers.
    pub fn everybody(&self) -> impl Iterator<Item = &Connected> {
        self.parties.values().chain(self.servers.values())
    }

    /// What was sent of the model before does not count.
    pub fn forget_model(&mut self) {
        for member in self.parties.values_mut() {
            member.model_sent = None;
        }
    }

    /// Whether every server that the job needs is connected, and the party whose vector is the root, if there is one.
    pub fn has_needed(&self, job: &Job) -> bool {
        let root = job.spec().root();
        job.servers().all(|role| self.servers.contains_key(&role))
            && root.is_none_or(|root| self.has(root))
    }

    /// Those that are not.
    fn missing_needed(&self, job: &Job) -> String {
        let needed = job.servers();
        let missing = needed.filter(|role| !self.servers.contains_key(role));
        let mut names: Vec<String> = missing.map(|role| format!("the {role}")).collect();
        let root = job.spec().root().filter(|root| !self.has(root));
        names.extend(
            root.map(|root| format!("the party {root}, with whose vector the others are compared")),
        );
        names.join(" and ")
    }

    /// Why no round begins without those that are not here, or not ready.
    pub fn lacks_needed(&self, job: &Job) -> String {
        let missing = self.missing_needed(job);
        if let (true, Some(root)) = (missing.is_empty(), job.spec().root()) {
            return format!(
                "no round begins without the party {root}: it is connected, but not ready"
            );
        }
        format!("no round begins without {missing}: not connected yet")
    }

    /// The key exchange of TLS on each connection.
    pub fn key_exchange(&self) -> BTreeMap<String, String> {
        let of = |name: String, member: &Connected| {
            let key_exchange = member.link.peer.traffic.key_exchange();
            (name, key_exchange.to_owned())
        };
        let parties = self.parties.iter();
        let parties = parties.map(|(name, member)| of(name.to_string(), member));
        let servers = self.servers.iter();
        let servers = servers.map(|(role, server)| of(role.to_string(), server));
        parties.chain(servers).collect()
    }

    /// Says once that rounds are always of the same parties where more are here than a round takes.
    pub fn watch_crowd(&mut self, context: &Context, is_hosted: bool) {
        let (here, most) = (self.len(), context.spec().parties as usize);
        let chooses = context.settings().choice != Choice::First || is_hosted;
        if here <= most || self.crowd_told || chooses {
            return;
        }
        self.crowd_told = true;
        warn!(
            job = %context.name,
            "{here} parties are connected, and a round takes {most}: those that are ready first, so others may never take \
             part; set choice to turns or random (--choice of blindsum serve), or raise parties in a new job"
        );
    }

    /// Counts what went over a party's connection since it was last counted, for the round under way.
    pub fn settle(&mut self, name: &str, running: Option<&mut Running>) {
        let Some(member) = self.parties.get_mut(name) else {
            return;
        };
        let traffic = &member.link.peer.traffic;
        let (up, down) = (traffic.read(), traffic.written());
        if let Some(running) = running.filter(|running| running.id(name).is_some()) {
            let wire = running.report.wire.entry(name.into()).or_default();
            wire.up += up - member.counted.up;
            wire.down += down - member.counted.down;
        }
        member.counted = report::Bytes { up, down };
    }

    /// Tells one party that the round goes on without it, and without its vector.
    pub fn tell_dropped(&self, round: u64, name: &str, reason: &str) {
        self.tell_gone(round, name, reason, false);
    }

    /// Tells one party that the round goes on without it. Where its vector may be in the sum, nobody knows yet whether it
    /// counts.
    pub fn tell_gone(&self, round: u64, name: &str, reason: &str, may_count: bool) {
        if let Some(member) = self.get(name) {
            let frame = pb::RoundAborted {
                round,
                only_you: true,
                reason: reason.into(),
                counted: false,
                unknown: may_count,
            };
            member.link.frame(frame.into());
        }
    }

    /// Tells every party that knows the frame why operators let no round begin, or that the job goes on. A party that
    /// connects hears it in its `Welcome`.
    pub fn tell_held(&self, reason: &str) {
        let reason = reason.into();
        let frame = pb::CoordinatorFrame::from(pb::JobHeld { reason });
        for member in self.parties.values().filter(|member| member.knows_held) {
            member.link.frame(frame.clone());
        }
    }

    /// Tells all parties and servers something.
    pub fn tell_everybody(&self, frame: &CoordinatorFrame) {
        for member in self.everybody() {
            member.link.frame(frame.clone());
        }
    }

    /// Tells one server something.
    pub fn tell_server(&self, role: ServerRole, frame: CoordinatorFrame) {
        if let Some(server) = self.servers.get(&role) {
            server.link.frame(frame);
        }
    }

    /// The servers hear that a round is over.
    pub fn end_for_servers(&self, round: u64, reason: &str, counted: bool) {
        for role in self.servers.keys() {
            self.tell_server(*role, over(round, reason, counted).into());
        }
    }
}

/// The frame that says that a round is over.
pub(super) fn over(round: u64, reason: &str, counted: bool) -> pb::RoundAborted {
    pb::RoundAborted {
        round,
        only_you: false,
        reason: reason.into(),
        counted,
        unknown: false,
    }
}
