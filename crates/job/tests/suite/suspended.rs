//! Parties whose process ends after every message: what they are is sealed in between, and the job goes on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
use blindsum_crypto::sign::{Algorithm, IdentityKey};
use blindsum_job::JobError;
use blindsum_job::actor::{Now, Time};
use blindsum_job::frames::{Count, Session, of_coordinator, of_party};
use blindsum_job::party::{
    self, Identity, JobParty, LinkId as PartyLink, Over, Policy, RoundResult, Told, Update,
};
use blindsum_job::pb::party_frame::Frame;
use blindsum_job::pb::{CoordinatorFrame, PartyFrame};
use blindsum_job::records::MemoryRecords;
use blindsum_job::server::{self, Effect, JobServer, LinkId, MemoryShelves, Parts, Peer, Settings};
use blindsum_job::store::MemoryStore;
use blindsum_protocol::{Integers, Job, JobSpec, ModelUpdate, ProtocolName, Quantised};
use bytes::Bytes;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use rustls_pki_types::{CertificateDer, pem::PemObject};

/// When the tests take place, in seconds since 1970-01-01 UTC.
const BEGIN: u64 = 1_800_000_000;
/// More messages than any job of the tests has.
const MOST: usize = 5000;

/// A party between two processes of it.
struct Host {
    name: Arc<str>,
    identity: Identity,
    certificate: Arc<[u8]>,
    /// What its last process left, and the one before that.
    states: Vec<Vec<u8>>,
    mark: u64,
    /// Its connection, and the number that its next one gets at the coordinator.
    link: Option<LinkId>,
    results: BTreeMap<u64, RoundResult>,
    lost: Vec<JobError>,
    over: bool,
}

/// What a process of a party gets.
#[derive(Clone)]
enum Message {
    /// A new connection, in the place of the one that there was.
    Connect,
    Heard(CoordinatorFrame),
}

/// What goes wrong with the processes of parties.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    None,
    /// Each message is heard by a process that is killed before it is suspended, and then by another one.
    KilledAlways,
    /// The process that hears this message is killed, and the message and the connection are lost.
    LosesOne(usize),
    /// Before this message a party comes back with the state before its last one.
    GoesBack(usize),
}

struct World {
    job: Arc<Job>,
    server: JobServer,
    anchor: Arc<TrustAnchor>,
    hosts: Vec<Host>,
    sessions: BTreeMap<LinkId, (usize, Session)>,
    /// What is on its way to parties.
    down: VecDeque<(usize, Option<LinkId>, Message)>,
    now: Now,
    processes: u64,
    delivered: usize,
    links: u64,
    /// What each party has answered, by round, stage and offset.
    answers: BTreeMap<(usize, u64, u32, u64), Bytes>,
}

fn spec(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        protocol: protocol.into(),
        parties: 4,
        min_parties: if protocol.tolerates_corrupt() { 0 } else { 3 },
        dropout: 0.25,
        corrupt: if protocol.tolerates_corrupt() {
            0.25
        } else {
            0.0
        },
        dim: 3,
        rounds: 2,
        encoding: Integers {
            bits: 16,
            ..Integers::default()
        }
        .into(),
        model_update: ModelUpdate::Nothing,
        ..JobSpec::default()
    }
}

/// A job of one round.
fn short(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        rounds: 1,
        ..spec(protocol)
    }
}

/// A job of real numbers, in which messages and the model come in pieces.
fn long(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        dim: 140_000,
        encoding: Quantised::default().into(),
        model_update: ModelUpdate::Add,
        ..spec(protocol)
    }
}

/// What a party adds in a round of integers.
fn integers(party: usize, round: u64) -> Vec<u32> {
    (0..3)
        .map(|d| 1000 * round as u32 + 10 * party as u32 + d)
        .collect()
}

/// What a party adds.
fn update(job: &Job, party: usize, round: u64) -> Update {
    match job.spec().encoding.integer_bits() {
        Some(_) => Update::U32(integers(party, round)),
        None => Update::F32(vec![0.125 * party as f32; job.spec().dim as usize]),
    }
}

impl World {
    fn new(spec: JobSpec, algorithm: Algorithm) -> Self {
        let mut rng = ChaCha20Rng::from_seed([7; 32]);
        let validity = Validity {
            not_before: BEGIN - 86_400,
            not_after: BEGIN + 86_400,
        };
        let ca = CertificateAuthority::create("test", algorithm, validity, &mut rng).unwrap();
        let anchor = Arc::new(TrustAnchor::from_pem(ca.certificate(), None).unwrap());
        let job = Arc::new(spec.validate().unwrap());
        let mut host = |party: u32| {
            let name = format!("party-{party}");
            let issued = ca
                .issue(&name, &Kind::Party, algorithm, validity, &mut rng)
                .unwrap();
            let der = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap();
            Host {
                identity: Identity {
                    name: name.clone(),
                    key: Arc::new(IdentityKey::from_pem(&issued.key).unwrap()),
                    anchor: anchor.clone(),
                    ca: [0; 32],
                },
                name: name.into(),
                certificate: Arc::from(der.as_ref()),
                states: Vec::new(),
                mark: 0,
                link: None,
                results: BTreeMap::new(),
                lost: Vec::new(),
                over: false,
            }
        };
        let hosts: Vec<Host> = (0..job.spec().parties).map(&mut host).collect();
        let now = Now {
            time: Time::default(),
            unix_millis: BEGIN * 1000,
        };
        let parts = Parts {
            job: job.clone(),
            initial: None,
            store: Arc::new(MemoryStore::new(3)),
            anchor: anchor.clone(),
            shelves: Arc::new(MemoryShelves),
            settings: Settings {
                patience: Duration::from_secs(3600),
                reconnect_grace: Duration::from_secs(5),
                chunk_timeout: Duration::from_secs(30),
                failed_rounds: 3,
            },
        };
        let server = JobServer::open(parts, now, [1; 32]).unwrap();
        let down = (0..hosts.len()).map(|party| (party, None, Message::Connect));
        Self {
            down: down.collect(),
            job,
            server,
            anchor,
            hosts,
            sessions: BTreeMap::new(),
            now,
            processes: 0,
            delivered: 0,
            links: 0,
            answers: BTreeMap::new(),
        }
    }

    /// Runs the job to its end.
    fn run(&mut self, trouble: Trouble) {
        self.serve();
        while self.hosts.iter().any(|host| !host.over) {
            assert!(self.delivered < MOST, "the job does not come to its end");
            self.pass(Duration::from_millis(1));
            let Some((party, link, message)) = self.down.pop_front() else {
                let until = self.server.wake().unwrap();
                self.pass(until - self.now.time);
                self.server.tick(self.now);
                self.serve();
                continue;
            };
            // Of a connection that has ended.
            if self.hosts[party].over || link.is_some() && link != self.hosts[party].link {
                continue;
            }
            if link.is_none() {
                self.hosts[party].link = None;
            }
            self.delivered += 1;
            self.deliver(party, message, trouble);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now.time = self.now.time + time;
        self.now.unix_millis += time.as_millis() as u64;
    }

    fn deliver(&mut self, party: usize, message: Message, trouble: Trouble) {
        let at = self.delivered;
        match trouble {
            Trouble::KilledAlways => drop(self.process(party, message.clone(), false)),
            Trouble::LosesOne(lost) if lost == at => {
                drop(self.process(party, message, false));
                return self.reconnect(party);
            }
            Trouble::GoesBack(back) if back == at && self.hosts[party].states.len() > 1 => {
                // What was said since is on its way: the connection is another one, as after a kill.
                self.hosts[party].states.pop();
                return self.reconnect(party);
            }
            _ => {}
        }
        for frame in self.process(party, message, true) {
            self.hear(party, frame);
        }
    }

    fn reconnect(&mut self, party: usize) {
        if let Some(link) = self.hosts[party].link.take() {
            self.lost(link);
        }
        self.down.push_back((party, None, Message::Connect));
    }

    fn lost(&mut self, link: LinkId) {
        if self.sessions.remove(&link).is_some() {
            let (reason, returns) = ("lost".into(), true);
            let lost = server::Input::Lost {
                link,
                reason,
                returns,
            };
            self.server.handle(self.now, lost);
            self.serve();
        }
    }

    /// One process of a party, from its state to its next state. What it says leaves once that is kept.
    fn process(&mut self, party: usize, message: Message, is_kept: bool) -> Vec<PartyFrame> {
        self.processes += 1;
        let host = &mut self.hosts[party];
        let key = host.identity.key.clone();
        let records = host
            .states
            .last()
            .map(|state| MemoryRecords::unseal(&key, state).unwrap());
        let records = Arc::new(records.unwrap_or_default());
        let settings = party::Settings {
            job: self.job.spec().job.clone(),
            policy: policy(),
            mask_memory: 0,
        };
        let mut entropy = [0; 32];
        entropy[..8].copy_from_slice(&self.processes.to_le_bytes());
        // Each process has a clock of its own.
        let own = Now {
            time: Time(Duration::from_secs(self.processes % 7)),
            ..self.now
        };
        let identity = host.identity.clone();
        let machine =
            JobParty::resume(settings, identity, records.clone(), host.mark, own, entropy);
        let mut process = Process {
            job: self.job.clone(),
            party,
            machine,
            now: own,
            link: PartyLink(match message {
                Message::Connect => 1,
                Message::Heard(_) => 0,
            }),
            said: Vec::new(),
            results: BTreeMap::new(),
            lost: Vec::new(),
            over: false,
        };
        process.work();
        process.give(party::Input::WantRound);
        match message {
            Message::Connect => process.give(party::Input::Linked(process.link)),
            Message::Heard(frame) => process.give(party::Input::Frame(process.link, frame)),
        }
        process.give(party::Input::Suspend);
        if !is_kept {
            return Vec::new();
        }
        let mut rng = ChaCha20Rng::from_seed(entropy);
        host.states.push(records.seal(&key, &mut rng).unwrap());
        assert!(process.over || process.machine.mark() > host.mark);
        host.mark = process.machine.mark();
        host.results.append(&mut process.results);
        host.lost.append(&mut process.lost);
        host.over = process.over;
        process.said
    }

    /// A frame of a party reaches the coordinator.
    fn hear(&mut self, party: usize, frame: PartyFrame) {
        if self.hosts[party].link.is_none() {
            self.links += 1;
            let link = LinkId(self.links);
            let (host, count) = (&mut self.hosts[party], Arc::<Count>::default());
            host.link = Some(link);
            let known = self.anchor.verify_party(&host.certificate, BEGIN).unwrap();
            let peer = Peer {
                name: host.name.clone(),
                address: "a test".into(),
                certificate: host.certificate.clone(),
                key: known.key,
                traffic: count.clone(),
            };
            self.sessions
                .insert(link, (party, Session::new(link, peer, count)));
        }
        if let Some(Frame::Chunk(chunk)) = &frame.frame {
            let place = (party, chunk.round, chunk.stage, chunk.offset);
            let before = self.answers.entry(place).or_insert(chunk.data.clone());
            assert_eq!(*before, chunk.data, "two answers of a party: {place:?}");
        }
        let link = self.hosts[party].link.unwrap();
        let gate = self.server.gate();
        let Some((_, session)) = self.sessions.get_mut(&link) else {
            return;
        };
        if let Some(input) = session.take(&gate, frame).unwrap() {
            self.server.handle(self.now, input);
        }
        self.serve();
    }

    fn serve(&mut self) {
        while let Some(effect) = self.server.poll() {
            match effect {
                Effect::Work(task) => {
                    let ticket = task.ticket;
                    task.run();
                    self.server.worked(self.now, ticket);
                }
                Effect::Send(link, say) => {
                    for frame in of_coordinator(say).unwrap() {
                        self.send(link, frame);
                    }
                }
                Effect::Refuse(link, last) => {
                    self.send(link, last.into());
                    self.end(link);
                }
                Effect::Close(link, last) | Effect::Cut(link, last) => {
                    self.send(link, last.into());
                    self.end(link);
                    self.lost(link);
                }
                Effect::Over(result) => result.unwrap(),
                Effect::Admit(_) => {}
            }
        }
    }

    fn send(&mut self, link: LinkId, frame: CoordinatorFrame) {
        if let Some((party, _)) = self.sessions.get(&link) {
            self.down
                .push_back((*party, Some(link), Message::Heard(frame)));
        }
    }

    /// The party makes another connection when it has heard the last word on this one.
    fn end(&mut self, link: LinkId) {
        if let Some((party, _)) = self.sessions.get(&link) {
            self.down.push_back((*party, None, Message::Connect));
        }
    }

    /// Every sum is that of what its survivors gave; gives how many there were.
    fn check_sums(&self) -> usize {
        let mut rounds = BTreeMap::new();
        for host in &self.hosts {
            for (round, result) in &host.results {
                let survivors = (0..self.hosts.len()).filter(|party| {
                    let name = &*self.hosts[*party].name;
                    result.survivors.iter().any(|survivor| survivor == name)
                });
                let mut sums = vec![0u128; 3];
                for party in survivors {
                    let values = integers(party, *round);
                    sums.iter_mut()
                        .zip(values)
                        .for_each(|(sum, value)| *sum += u128::from(value));
                }
                assert_eq!(result.integers.as_ref().unwrap().sums, sums);
                *rounds.entry(*round).or_insert(0) += 1;
            }
        }
        rounds.len()
    }
}

/// A process of a party.
struct Process {
    job: Arc<Job>,
    party: usize,
    machine: JobParty,
    now: Now,
    link: PartyLink,
    said: Vec<PartyFrame>,
    results: BTreeMap<u64, RoundResult>,
    lost: Vec<JobError>,
    over: bool,
}

impl Process {
    fn give(&mut self, input: party::Input) {
        self.machine.handle(self.now, input);
        self.work();
    }

    fn work(&mut self) {
        while let Some(effect) = self.machine.poll() {
            match effect {
                party::Effect::Work(task) => {
                    let ticket = task.ticket;
                    task.run();
                    self.machine.worked(self.now, ticket);
                }
                party::Effect::Send(link, say) if link == self.link => {
                    self.said.extend(of_party(say));
                }
                party::Effect::Send(..) => {}
                // The coordinator has ended it, and the next one is on its way.
                party::Effect::Reconnect(..) => {}
                party::Effect::Tell(told) => self.hear(told),
            }
        }
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Round(begun) if begun.needs_update => {
                let (round, weight) = (begun.number, 1);
                let update = update(&self.job, self.party, round);
                self.machine.handle(
                    self.now,
                    party::Input::Submit {
                        round,
                        update,
                        weight,
                    },
                );
            }
            Told::Ended(round, Ok(result)) => {
                self.results.insert(round, *result);
                self.machine.handle(self.now, party::Input::Took(round));
                self.machine.handle(self.now, party::Input::WantRound);
            }
            Told::Ended(_, Err(error)) | Told::Refused(error) => self.lost.push(error),
            Told::Over(Over::Failed(error)) => panic!("party {}: {error}", self.party),
            Told::Over(_) => self.over = true,
            Told::Round(_) | Told::Joined(_) => {}
        }
    }
}

/// What takes every protocol.
fn policy() -> Policy {
    Policy {
        allowed_protocols: ProtocolName::ALL.to_vec(),
        require_adversary: None,
        min_corrupt: 0.0,
        min_honest: 1,
        min_cohort: 2,
        ..Policy::default()
    }
}

/// The same results for everybody, in every round.
fn check_everybody(world: &World, rounds: usize) {
    assert_eq!(world.check_sums(), rounds);
    for host in &world.hosts {
        assert_eq!(host.results.len(), rounds, "{}: {:?}", host.name, host.lost);
        assert!(
            host.results
                .values()
                .all(|result| result.survivors.len() == 4)
        );
    }
}

#[test]
fn a_party_may_end_after_every_message() {
    for &protocol in ProtocolName::ALL {
        let mut world = World::new(spec(protocol), Algorithm::Ed25519);
        world.run(Trouble::None);
        check_everybody(&world, 2);
    }
}

#[test]
fn pieces_of_messages_and_of_models_are_kept() {
    for protocol in [ProtocolName::SecAggPlus, ProtocolName::Flashe] {
        // A party that is back from an older state gets the model anew.
        for trouble in [Trouble::KilledAlways, Trouble::GoesBack(60)] {
            let mut world = World::new(long(protocol), Algorithm::Ed25519);
            world.run(trouble);
            let all = |host: &Host| host.results.clone();
            let all: Vec<_> = world.hosts.iter().flat_map(all).collect();
            let models: BTreeMap<u64, _> = all.iter().cloned().collect();
            assert_eq!(models.len(), 2);
            for (version, (number, first)) in (1..).zip(&models) {
                assert_eq!(first.model.version(), version);
                let mut results = all.iter().filter(|(of, _)| of == number);
                assert!(results.all(|(_, result)| result.model == first.model));
                let least = if first.survivors.len() == 4 {
                    0.1875
                } else {
                    0.125
                };
                assert!(
                    first
                        .mean
                        .iter()
                        .all(|mean| (least - 1e-3..0.26).contains(mean))
                );
            }
        }
    }
}

#[test]
fn a_party_may_be_killed_at_every_message_before_its_state_is_kept() {
    for &protocol in ProtocolName::ALL {
        for algorithm in [Algorithm::Ed25519, Algorithm::P256] {
            let mut world = World::new(spec(protocol), algorithm);
            world.run(Trouble::KilledAlways);
            check_everybody(&world, 2);
        }
    }
}

#[test]
fn an_older_state_costs_its_party_the_round_and_nobody_else() {
    for &protocol in ProtocolName::ALL {
        let mut world = World::new(short(protocol), Algorithm::Ed25519);
        world.run(Trouble::None);
        for message in 1..=world.delivered {
            let mut world = World::new(short(protocol), Algorithm::Ed25519);
            world.run(Trouble::GoesBack(message));
            assert_eq!(world.check_sums(), 1, "{protocol}, message {message}");
        }
    }
}

#[test]
fn a_lost_message_and_its_connection_cost_no_round() {
    for &protocol in ProtocolName::ALL {
        let mut world = World::new(short(protocol), Algorithm::Ed25519);
        world.run(Trouble::None);
        for message in 1..=world.delivered {
            let mut world = World::new(short(protocol), Algorithm::Ed25519);
            world.run(Trouble::LosesOne(message));
            check_everybody(&world, 1);
        }
    }
}
