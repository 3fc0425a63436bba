//! A CA, coordinators and parties on loopback, for the tests of this folder.
#![allow(dead_code)]

pub mod dial;
mod encoded;
pub mod etcd;
pub mod fake;
pub mod http2;
pub mod intermediate;
pub mod logs;
pub mod play;
pub mod proxy;
pub mod raw;
pub mod scene;
pub mod three;

use std::future::Future;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
use blindsum_crypto::sign::Algorithm;
use blindsum_net::coordinator::{Choice, Config, Control, Coordinator, JobConfig};
use blindsum_net::orders::{Command, Order, OrderError, Outcome};
use blindsum_net::party::{Party, PartyConfig, Policy, RoundResult, Update};
use blindsum_net::report::{JobState, JobStatus};
use blindsum_net::{Credentials, JobError, Limits, Membership, NetError};
use blindsum_protocol::{Fixed64, JobSpec, ModelUpdate, ProtocolName, RuleName};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose};

/// Everything a test gives up after: far longer than anything takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// A CA and what it has issued.
pub struct Pki {
    ca: CertificateAuthority,
    rng: std::sync::Mutex<ChaCha20Rng>,
}

impl Pki {
    pub fn new(seed: u64) -> Self {
        logs::begin();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let validity = Validity::days(now() - 86_400, 10);
        let name = format!("test CA {seed}");
        let ca = CertificateAuthority::create(&name, Algorithm::Ed25519, validity, &mut rng);
        Self {
            ca: ca.unwrap(),
            rng: rng.into(),
        }
    }

    pub fn ca_pem(&self) -> &str {
        self.ca.certificate()
    }

    pub fn issue(&self, name: &str, kind: &Kind, validity: Validity) -> Credentials {
        let mut rng = self.rng.lock().unwrap();
        let algorithm = Algorithm::Ed25519;
        let credential = self
            .ca
            .issue(name, kind, algorithm, validity, &mut *rng)
            .unwrap();
        Credentials::new(credential.certificate, &**credential.key, self.ca_pem())
    }

    /// A certificate for a request; the key is not here.
    pub fn sign(&self, request: &str, name: &str, validity: Validity) -> Credentials {
        let mut rng = self.rng.lock().unwrap();
        let signed = self
            .ca
            .sign_request(request, name, &Kind::Party, validity, &mut *rng);
        Credentials::new(signed.unwrap(), "", self.ca_pem())
    }

    pub fn party(&self, name: &str) -> Credentials {
        self.issue(name, &Kind::Party, Validity::days(now() - 60, 1))
    }

    pub fn coordinator(&self) -> Credentials {
        let hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        self.issue(
            "coordinator",
            &Kind::Coordinator { hosts },
            Validity::days(now() - 60, 1),
        )
    }

    /// That of a server that computes with the coordinator.
    pub fn server(&self, host: &str) -> Credentials {
        let hosts = vec![host.to_owned()];
        let kind = Kind::Server { hosts };
        self.issue("server", &kind, Validity::days(now() - 60, 1))
    }

    /// A certificate for these extended key usages, as no command of ours makes one.
    pub fn unusual(&self, name: &str, usages: &[ExtendedKeyUsagePurpose]) -> Credentials {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages.to_vec();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer()).unwrap();
        Credentials::new(certificate.pem(), key.serialize_pem(), self.ca_pem())
    }

    /// What signs by another library than the product's own.
    pub fn issuer(&self) -> Issuer<'static, KeyPair> {
        let key = KeyPair::from_pem(&self.ca.key().unwrap()).unwrap();
        Issuer::from_ca_cert_pem(self.ca_pem(), key).unwrap()
    }

    /// A list that revokes these certificates.
    pub fn revoke(&self, revoked: &[&Credentials]) -> String {
        let serials: Vec<String> = revoked
            .iter()
            .map(|c| {
                blindsum_crypto::pki::describe(&c.certificate)
                    .unwrap()
                    .serial
            })
            .collect();
        let serials: Vec<&str> = serials.iter().map(String::as_str).collect();
        self.ca
            .revoke(&serials, 1, Validity::days(now() - 60, 1))
            .unwrap()
    }
}

/// A job whose sums are exact for multiples of 2^-16, with deadlines that a test can wait for.
pub fn spec(protocol: ProtocolName, parties: u32) -> JobSpec {
    JobSpec {
        job: "test".into(),
        protocol: protocol.into(),
        parties,
        // Against active adversaries, no sum is that of one honest party.
        min_parties: match protocol {
            ProtocolName::Plain | ProtocolName::Flashe => 2,
            _ => 3,
        },
        dim: 5,
        rounds: 1,
        encoding: Fixed64 {
            clip: 1000.0,
            max_weight: 10,
            ..Default::default()
        }
        .into(),
        join_deadline: 1.0,
        stage_deadline: 1.0,
        input_deadline: 2.0,
        ..JobSpec::default()
    }
}

pub fn limits() -> Limits {
    Limits {
        reconnect_grace: 0.2,
        handshake_timeout: 0.5,
        hello_timeout: 0.5,
        chunk_timeout: 0.5,
        keepalive: 1.0,
        failed_rounds: 3,
        ..Limits::default()
    }
}

/// A coordinator in a runtime of its own, so that it can be stopped, or killed as a process is.
pub struct Running {
    pub port: u16,
    runtime: Option<tokio::runtime::Runtime>,
    coordinator: Option<Coordinator>,
}

impl Running {
    pub fn start(pki: &Pki, specs: Vec<JobSpec>, store: Option<&Path>) -> Self {
        Self::with(config(pki, specs, store)).unwrap()
    }

    pub fn with(config: Config) -> Result<Self, NetError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let coordinator = runtime.block_on(Coordinator::start(config))?;
        Ok(Self {
            port: coordinator.address().port(),
            runtime: Some(runtime),
            coordinator: Some(coordinator),
        })
    }

    pub fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    /// Orders something of a job; gives what becomes of it.
    pub fn order(&self, job: &str, command: Command) -> Result<Outcome, OrderError> {
        let control = self.coordinator.as_ref().unwrap().control();
        let order = Order {
            command,
            by: "olga".into(),
            reason: "a test".into(),
        };
        self.block_on(control.order(job, order))
    }

    /// Where operators connect.
    pub fn admin_url(&self) -> String {
        let address = self.coordinator.as_ref().unwrap().admin().unwrap();
        format!("https://localhost:{}", address.port())
    }

    /// Makes the coordinator read its files again; whether they can be used.
    pub fn reload(&self) -> bool {
        self.coordinator.as_ref().unwrap().reload().reload()
    }

    /// Gives orders to the coordinator.
    pub fn control(&self) -> Control {
        self.coordinator.as_ref().unwrap().control()
    }

    /// Waits for something in the coordinator's runtime.
    pub fn block_on<T>(&self, wait: impl Future<Output = T>) -> T {
        self.runtime.as_ref().unwrap().block_on(wait)
    }

    /// Whether somebody who begins to watch a job hears at once where it stands.
    pub fn has_news(&self, job: &str) -> bool {
        let status = self.coordinator.as_ref().unwrap().status(job).unwrap();
        status.has_changed().unwrap()
    }

    /// The status of a job once `wanted` holds.
    pub fn wait(&self, job: &str, wanted: impl FnMut(&JobStatus) -> bool) -> JobStatus {
        let mut status = self.coordinator.as_ref().unwrap().status(job).unwrap();
        let wait = async {
            let came = tokio::time::timeout(PATIENCE, status.wait_for(wanted)).await;
            came.ok().map(|came| came.unwrap().clone())
        };
        let came = self.runtime.as_ref().unwrap().block_on(wait);
        came.unwrap_or_else(|| panic!("the job never came there: {:?}", status.borrow()))
    }

    pub fn wait_done(&self, job: &str) -> JobStatus {
        self.wait(job, |status| status.state != JobState::Running)
    }

    /// Waits until the coordinator is done, as a program does that ends with its jobs.
    pub fn finish(mut self) -> Result<(), NetError> {
        let mut coordinator = self.coordinator.take().unwrap();
        let finish = async {
            let finished = tokio::time::timeout(PATIENCE, coordinator.finished()).await;
            finished.expect("it is never done");
            coordinator.stop().await
        };
        self.runtime.take().unwrap().block_on(finish)
    }

    pub fn stop(mut self) -> Result<(), NetError> {
        let stop = self.coordinator.take().unwrap().stop();
        self.runtime.take().unwrap().block_on(stop)
    }

    /// Ends everything at once, without a word to anybody.
    pub fn kill(mut self) {
        let runtime = self.runtime.take().unwrap();
        let coordinator = self.coordinator.take().unwrap();
        runtime.block_on(async { drop(coordinator) });
        runtime.shutdown_timeout(Duration::from_secs(1));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let (Some(runtime), Some(coordinator)) = (self.runtime.take(), self.coordinator.take()) {
            runtime.block_on(async { drop(coordinator) });
            runtime.shutdown_background();
        }
    }
}

pub fn config(pki: &Pki, specs: Vec<JobSpec>, store: Option<&Path>) -> Config {
    let job = |spec| JobConfig {
        spec,
        initial_model: None,
        results: None,
        hosted: false,
    };
    Config {
        listen: "127.0.0.1:0".into(),
        credentials: pki.coordinator(),
        store: store.map(Path::to_owned),
        audit: None,
        jobs: specs.into_iter().map(job).collect(),
        servers: Vec::new(),
        limits: limits(),
        stop_when_done: false,
        membership: Membership::default(),
        admin: None,
        choice: Choice::First,
        change: 1,
    }
}

/// A policy that takes every job of these tests.
pub fn lenient() -> Policy {
    Policy {
        allowed_protocols: ProtocolName::ALL.to_vec(),
        allowed_rules: RuleName::ALL.to_vec(),
        require_adversary: None,
        min_corrupt: 0.0,
        min_honest: 0,
        min_cohort: 2,
        ..Policy::default()
    }
}

pub fn party_config(url: &str, credentials: Credentials) -> PartyConfig {
    PartyConfig {
        give_up_after: 5.0,
        keepalive: 1.0,
        policy: lenient(),
        ..PartyConfig::new(url, "test", credentials)
    }
}

/// A job of which only the parties learn sums: three of them, of which one may be lost.
pub fn flashe(rounds: u32) -> JobSpec {
    JobSpec {
        rounds,
        min_parties: 2,
        model_update: ModelUpdate::Add,
        input_deadline: 20.0,
        ..spec(ProtocolName::Flashe, 3)
    }
}

/// A party that remembers things in a folder.
pub fn config_in(folder: &Path, url: &str, credentials: &Credentials) -> PartyConfig {
    PartyConfig {
        state_dir: Some(folder.to_owned()),
        ..party_config(url, credentials.clone())
    }
}

/// Parties that remember nothing.
pub fn join(pki: &Pki, url: &str, names: &[&str]) -> Vec<Party> {
    let join = |name: &&str| Party::join(party_config(url, pki.party(name))).unwrap();
    names.iter().map(join).collect()
}

/// Joins, as soon as the earlier party with the same state folder has ended.
pub fn join_again(config: impl Fn() -> PartyConfig) -> Party {
    for _ in 0..200 {
        match Party::join(config()) {
            Err(NetError::Job(JobError::State { reason, .. }))
                if reason.contains("another process") =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            party => return party.unwrap(),
        }
    }
    panic!("the state folder is never free");
}

/// What happened to a party, round by round.
pub type Rounds = Vec<Result<RoundResult, NetError>>;

/// A party that plays on a thread of its own.
pub type Played = JoinHandle<Result<Rounds, NetError>>;

/// A party on a thread of its own that gives `update(round)` with weight 1 until the job is done, and
/// tells what became of each round.
pub fn run_party<U: Into<Update>>(
    config: PartyConfig,
    update: impl Fn(u64) -> U + Send + 'static,
) -> Played {
    std::thread::spawn(move || {
        let mut party = Party::join(config)?;
        let mut rounds = Vec::new();
        while let Some(mut round) = party.next_round()? {
            let submitted = round.submit(update(round.number()), 1);
            rounds.push(match submitted {
                Ok(()) => round.result(),
                Err(error) => Err(error),
            });
        }
        Ok(rounds)
    })
}

/// Vectors whose mean is exact.
pub fn constant(value: f32) -> impl Fn(u64) -> Vec<f32> + Send + 'static {
    move |_| vec![value; 5]
}

/// A coordinator of one round of plain sums for up to three parties.
pub fn coordinator(pki: &Pki) -> Running {
    Running::start(pki, vec![spec(ProtocolName::Plain, 3)], None)
}

/// Two others still do a round.
pub fn honest_round_works(pki: &Pki, coordinator: &Running) {
    let party = |name| {
        run_party(
            party_config(&coordinator.url(), pki.party(name)),
            constant(3.0),
        )
    };
    for party in [party("honest-1"), party("honest-2")] {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.last().unwrap().as_ref().unwrap().mean, [3.0; 5]);
    }
}
