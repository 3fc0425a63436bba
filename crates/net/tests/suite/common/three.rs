//! Three servers of a job on loopback addresses of their own, each behind a relay for everybody who reaches it.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use blindsum_net::follower::{Follower, FollowerConfig};
use blindsum_net::party::PartyConfig;
use blindsum_net::{Credentials, NetError};
use blindsum_protocol::{Adversary, JobSpec, ProtocolName};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::proxy::{Proxy, Way};
use super::{PATIENCE, Pki, Played, Running, config, limits, party_config, run_party, spec};

/// The hosts of the second and the third server.
pub const HOSTS: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

/// Those of parties, and what each gives in every round.
pub const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
pub const VALUES: [f32; 5] = [1.0, 2.5, -0.5, 0.25, 4.0];

/// The mean of the first `parties` of them.
pub fn mean(parties: usize) -> Vec<f64> {
    let sum: f32 = VALUES.iter().take(parties).sum();
    vec![f64::from(sum) / parties as f64; 5]
}

/// A job of three servers and five parties, of which two may be lost.
pub fn mpc3(rounds: u32) -> JobSpec {
    JobSpec {
        adversary: Adversary::Active,
        corrupt: 0.2,
        dropout: 0.4,
        min_parties: 3,
        rounds,
        join_deadline: 5.0,
        stage_deadline: 20.0,
        input_deadline: 20.0,
        ..spec(ProtocolName::Mpc3, 5)
    }
}

/// The second or third server in a runtime of its own.
pub struct Serving {
    pub port: u16,
    runtime: Option<Runtime>,
    follower: Option<Follower>,
}

impl Serving {
    pub fn with(config: FollowerConfig) -> Result<Self, NetError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let follower = runtime.block_on(Follower::start(config))?;
        Ok(Self {
            port: follower.address().port(),
            runtime: Some(runtime),
            follower: Some(follower),
        })
    }

    pub fn stop(mut self) -> Result<(), NetError> {
        let stop = self.follower.take().unwrap().stop();
        self.runtime.take().unwrap().block_on(stop)
    }

    /// Waits for the end of its job.
    pub fn finish(mut self) -> Result<(), NetError> {
        let mut follower = self.follower.take().unwrap();
        let finish = async {
            let finished = tokio::time::timeout(PATIENCE, follower.finished()).await;
            finished.expect("its job is never over");
            follower.stop().await
        };
        self.runtime.take().unwrap().block_on(finish)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let (Some(runtime), Some(follower)) = (self.runtime.take(), self.follower.take()) {
            runtime.block_on(async { drop(follower) });
            runtime.shutdown_background();
        }
    }
}

pub struct Three {
    pub pki: Pki,
    pub spec: JobSpec,
    /// What everybody but the third server reaches the servers through.
    pub proxies: [Proxy; 3],
    /// What the third server reaches the first two through.
    pub of_third: [Proxy; 2],
    pub coordinator: Running,
    pub others: [Option<Serving>; 2],
    /// What the second and the third server show.
    pub credentials: [Credentials; 2],
    folder: TempDir,
}

impl Three {
    pub fn new(spec: JobSpec) -> Self {
        Self::with(spec, |pki, place| match place {
            0 => pki.coordinator(),
            place => pki.server(HOSTS[place - 1]),
        })
    }

    /// The same where each server shows what is made for its place.
    pub fn with(spec: JobSpec, credentials: impl Fn(&Pki, usize) -> Credentials) -> Self {
        let (pki, folder) = (Pki::new(1), tempfile::tempdir().unwrap());
        let [second, third] = HOSTS;
        let proxies = [
            Proxy::at("127.0.0.1", 0),
            Proxy::at(second, 0),
            Proxy::at(third, 0),
        ];
        let of_third = [Proxy::at("127.0.0.1", 0), Proxy::at(second, 0)];
        let mut config = config(&pki, vec![spec.clone()], None);
        config.servers = urls([&proxies[0], &proxies[1], &proxies[2]]);
        config.limits.failed_rounds = 20;
        config.credentials = credentials(&pki, 0);
        let coordinator = Running::with(config).unwrap();
        let mut three = Self {
            credentials: [1, 2].map(|place| credentials(&pki, place)),
            pki,
            spec,
            proxies,
            of_third,
            coordinator,
            others: [None, None],
            folder,
        };
        for proxy in [&three.proxies[0], &three.of_third[0]] {
            proxy.lead(Way::To(three.coordinator.port));
        }
        for place in [1, 2] {
            three.start(place);
        }
        three
    }

    /// The URLs of the servers as this one reaches them.
    pub fn urls_of(&self, place: u8) -> Vec<String> {
        let [first, second, third] = &self.proxies;
        match place {
            2 => urls([&self.of_third[0], &self.of_third[1], third]),
            _ => urls([first, second, third]),
        }
    }

    pub fn follower_config(&self, place: u8) -> FollowerConfig {
        FollowerConfig {
            job: self.spec.clone(),
            servers: self.urls_of(place),
            place,
            listen: "127.0.0.1:0".into(),
            credentials: self.credentials[usize::from(place) - 1].clone(),
            state_dir: self.state_dir(place),
            results: None,
            limits: limits(),
        }
    }

    pub fn state_dir(&self, place: u8) -> PathBuf {
        self.folder.path().join(place.to_string())
    }

    /// Starts the second or third server, at first or again.
    pub fn start(&mut self, place: u8) {
        let serving = Serving::with(self.follower_config(place)).unwrap();
        let way = Way::To(serving.port);
        self.proxies[usize::from(place)].lead(way);
        self.others[usize::from(place) - 1] = Some(serving);
        self.lead_third();
    }

    /// The third server reaches the second one, where that is there.
    pub fn lead_third(&self) {
        if let Some(second) = &self.others[0] {
            self.of_third[1].lead(Way::To(second.port));
        }
    }

    pub fn stop(&mut self, place: u8) {
        let serving = self.others[usize::from(place) - 1].take();
        serving.unwrap().stop().unwrap();
    }

    pub fn party_config(&self, credentials: Credentials) -> PartyConfig {
        let servers = self.urls_of(0);
        PartyConfig {
            servers: servers.clone(),
            give_up_after: 60.0,
            ..party_config(&servers[0], credentials)
        }
    }

    /// The first so many parties, which give their values in every round.
    pub fn parties(&self, count: usize) -> Vec<Played> {
        (0..count).map(|i| self.party(i, |_| {})).collect()
    }

    /// One of them, which calls `before` each update.
    pub fn party(&self, i: usize, before: impl Fn(u64) + Send + 'static) -> Played {
        let config = self.party_config(self.pki.party(NAMES[i]));
        run_party(config, move |round| {
            before(round);
            vec![VALUES[i]; 5]
        })
    }

    /// A party that tells of each round and gives its update when it is let.
    pub fn held_party(&self, i: usize) -> (Played, Receiver<u64>, Sender<()>) {
        let (told, rounds) = channel();
        let (goes_on, waits) = channel();
        let party = self.party(i, move |round| {
            let _ = told.send(round);
            let _ = waits.recv_timeout(Duration::from_secs(60));
        });
        (party, rounds, goes_on)
    }
}

fn urls(proxies: [&Proxy; 3]) -> Vec<String> {
    let hosts = ["localhost", HOSTS[0], HOSTS[1]];
    let url = |(proxy, host): (&Proxy, &str)| format!("https://{host}:{}", proxy.port);
    proxies.into_iter().zip(hosts).map(url).collect()
}
