//! The servers of an episode that compute with the coordinator: their machines and their disks.

use std::sync::Arc;

use blindsum_crypto::sign::IdentityKey;
use blindsum_job::follower::{CurrentIdentity, Effect, Input, Parts, ServerMachine};
use blindsum_job::machine::Step;
use blindsum_job::records::Records;
use blindsum_protocol::{ServerIdentity, ServerRole};

use super::agenda::{Event, Who};
use super::disk::Disk;
use super::parties::frames;
use super::promises::LAST_ROUND;
use super::{Broken, Kind, World};
use crate::seeds::seed_bytes;

/// A server that is not the coordinator, alive or not.
pub(super) struct Follower {
    pub name: Arc<str>,
    pub key: Arc<IdentityKey>,
    pub certificate: Arc<[u8]>,
    pub disk: Arc<Disk>,
    /// How many records it had written when that was looked at last.
    pub written: u64,
    /// The latest round that it was seen to begin.
    pub begun: u64,
    pub machine: Option<ServerMachine>,
    /// How often it was started.
    pub life: u32,
    /// Its connection to the coordinator, where it thinks that it has one.
    pub link: Option<u64>,
    /// Whether it has heard that the job is done.
    pub over: bool,
}

impl Follower {
    pub fn new(name: &str, certificate: &[u8], key: &Arc<IdentityKey>) -> Self {
        Self {
            name: name.into(),
            key: key.clone(),
            certificate: certificate.into(),
            disk: Arc::default(),
            written: 0,
            begun: 0,
            machine: None,
            life: 0,
            link: None,
            over: false,
        }
    }
}

/// A certificate that is never renewed.
fn always(identity: Arc<ServerIdentity>) -> CurrentIdentity {
    Arc::new(move || identity.clone())
}

impl World {
    pub(super) fn follower(&mut self, role: ServerRole) -> Option<&mut ServerMachine> {
        self.followers.get_mut(&role)?.machine.as_mut()
    }

    /// A server is started, perhaps with records of an earlier time.
    pub(super) fn start_follower(&mut self, role: ServerRole) -> Result<(), Broken> {
        let now = self.now();
        let back = self.dice.chance(self.faults.rollback);
        let back = back.then(|| 1 + self.dice.below(4));
        let Some(server) = self.followers.get_mut(&role).filter(|it| !it.over) else {
            return Ok(());
        };
        let back = back.filter(|_| server.life > 0);
        if let Some(changes) = back {
            server.disk = Arc::new(server.disk.restored(changes));
            self.tally.rollbacks += 1;
        }
        server.life += 1;
        server.written = server.disk.written();
        let record = server.disk.read(LAST_ROUND).ok().flatten();
        let number = record.and_then(|bytes| bytes.try_into().ok());
        server.begun = number.map_or(0, u64::from_be_bytes);
        let numbers = [self.seed, u64::from(server.life)];
        let entropy = seed_bytes(&role.to_string(), &numbers);
        let parts = Parts {
            job: self.job.clone(),
            role,
            name: server.name.to_string(),
            identity: self.key_service.clone().map(always),
            anchor: self.anchor.clone(),
            records: server.disk.clone(),
            results: role.place().and_then(|place| self.learnt.results(place)),
        };
        server.machine = Some(ServerMachine::open(parts, now, entropy));
        if let Some(changes) = back {
            self.log(format!(
                "the {role} comes back with records of {changes} changes ago"
            ));
        }
        self.connect_later(Who::Follower(role));
        if let Some(place) = role.place() {
            self.dial_from(place);
        }
        self.serve_follower(role)
    }

    /// Hands something in, where the server lives, and does what it wants done.
    pub(super) fn hand_follower(&mut self, role: ServerRole, input: Input) -> Result<(), Broken> {
        let now = self.now();
        if let Some(machine) = self.follower(role) {
            machine.handle(now, input);
        }
        self.serve_follower(role)
    }

    /// Does what a server wants done, unless it is killed before.
    pub(super) fn serve_follower(&mut self, role: ServerRole) -> Result<(), Broken> {
        while let Some(step) = self.follower(role).and_then(ServerMachine::poll) {
            if self.dice.chance(self.faults.kill) {
                self.kill(Who::Follower(role));
                return Ok(());
            }
            match step {
                Step::Work(task) => self.task_begins(Who::Follower(role), task),
                Step::Effect(effect) => self.carry_out_follower(role, effect)?,
            }
        }
        let wake = self.follower(role).and_then(|machine| machine.wake());
        self.wake_later(Who::Follower(role), wake);
        Ok(())
    }

    fn carry_out_follower(&mut self, role: ServerRole, effect: Effect) -> Result<(), Broken> {
        let who = Who::Follower(role);
        let link = self.link_of(who);
        match effect {
            Effect::Send(on, say) => {
                for frame in frames(say) {
                    self.note_word(role, &frame)?;
                    self.send_up(link.filter(|link| *link == on.0), frame);
                }
            }
            Effect::Uploaded(id, what) => self.upload_over(id, what)?,
            Effect::Letter { to, round, letter } => {
                if let Some(place) = role.place() {
                    self.say_letter(place, to, round, letter)?;
                }
            }
            Effect::Reconnect(on, _) if link != Some(on.0) => {}
            Effect::Reconnect(_, reason) => {
                self.log(format!("the {role} connects again: {reason}"));
                self.hang_up(who);
                self.connect_later(who);
            }
            Effect::Over(Ok(())) => {
                self.end_follower(role);
                if let Some(server) = self.followers.get_mut(&role) {
                    server.over = true;
                }
            }
            Effect::Over(Err(error)) => {
                if self.kind != Kind::LyingServer {
                    return Err(self.broken(format!("P5: the {role} fails for good: {error}")));
                }
                self.log(format!("the {role} fails: {error}"));
                self.end_follower(role);
                let at = self.time + self.dice.below(4_000_000);
                self.agenda.push(at, Event::Start(who));
            }
        }
        Ok(())
    }

    /// The process of a server ends by itself.
    fn end_follower(&mut self, role: ServerRole) {
        if let Some(server) = self.followers.get_mut(&role) {
            server.machine = None;
        }
        self.hang_up(Who::Follower(role));
        self.silence(role);
    }

    /// What a server has under way with others than the coordinator ends with its process.
    pub(super) fn silence(&mut self, role: ServerRole) {
        self.uploads_lost(role);
        if let Some(place) = role.place() {
            self.lines_end(place);
        }
    }
}
