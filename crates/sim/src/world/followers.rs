//! The servers of an episode that are not the coordinator: their disks.

use std::sync::Arc;

use blindsum_crypto::sign::IdentityKey;
use blindsum_job::JobError;
use blindsum_job::coordinator::Peer;
use blindsum_job::follower::{CurrentIdentity, Parts, ServerMachine};
use blindsum_job::records::Records;
use blindsum_job::session::Count;
use blindsum_protocol::{ServerIdentity, ServerRole};

use super::disk::Disk;
use super::promises::LAST_ROUND;
use super::{Broken, Episode, Kind};
use crate::engine::{Engine, Micros};
use crate::seeds::seed_bytes;

/// A server that is not the coordinator.
pub(super) struct Server {
    pub name: String,
    pub disk: Arc<Disk>,
    /// How many records it had written when that was looked at last.
    pub written: u64,
    /// The latest round that it was seen to begin.
    pub begun: u64,
    /// Whether the task that ended last has opened a result.
    pub opened: bool,
}

impl Server {
    pub fn new(name: String) -> Self {
        Self {
            name,
            disk: Arc::default(),
            written: 0,
            begun: 0,
            opened: false,
        }
    }

    /// Whom the coordinator sees at the other end of its connections.
    pub fn peer(&self, role: ServerRole, certificate: &[u8], key: &IdentityKey) -> Peer {
        Peer {
            name: self.name.as_str().into(),
            role: Some(role),
            address: role.to_string(),
            certificate: certificate.into(),
            key: key.verifying_key().clone(),
            traffic: Arc::<Count>::default(),
        }
    }
}

/// A certificate that is never renewed.
fn always(identity: Arc<ServerIdentity>) -> CurrentIdentity {
    Arc::new(move || identity.clone())
}

impl Episode {
    /// A server is started, perhaps with records of an earlier time.
    pub(super) fn start_server(
        &mut self,
        engine: &Engine,
        role: ServerRole,
    ) -> Option<ServerMachine> {
        let back = self.dice.chance(self.faults.rollback);
        let back = back.then(|| 1 + self.dice.below(4));
        let host = engine.followers.get(&role).filter(|it| !it.over)?;
        let server = self.servers.get_mut(&role)?;
        let back = back.filter(|_| host.life > 0);
        if let Some(changes) = back {
            server.disk = Arc::new(server.disk.restored(changes));
            self.tally.rollbacks += 1;
        }
        server.written = server.disk.written();
        let record = server.disk.read(LAST_ROUND).ok().flatten();
        let number = record.and_then(|bytes| bytes.try_into().ok());
        server.begun = number.map_or(0, u64::from_be_bytes);
        let setting = &self.setting;
        let numbers = [setting.seed, u64::from(host.life + 1)];
        let entropy = seed_bytes(&role.to_string(), &numbers);
        let parts = Parts {
            job: setting.job.clone(),
            role,
            name: server.name.clone(),
            identity: setting.key_service.clone().map(always),
            anchor: setting.anchor.clone(),
            records: server.disk.clone(),
            results: role.place().and_then(|place| self.learnt.results(place)),
        };
        if let Some(changes) = back {
            let comes_back =
                format_args!("the {role} comes back with records of {changes} changes ago");
            self.log(engine, comes_back);
        }
        Some(ServerMachine::open(parts, engine.now(), entropy))
    }

    /// A server has ended. Gives how long it stays away, where it comes back.
    pub(super) fn server_over(
        &mut self,
        engine: &Engine,
        role: ServerRole,
        end: Result<(), JobError>,
    ) -> Result<Option<Micros>, Broken> {
        let Err(error) = end else {
            return Ok(None);
        };
        if self.setting.kind != Kind::LyingServer {
            let what = format!("P5: the {role} fails for good: {error}");
            return Err(self.broken(engine, what));
        }
        self.log(engine, format_args!("the {role} fails: {error}"));
        Ok(Some(self.dice.below(4_000_000)))
    }
}
