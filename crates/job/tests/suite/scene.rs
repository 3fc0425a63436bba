//! A coordinator whose time, randomness, store and connections are the test's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::pki::{CertificateAuthority, Validity};
use blindsum_crypto::sign::Algorithm;
use blindsum_job::JobError;
use blindsum_job::calls::{CallEnd, CallError, CallId};
use blindsum_job::coordinator::{
    Choice, CoordinatorMachine, CurrentTimes, Effect, Hold, Input, LinkId, MemoryShelves, Parts,
    Say, Settings, Shared,
};
use blindsum_job::machine::{Now, Task, Time};
use blindsum_job::membership::Lease;
use blindsum_job::orders::{Command, Order, OrderError, OrderId, Outcome};
use blindsum_job::pb::coordinator_frame::Frame;
use blindsum_job::pb::{self, PartyFrame};
use blindsum_job::report::JobState;
use blindsum_job::store::{MemoryStore, Store};
use blindsum_protocol::{Job, JobSpec, Message};
use bytes::Bytes;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::party::Party;

/// When the tests take place, in seconds since 1970-01-01 UTC.
pub const BEGIN: u64 = 1_800_000_000;

/// When certificates are valid.
pub const VALIDITY: Validity = Validity {
    not_before: BEGIN - 86_400,
    not_after: BEGIN + 86_400,
};

/// What a party hears over its connection.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    Admitted,
    Refused(pb::Refused),
    Frame(Frame),
    Message { round: u64, stage: u8, bytes: Bytes },
    Model { version: u64, bytes: Bytes },
    Closed(pb::Refused),
    Cut(pb::Refused),
}

/// A job with its parties.
pub struct Scene {
    pub job: Arc<Job>,
    pub anchor: Arc<TrustAnchor>,
    pub store: Arc<MemoryStore>,
    pub server: CoordinatorMachine,
    pub now: Now,
    pub parties: Vec<Party>,
    /// What each connection has heard and nobody has taken yet.
    pub heard: BTreeMap<LinkId, Vec<Heard>>,
    /// Everything that was said, in order.
    pub said: Vec<(LinkId, Heard)>,
    /// Of that the frames that went to many, once for each of them.
    pub shared: Vec<Arc<Shared>>,
    /// Who has a lease.
    pub leased: BTreeSet<Arc<str>>,
    /// What became of orders.
    outcomes: Vec<(OrderId, Result<Outcome, OrderError>)>,
    /// What became of calls, and how they ended.
    pub calls: Vec<Result<(), CallError>>,
    pub call_ends: Vec<(CallId, CallEnd)>,
    /// How the job ended.
    pub over: Option<Result<(), JobError>>,
    /// Whether work ends without being done.
    pub lose_work: bool,
    /// By so many seconds the coordinator's clock is ahead of those of parties.
    off_by: i64,
    links: u64,
}

impl Scene {
    /// The same from now on with a store that keeps so many versions of the model.
    pub fn keeping(mut self, models_kept: u32) -> Self {
        self.restart(MemoryStore::new(models_kept), 1);
        self
    }

    /// A coordinator, and as many parties as the job has, none of them connected.
    pub fn new(spec: JobSpec, seed: u8) -> Self {
        Self::certified(spec, seed, |_| VALIDITY)
    }

    /// The same, with certificates of parties that are valid then.
    pub fn certified(spec: JobSpec, seed: u8, valid: impl Fn(u32) -> Validity) -> Self {
        let mut rng = ChaCha20Rng::from_seed([seed; 32]);
        let ca = CertificateAuthority::create("test", Algorithm::Ed25519, VALIDITY, &mut rng);
        let ca = ca.unwrap();
        let anchor = Arc::new(TrustAnchor::from_pem(ca.certificate(), None).unwrap());
        let job = Arc::new(spec.validate().unwrap());
        let parties = (0..job.spec().parties)
            .map(|i| Party::new(&ca, &format!("party-{i}"), valid(i), &job, &mut rng));
        let parties = parties.collect();
        let now = Now {
            time: Time::default(),
            unix_millis: BEGIN * 1000,
        };
        let store = Arc::new(MemoryStore::new(3));
        let server = open(&job, &anchor, &store, now, seed, None, false);
        let mut scene = Self {
            job,
            anchor,
            store,
            server,
            now,
            parties,
            heard: BTreeMap::new(),
            said: Vec::new(),
            shared: Vec::new(),
            leased: BTreeSet::new(),
            outcomes: Vec::new(),
            calls: Vec::new(),
            call_ends: Vec::new(),
            over: None,
            lose_work: false,
            off_by: 0,
            links: 0,
        };
        scene.carry_out();
        scene
    }

    /// The coordinator is killed, and another one begins with this store. All connections are gone.
    pub fn restart(&mut self, store: MemoryStore, seed: u8) {
        self.store = Arc::new(store);
        self.server = open(
            &self.job,
            &self.anchor,
            &self.store,
            self.now,
            seed,
            None,
            false,
        );
        self.heard.clear();
        self.carry_out();
    }

    /// The coordinator is killed, and another one goes on with what is stored, through the store's bytes. Everybody connects.
    pub fn killed(&mut self, seed: u8) {
        let bytes = self.store.to_bytes("job").unwrap().unwrap();
        let store = MemoryStore::from_bytes(&self.job, &bytes, 1).unwrap();
        self.restart(store, seed);
        self.connect_all();
    }

    /// The same with a certificate of the coordinator's own that is valid then.
    pub fn restart_certified(&mut self, times: (u64, u64)) {
        let own: CurrentTimes = Arc::new(move || times);
        self.server = open(
            &self.job,
            &self.anchor,
            &self.store,
            self.now,
            1,
            Some(own),
            false,
        );
        self.heard.clear();
        self.carry_out();
    }

    /// The coordinator's clock is set, forward or back, by so many seconds; no time passes. Those of parties stay.
    pub fn set_clock(&mut self, seconds: i64) {
        self.off_by += seconds;
        self.now.unix_millis = self.now.unix_millis.wrapping_add_signed(seconds * 1000);
    }

    /// A party connects, as the process that it is.
    pub fn connect(&mut self, party: usize) -> LinkId {
        self.connect_as(party, |_| {})
    }

    /// The same, with another Hello.
    pub fn connect_as(&mut self, party: usize, change: fn(&mut pb::Hello)) -> LinkId {
        self.links += 1;
        let link = LinkId(self.links);
        let party = &mut self.parties[party];
        party.link = link;
        let (peer, mut hello) = (party.peer(), party.hello(self.links));
        change(&mut hello);
        self.heard.insert(link, Vec::new());
        self.give(Input::Connected { link, peer, hello });
        link
    }

    pub fn connect_all(&mut self) {
        for party in 0..self.parties.len() {
            self.connect(party);
        }
    }

    /// A party says something.
    pub fn frame(&mut self, party: usize, frame: impl Into<PartyFrame>) {
        let (link, frame) = (self.parties[party].link, frame.into().frame.unwrap());
        self.give(Input::Frame { link, frame });
    }

    /// A party answers, where the gate lets its answer in as a driver would.
    pub fn answer(&mut self, party: usize, round: u64, stage: u8, message: Message) {
        let peer = self.parties[party].peer();
        let (name, who) = (peer.name.clone(), peer.who());
        let limit = self.server.gate().judge(&who, (round, stage.into()));
        assert!(message.len() as u64 <= limit.unwrap().unwrap());
        let (link, hold) = (self.parties[party].link, Hold::of(name));
        self.give(Input::Answer {
            link,
            round,
            message,
            hold,
        });
    }

    pub fn give(&mut self, input: Input) {
        self.server.handle(self.now, input);
        self.carry_out();
    }

    /// An operator orders something; gives what becomes of it.
    pub fn order(&mut self, command: Command) -> Result<Outcome, OrderError> {
        let id = OrderId(self.outcomes.len() as u64);
        let order = Order {
            command,
            by: "olga".into(),
            reason: "a test".into(),
        };
        self.give(Input::Order { id, order });
        assert_eq!(
            self.outcomes.len() as u64,
            id.0 + 1,
            "one answer for each order"
        );
        let (of, outcome) = self.outcomes.last_mut().unwrap();
        assert_eq!(*of, id);
        let stopping = OrderError::Stopping {
            job: "taken".into(),
        };
        std::mem::replace(outcome, Err(stopping))
    }

    /// The lease of a party runs out.
    pub fn lose_lease(&mut self, party: usize) {
        let name = self.parties[party].peer().name;
        self.leased.remove(&name);
        self.give(Input::LeaseLost { name });
    }

    /// Time passes until the job goes on by itself; gives how much.
    pub fn wait(&mut self) -> Duration {
        let until = self.server.wake().unwrap();
        let passed = until - self.now.time;
        self.pass(passed);
        passed
    }

    /// So much time passes.
    pub fn pass(&mut self, time: Duration) {
        self.now.time = self.now.time + time;
        self.now.unix_millis += time.as_millis() as u64;
        self.server.tick(self.now);
        self.carry_out();
    }

    /// Does what the server asks for, tasks in place, until it waits.
    pub fn carry_out(&mut self) {
        let lose_work = self.lose_work;
        let work = |task: Task| {
            if !lose_work {
                task.run();
            }
        };
        while let Some(effect) = self.server.poll_with(self.now, work) {
            let (link, heard) = match effect {
                Effect::Over(result) => {
                    self.over = Some(result);
                    continue;
                }
                Effect::Ordered { id, outcome } => {
                    self.outcomes.push((id, outcome));
                    continue;
                }
                Effect::Called { id, taken } => {
                    assert_eq!(id.0, self.calls.len() as u64);
                    self.calls.push(taken);
                    continue;
                }
                Effect::CallEnded { id, end } => {
                    self.call_ends.push((id, end));
                    continue;
                }
                Effect::Letter { to, .. } => panic!("a letter to {to}"),
                Effect::Lease(Lease::Grant { name, .. }) => {
                    self.leased.insert(name);
                    continue;
                }
                Effect::Lease(Lease::Release { name }) => {
                    self.leased.remove(&name);
                    continue;
                }
                Effect::Admit(link) => (link, Heard::Admitted),
                Effect::Refuse(link, last) => (link, Heard::Refused(last)),
                Effect::Close(link, last) => (link, Heard::Closed(last)),
                Effect::Cut(link, last) => (link, Heard::Cut(last)),
                Effect::Send(link, say) => {
                    if let Say::Shared(frame) = &say {
                        self.shared.push(frame.clone());
                    }
                    match heard(say) {
                        Some(heard) => (link, heard),
                        None => continue,
                    }
                }
            };
            self.said.push((link, heard.clone()));
            self.heard.entry(link).or_default().push(heard);
        }
    }

    /// What a party has heard since it was last asked.
    pub fn heard_by(&mut self, party: usize) -> Vec<Heard> {
        let link = self.parties[party].link;
        self.heard
            .get_mut(&link)
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// The frames among that.
    pub fn frames_to(&mut self, party: usize) -> Vec<Frame> {
        let frame = |heard| match heard {
            Heard::Frame(frame) => Some(frame),
            _ => None,
        };
        self.heard_by(party).into_iter().filter_map(frame).collect()
    }

    /// Everybody who is connected does what an honest party does, until nobody has anything to say.
    pub fn play(&mut self) {
        let everybody: Vec<usize> = (0..self.parties.len()).collect();
        self.play_with(&everybody);
    }

    /// The same of some parties; the others hear nothing yet.
    pub fn play_with(&mut self, parties: &[usize]) {
        let mut quiet = false;
        while !std::mem::replace(&mut quiet, true) {
            for &party in parties {
                for heard in self.heard_by(party) {
                    quiet = false;
                    self.react(party, heard);
                }
            }
        }
    }

    pub fn react(&mut self, party: usize, heard: Heard) {
        match heard {
            Heard::Frame(Frame::RoundOffer(offer)) => {
                let ready = self.parties[party].ready(&self.job, offer.round);
                let (tag, about) = (offer.tag, offer.about);
                let ready = pb::Ready {
                    tag,
                    about,
                    ..ready
                };
                self.frame(party, ready);
            }
            Heard::Frame(Frame::RosterFixed(fixed)) => {
                let opening = self.parties[party].open(&fixed);
                self.frame(party, opening);
            }
            Heard::Frame(Frame::RoundStart(start)) => {
                let (job, anchor) = (self.job.clone(), self.anchor.clone());
                let mut now = self.now;
                now.unix_millis = now.unix_millis.wrapping_add_signed(-self.off_by * 1000);
                let begun = self.parties[party].begin(&job, &anchor, &start, now);
                if let Some(message) = begun {
                    self.answer(party, start.round, 0, message);
                }
            }
            Heard::Message {
                round,
                stage,
                bytes,
            } => {
                if let Some(message) = self.parties[party].answer(round, &bytes) {
                    self.answer(party, round, stage + 1, message);
                }
            }
            Heard::Frame(Frame::RoundDone(done)) => {
                let confirmed = self.parties[party].confirm(&done);
                self.frame(party, confirmed);
            }
            _ => {}
        }
    }

    /// Everybody connects and is ready for round 1, and all but the last do what the round asks of them.
    pub fn begin_without_the_last(&mut self) {
        self.connect_all();
        let last = self.parties.len() - 1;
        let others: Vec<usize> = (0..last).collect();
        self.play_with(&others);
        self.heard_by(last);
        let ready = self.parties[last].ready(&self.job, 1);
        self.frame(last, ready);
        self.play_with(&others);
    }

    /// Where the job stands.
    pub fn state(&self) -> JobState {
        self.server.status().state
    }

    /// What the store would tell a coordinator that begins with a copy of it, of who has confirmed the latest sum.
    pub fn confirmed(&self) -> Vec<bool> {
        let copy = self.store.snapshot();
        let stored = copy.open_job(&self.job, &self.parties[0].model).unwrap();
        let ending = stored.ending.unwrap();
        ending.survivors.into_values().collect()
    }
}

pub fn open(
    job: &Arc<Job>,
    anchor: &Arc<TrustAnchor>,
    store: &Arc<MemoryStore>,
    now: Now,
    seed: u8,
    own: Option<CurrentTimes>,
    hosted: bool,
) -> CoordinatorMachine {
    let parts = Parts {
        job: job.clone(),
        initial: None,
        store: store.clone(),
        anchor: anchor.clone(),
        own,
        results: None,
        shelves: Arc::new(MemoryShelves),
        settings: Settings {
            patience: Duration::from_secs(3600),
            reconnect_grace: Duration::from_secs(5),
            chunk_timeout: Duration::from_secs(30),
            failed_rounds: 3,
            choice: Choice::First,
            change: 1,
        },
        hosted,
    };
    CoordinatorMachine::open(parts, now, [seed; 32]).unwrap()
}

/// What comes of something that is said; nothing where nobody needs it any more.
fn heard(say: Say) -> Option<Heard> {
    Some(match say {
        Say::Frame(frame) => Heard::Frame(frame.frame?),
        Say::Shared(frame) => Heard::Frame(frame.frame().frame.clone()?),
        Say::Model { version, values } => Heard::Model {
            version,
            bytes: values,
        },
        Say::Message {
            round,
            stage,
            content,
        } => Heard::Message {
            round,
            stage,
            bytes: content.whole().unwrap()?,
        },
    })
}
