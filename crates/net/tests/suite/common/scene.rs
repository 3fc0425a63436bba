//! A job whose parties lose their link at a moment that a test chooses.

use std::thread::JoinHandle;

use blindsum_net::NetError;
use blindsum_net::coordinator::Config;
use blindsum_net::party::{PartyConfig, Update};
use blindsum_protocol::JobSpec;
use tempfile::TempDir;

use super::proxy::Proxy;
use super::{Pki, Rounds, Running, config, party_config, run_party};

/// Parties behind a link that is lost at the worst moment, and one that speaks last, so that a test chooses
/// the moment.
pub struct Scene {
    pub pki: Pki,
    pub folder: TempDir,
    pub spec: JobSpec,
    pub coordinator: Option<Running>,
    pub proxy: Proxy,
    pub change: fn(&mut Config),
}

pub type Away = JoinHandle<Result<Rounds, NetError>>;

impl Scene {
    pub fn new(spec: JobSpec, change: fn(&mut Config)) -> Self {
        let (pki, folder) = (Pki::new(1), tempfile::tempdir().unwrap());
        let spec = JobSpec {
            join_deadline: 2.0,
            stage_deadline: 20.0,
            input_deadline: 20.0,
            ..spec
        };
        let mut scene = Self {
            proxy: Proxy::to(0),
            pki,
            folder,
            spec,
            coordinator: None,
            change,
        };
        scene.start(0);
        scene.proxy = Proxy::to(scene.coordinator().port);
        scene
    }

    pub fn start(&mut self, port: u16) {
        let store = self.folder.path().join("store.db");
        let mut config = config(&self.pki, vec![self.spec.clone()], Some(&store));
        config.listen = format!("127.0.0.1:{port}");
        (self.change)(&mut config);
        self.coordinator = Some(Running::with(config).unwrap());
    }

    pub fn coordinator(&self) -> &Running {
        self.coordinator.as_ref().unwrap()
    }

    /// The coordinator is killed and comes back with its store.
    pub fn restart(&mut self) {
        let coordinator = self.coordinator.take().unwrap();
        let port = coordinator.port;
        coordinator.kill();
        self.start(port);
    }

    pub fn config(&self, name: &str, url: &str) -> PartyConfig {
        PartyConfig {
            give_up_after: 600.0,
            ..party_config(url, self.pki.party(name))
        }
    }

    /// A party behind the link.
    pub fn away<U: Into<Update>>(
        &self,
        name: &str,
        update: impl Fn(u64) -> U + Send + 'static,
    ) -> Away {
        run_party(self.config(name, &self.proxy.url()), update)
    }

    /// A party whose link is not lost.
    pub fn near<U: Into<Update>>(
        &self,
        name: &str,
        update: impl Fn(u64) -> U + Send + 'static,
    ) -> Away {
        run_party(self.config(name, &self.coordinator().url()), update)
    }

    /// Until one party alone is waited for in a stage of a sum.
    pub fn wait_for(&self, last: &str, stage: u8) {
        self.coordinator().wait("test", |status| {
            let round = status.round.as_ref();
            let here = round.is_some_and(|round| {
                !round.key_setup && round.stages.len() == usize::from(stage) + 1
            });
            here && status.waiting_for == [last]
        });
    }

    /// The link is lost, and the coordinator has noticed.
    pub fn interrupt(&self, away: &[&str]) {
        self.proxy.interrupt();
        self.coordinator().wait("test", |status| {
            let gone = |name: &&str| !status.connected.iter().any(|there| there == name);
            away.iter().all(gone)
        });
    }
}
