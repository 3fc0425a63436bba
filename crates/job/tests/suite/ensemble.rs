//! A whole job in one place: coordinator, other servers and parties as machines, in virtual time, with members that are
//! killed and started again.

mod computing;
mod effects;
mod serving;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::pki::{CertificateAuthority, Kind};
use blindsum_crypto::sign::{Algorithm, IdentityKey};
use blindsum_job::JobError;
use blindsum_job::coordinator::{CoordinatorMachine, Input};
use blindsum_job::follower;
use blindsum_job::ledger::Budget;
use blindsum_job::machine::{Now, Time};
use blindsum_job::orders::{Change, Command, Order, OrderId};
use blindsum_job::party::{self, Identity, LinkId, PartyMachine, Say};
use blindsum_job::pb::{self, CoordinatorFrame};
use blindsum_job::report::RoundState;
use blindsum_job::store::MemoryStore;
use blindsum_protocol::{Job, JobSpec, ServerIndex, ServerRole};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use rustls_pki_types::{CertificateDer, pem::PemObject};

use crate::hosts::{BEGIN, Host, Machine, Trouble, open, policy, validity_of};
use crate::kept::{Filling, Kept};

/// Things that may happen until a job must be done.
const MAX_STEPS: usize = 200_000;
/// How long a host waits before it connects again.
const PAUSE: Duration = Duration::from_millis(100);

enum Event {
    ToServer(u64, Say),
    ToHost(u64, CoordinatorFrame),
    Connect(usize),
    Start(usize),
    Computing(computing::Event),
}

/// All of it.
pub struct Ensemble {
    job: Arc<Job>,
    anchor: Arc<TrustAnchor>,
    store: Arc<MemoryStore>,
    /// The results that the coordinator keeps.
    pub kept: Arc<Kept>,
    server: CoordinatorMachine,
    server_lives: u8,
    /// Parties first, then servers.
    pub hosts: Vec<Host>,
    pub now: Now,
    events: VecDeque<Event>,
    /// What happens later, and when.
    later: Vec<(Time, Event)>,
    /// A server that takes no upload for now.
    pub takes_no_uploads: Option<ServerRole>,
    /// A host that hears nothing and does nothing, and keeps its connection.
    pub frozen: Option<usize>,
    /// Parties that are ready for every round, and accuse somebody as soon as it begins.
    pub accuses: BTreeMap<usize, String>,
    /// What servers say to each other.
    pub lines: computing::Lines,
    /// Uploads that servers have not answered, by their numbers.
    uploads: BTreeMap<u64, computing::Upload>,
    /// Connections that hold, and whose they are.
    links: BTreeMap<u64, usize>,
    /// Of these, the ones on which the coordinator has said its last word.
    closed: BTreeSet<u64>,
    latest_link: u64,
    dice: ChaCha20Rng,
    /// One of so many things that happen kills a host; none where it is 0.
    pub kill_one_in: u64,
    /// The same for the coordinator.
    pub stop_one_in: u64,
    /// Whether every piece of a message to a host comes twice.
    pub echo: bool,
    /// One of so many frames to a host brings an older one of its connection before it.
    pub replay_one_in: u64,
    /// What each connection has brought.
    brought: BTreeMap<u64, Vec<CoordinatorFrame>>,
    /// What hosts were told in the place of a result.
    pub failures: Vec<(String, JobError)>,
    /// The latest roster that was fixed, as each host heard it.
    fixed: BTreeMap<usize, pb::RosterFixed>,
    /// The nonces that hosts opened, and for which rosters.
    pub opened: BTreeMap<(usize, Vec<u8>), Vec<pb::RosterFixed>>,
    /// The hosts that sent their vectors, and in which rounds.
    pub vectors: BTreeSet<(usize, u64)>,
    /// Why hosts refuse rounds or leave, as they say.
    pub reasons: Vec<(usize, String)>,
    /// Whether the coordinator says another version of the model to the other servers in each round.
    pub lies_of_version: bool,
    /// Whether the coordinator says nothing of what operators have changed of the job.
    pub hides_terms: bool,
    /// Whether the records of the first party can be written no more.
    pub full: Arc<AtomicBool>,
    /// The smallest cohort that the policy of the first party takes.
    pub min_cohort: usize,
    /// What the data of the first party may cost.
    pub budget: Option<Budget>,
    /// Bytes of masks that parties compute ahead.
    pub mask_memory: usize,
    /// What the first party trusts, once it is started again with something else.
    pub newer_anchor: Option<Arc<TrustAnchor>>,
    /// The CA of all.
    pub ca: CertificateAuthority,
    /// How many tasks of the coordinator are done before one that ends without a result; it may end then.
    pub server_breaks: Option<usize>,
    /// Whether a task of the coordinator has ended so.
    pub server_broke: bool,
}

impl Ensemble {
    pub fn new(spec: JobSpec, seed: u64) -> Self {
        let mut dice = ChaCha20Rng::seed_from_u64(seed);
        let validity = validity_of(false);
        let ca = CertificateAuthority::create("test", Algorithm::Ed25519, validity, &mut dice);
        let ca = ca.unwrap();
        let anchor = Arc::new(TrustAnchor::from_pem(ca.certificate(), None).unwrap());
        let job = Arc::new(spec.validate().unwrap());
        let parties = (0..job.spec().parties).map(|i| (format!("party-{i}"), None));
        let servers = job
            .servers()
            .map(|role| (role.to_string().replace(' ', "-"), Some(role)));
        let last = format!("party-{}", job.spec().parties - 1);
        let hosts = parties.chain(servers).map(|(name, role)| {
            let validity = validity_of(name == last);
            let credential = ca.issue(&name, &Kind::Party, Algorithm::Ed25519, validity, &mut dice);
            let credential = credential.unwrap();
            let certificate = CertificateDer::from_pem_slice(credential.certificate.as_bytes());
            Host {
                name,
                role,
                key: Arc::new(IdentityKey::from_pem(&credential.key).unwrap()),
                certificate: Arc::from(certificate.unwrap().as_ref()),
                records: Arc::default(),
                ledger: Arc::default(),
                machine: None,
                lives: 0,
                link: None,
                lost: false,
                over: false,
                trouble: Trouble::default(),
                results: BTreeMap::new(),
                kept: Arc::default(),
            }
        });
        let hosts: Vec<Host> = hosts.collect();
        let now = Now {
            time: Time::default(),
            unix_millis: BEGIN * 1000,
        };
        let store = Arc::new(MemoryStore::new(3));
        let kept = Arc::default();
        let server = open(&job, &anchor, &store, &kept, now, 0);
        Self {
            events: (0..hosts.len()).map(Event::Start).collect(),
            job,
            anchor,
            store,
            kept,
            server,
            server_lives: 0,
            hosts,
            now,
            later: Vec::new(),
            takes_no_uploads: None,
            frozen: None,
            accuses: BTreeMap::new(),
            lines: computing::Lines::default(),
            uploads: BTreeMap::new(),
            links: BTreeMap::new(),
            closed: BTreeSet::new(),
            latest_link: 0,
            dice,
            kill_one_in: 0,
            stop_one_in: 0,
            echo: false,
            replay_one_in: 0,
            brought: BTreeMap::new(),
            failures: Vec::new(),
            fixed: BTreeMap::new(),
            opened: BTreeMap::new(),
            vectors: BTreeSet::new(),
            reasons: Vec::new(),
            lies_of_version: false,
            hides_terms: false,
            full: Arc::default(),
            min_cohort: 2,
            budget: None,
            mask_memory: 0,
            newer_anchor: None,
            ca,
            server_breaks: None,
            server_broke: false,
        }
    }

    /// Lets things happen until everybody who is not lost has heard that the job is done; gives how many did.
    pub fn play(&mut self) -> usize {
        for steps in 0..MAX_STEPS {
            if self.hosts.iter().all(|host| host.over || host.lost) {
                self.check();
                return steps;
            }
            self.advance();
            if self.chance(self.kill_one_in) {
                let host = self.dice.next_u64() as usize % self.hosts.len();
                self.kill(host);
            }
            if self.chance(self.stop_one_in) {
                self.restart_server();
            }
        }
        panic!(
            "the job is not done after {MAX_STEPS} steps: {:?}",
            self.server.status()
        );
    }

    /// An operator gives the job so many rounds.
    pub fn extend(&mut self, rounds: u32) {
        let change = Change {
            rounds: Some(rounds),
            ..Change::default()
        };
        let order = Order {
            command: Command::Extend(change),
            by: "olga".into(),
            reason: "a test".into(),
        };
        let id = OrderId(rounds.into());
        self.server.handle(self.now, Input::Order { id, order });
        self.serve();
    }

    /// Lets things happen until a round is under way.
    pub fn play_to_round(&mut self) {
        for _ in 0..MAX_STEPS {
            let status = self.server.status();
            if (status.round.as_ref()).is_some_and(|round| round.state == RoundState::Running) {
                return;
            }
            self.advance();
        }
        panic!("no round begins: {:?}", self.server.status());
    }

    fn chance(&mut self, one_in: u64) -> bool {
        one_in > 0 && self.dice.next_u64().is_multiple_of(one_in)
    }

    /// Lets the next thing happen, or time pass where there is none.
    pub fn advance(&mut self) {
        if !self.step() {
            self.pass_time();
        }
    }

    /// The next thing; false where there is none.
    pub fn step(&mut self) -> bool {
        let Some(event) = self.events.pop_front() else {
            return false;
        };
        match event {
            Event::Start(host) => self.start(host),
            Event::Connect(host) => self.connect(host),
            Event::Computing(event) => self.compute(event),
            Event::ToServer(link, say) => self.hear(link, say),
            Event::ToHost(link, frame) => {
                self.replay(link, &frame);
                if self.accuse(link, &frame) {
                    return true;
                }
                if let Some(host) = self.links.get(&link).copied() {
                    self.frame_to(host, link, frame);
                }
            }
        }
        true
    }

    /// Nothing happens until somebody wants to be woken.
    fn pass_time(&mut self) {
        let machines = self.hosts.iter().filter_map(|host| host.machine.as_ref());
        let wakes = machines.filter_map(|machine| match machine {
            Machine::Party(party) => party.wake(),
            Machine::Server(server) => server.wake(),
        });
        let next = wakes
            .chain(self.server.wake())
            .chain(self.later.iter().map(|(time, _)| *time))
            .min()
            .expect("something happens");
        let passed = next - self.now.time;
        self.now.time = self.now.time.max(next);
        self.now.unix_millis += passed.as_millis() as u64;
        let now = self.now.time;
        let due = self.later.extract_if(.., |(time, _)| *time <= now);
        self.events.extend(due.map(|(_, event)| event));
        self.server.tick(self.now);
        self.serve();
        for host in 0..self.hosts.len() {
            self.give(host, |machine, now| match machine {
                Machine::Party(party) => party.tick(now),
                Machine::Server(server) => server.tick(now),
            });
        }
    }

    fn start(&mut self, number: usize) {
        let (now, job, anchor) = (self.now, self.job.clone(), self.anchor.clone());
        let mut entropy = [0; 32];
        self.dice.fill_bytes(&mut entropy);
        let host = &mut self.hosts[number];
        if host.over || host.lost {
            return;
        }
        host.lives += 1;
        let (name, records) = (host.name.clone(), host.records.clone());
        let Some(role) = host.role else {
            let budget = self.budget.filter(|_| number == 0);
            let settings = party::Settings {
                job: job.spec().job.clone(),
                policy: party::Policy {
                    min_cohort: if number == 0 { self.min_cohort } else { 2 },
                    privacy: party::PrivacyPolicy {
                        max_epsilon: budget.map(|budget| budget.epsilon),
                        max_delta: budget.map(|budget| budget.delta),
                        ..party::PrivacyPolicy::default()
                    },
                    ..policy()
                },
                mask_memory: self.mask_memory,
                ledger: Some(host.ledger.clone()),
                location: String::new(),
                job_memory: Arc::default(),
                initial: None,
            };
            let identity = Identity {
                name,
                key: host.key.clone(),
                anchor: match &self.newer_anchor {
                    Some(newer) if number == 0 => newer.clone(),
                    _ => anchor,
                },
                ca: [0; 32],
            };
            let full = if number == 0 {
                self.full.clone()
            } else {
                Arc::default()
            };
            let records = Arc::new(Filling(records, full));
            let party = PartyMachine::open(settings, identity, Some(records), now, entropy);
            host.machine = Some(Machine::Party(party));
            let asks = !self.hosts[number].trouble.asks_late;
            self.give(number, |machine, now| {
                if let Machine::Party(party) = machine
                    && asks
                {
                    party.handle(now, party::Input::WantRound);
                }
            });
            return self.connect(number);
        };
        host.machine = Some(host.follow(role, job, anchor, now, entropy));
        self.give(number, |_, _| {});
        self.connect(number);
    }

    fn connect(&mut self, number: usize) {
        self.latest_link += 1;
        let link = self.latest_link;
        let host = &mut self.hosts[number];
        if host.machine.is_none() || host.link.is_some() || host.over {
            return;
        }
        host.link = Some(link);
        self.links.insert(link, number);
        self.give(number, |machine, now| match machine {
            Machine::Party(party) => party.handle(now, party::Input::Linked(LinkId(link))),
            Machine::Server(server) => server.handle(now, follower::Input::Linked(LinkId(link))),
        });
    }

    /// A host is gone in the middle of whatever it does, and comes back.
    pub fn kill(&mut self, number: usize) {
        if self.hosts[number].over || self.hosts[number].machine.take().is_none() {
            return;
        }
        self.cut(number);
        self.silence(number);
        self.events.push_back(Event::Start(number));
    }

    /// The caller of a party asks for a round.
    pub fn ask(&mut self, number: usize) {
        self.give(number, |machine, now| {
            if let Machine::Party(party) = machine {
                party.handle(now, party::Input::WantRound);
            }
        });
    }

    /// A host is gone, and does not come back.
    pub fn lose(&mut self, number: usize) {
        self.kill(number);
        self.hosts[number].lost = true;
    }

    /// The connection of a host ends, which makes another one soon.
    pub fn disconnect(&mut self, number: usize) {
        if let Some(link) = self.hosts[number].link {
            self.cut(number);
            self.lost_at(number, link, "the connection is lost");
        }
    }

    /// The coordinator is killed, and started again with its store.
    pub fn restart_server(&mut self) {
        self.server_lives = self.server_lives.wrapping_add(1);
        let (store, kept, lives) = (self.store.clone(), &self.kept, self.server_lives);
        self.server = open(&self.job, &self.anchor, &store, kept, self.now, lives);
        for (link, number) in std::mem::take(&mut self.links) {
            self.lost_at(number, link, "the coordinator is gone");
        }
        self.lose_lines(ServerIndex::ALL[0]);
        self.serve();
    }

    /// A host learns that its connection has ended, and makes another one.
    fn lost_at(&mut self, number: usize, link: u64, reason: &str) {
        self.hosts[number].link = None;
        let (link, reason) = (LinkId(link), reason.to_owned());
        self.give(number, |machine, now| match machine {
            Machine::Party(party) => party.handle(now, party::Input::Lost(link, reason)),
            Machine::Server(server) => server.handle(now, follower::Input::Lost(link, reason)),
        });
        self.connect_later(number);
    }

    fn connect_later(&mut self, number: usize) {
        self.happens_later(Event::Connect(number));
    }

    fn happens_later(&mut self, event: Event) {
        self.later.push((self.now.time + PAUSE, event));
    }

    /// Hands something to a host, and does what it wants done.
    fn give(&mut self, number: usize, hand: impl FnOnce(&mut Machine, Now)) {
        let now = self.now;
        let Some(machine) = &mut self.hosts[number].machine else {
            return;
        };
        if self.frozen == Some(number) {
            return;
        }
        hand(machine, now);
        while let Some(host) = self.hosts.get_mut(number)
            && let Some(machine) = &mut host.machine
        {
            let done = match machine {
                Machine::Party(party) => party.poll().map(|effect| self.of_party(number, effect)),
                Machine::Server(server) => server
                    .poll_working(now)
                    .map(|effect| self.of_server(number, effect)),
            };
            if done.is_none() {
                return;
            }
        }
    }
}
