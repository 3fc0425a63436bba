//! A job in which everybody is a machine, all randomness has a fixed seed, and everything that one party hears and
//! says is written down.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::sign::IdentityKey;
use blindsum_job::Model;
use blindsum_job::coordinator::{self, CoordinatorMachine, Hold, MemoryShelves, Parts, Peer};
use blindsum_job::frames::{of_coordinator, of_party};
use blindsum_job::hex;
use blindsum_job::machine::{Now, Time};
use blindsum_job::party::{
    self, Effect, Identity, LinkId, Over, PartyMachine, RoundResult, Say, Told, Update,
};
use blindsum_job::pb::coordinator_frame::Frame as Down;
use blindsum_job::pb::party_frame::Frame as Up;
use blindsum_job::pb::{CoordinatorFrame, PartyFrame};
use blindsum_job::store::MemoryStore;
use blindsum_protocol::Job;
use prost::Message;

use super::{Connection, Cut, Row, Side};
use crate::hosts::{Quiet, policy};
use crate::vectors::singles;

/// What stands in the place of program and version, which matter to nobody.
const PROGRAM: &str = "recorded";
/// Things that may happen until the job is done.
const MAX_STEPS: usize = 10_000;

enum Event {
    ToServer(u64, Say),
    ToParty(u64, CoordinatorFrame),
    Connect(usize),
    Cut(usize, Cut),
}

/// A party, and what it was told.
pub struct Member {
    name: String,
    job: Arc<Job>,
    machine: PartyMachine,
    updates: Vec<Vec<f32>>,
    key: Arc<IdentityKey>,
    certificate: Arc<[u8]>,
    /// Its connection, and how many it has made.
    link: Option<u64>,
    connections: u64,
    /// Whether it has been lost for good.
    gone: bool,
    pub results: BTreeMap<u64, RoundResult>,
    /// The last model, once the job is done.
    pub last: Option<Model>,
}

/// All of it.
pub struct World {
    server: CoordinatorMachine,
    pub members: Vec<Member>,
    recorded: usize,
    cuts: Vec<Cut>,
    now: Now,
    events: VecDeque<Event>,
    latest_link: u64,
    pub rows: Vec<Row>,
}

impl World {
    /// Plays the job until the recorded party has heard that it is done.
    pub fn play(connection: &Connection) -> Self {
        let mut world = Self::begin(connection);
        for number in 0..world.members.len() {
            world.give(number, |machine, now| {
                machine.handle(now, party::Input::WantRound);
            });
            world.events.push_back(Event::Connect(number));
        }
        for _ in 0..MAX_STEPS {
            match world.events.pop_front() {
                Some(event) => world.happen(event),
                None if world.members[world.recorded].last.is_some() => return world,
                None => world.pass_time(),
            }
        }
        panic!("the job is not done: {:?}", world.server.status());
    }

    fn begin(connection: &Connection) -> Self {
        let job = Arc::new(connection.spec.clone().validate().unwrap());
        assert_eq!(*job.hash(), connection.job_hash.array());
        let anchor = Arc::new(TrustAnchor::from_pem(&connection.ca, None).unwrap());
        let now = Now {
            time: Time::default(),
            unix_millis: connection.now * 1000,
        };
        let members = connection.parties.iter().enumerate().map(|(rank, party)| {
            let key = Arc::new(IdentityKey::from_pem(&party.private_key).unwrap());
            Member {
                name: party.name.clone(),
                job: job.clone(),
                machine: open(&job, &anchor, &party.name, &key, (now, rank)),
                updates: party.updates.iter().map(|u| singles(&u.0)).collect(),
                certificate: Arc::from(&*party.certificate.0),
                key,
                link: None,
                connections: 0,
                gone: false,
                results: BTreeMap::new(),
                last: None,
            }
        });
        let initial = connection.initial.as_ref();
        Self {
            members: members.collect(),
            server: coordinate(
                &job,
                &anchor,
                initial.map(|i| Model::first(&job, singles(&i.0)).unwrap()),
                now,
            ),
            recorded: connection.recorded,
            cuts: connection.cuts.clone(),
            now,
            events: VecDeque::new(),
            latest_link: 0,
            rows: Vec::new(),
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Connect(number) => self.connect(number),
            Event::Cut(number, cut) => self.cut(number, &cut),
            Event::ToServer(link, say) => self.hear(link, say),
            Event::ToParty(link, frame) => {
                let Some(number) = self.whose(link) else {
                    return;
                };
                self.record(number, Side::Coordinator, frame.encode_to_vec(), false);
                self.give(number, |machine, now| {
                    machine.handle(now, party::Input::Frame(LinkId(link), frame));
                });
            }
        }
    }

    /// Whose connection it is, while it holds.
    fn whose(&self, link: u64) -> Option<usize> {
        let holds = |member: &Member| member.link == Some(link);
        self.members.iter().position(holds)
    }

    fn record(&mut self, number: usize, from: Side, frame: Vec<u8>, lost: bool) {
        if number == self.recorded {
            self.rows.push(Row {
                connection: self.members[number].connections,
                from,
                frame: hex(&frame),
                lost,
            });
        }
    }

    /// Nothing happens until somebody wants to be woken.
    fn pass_time(&mut self) {
        let there = self.members.iter().filter(|member| !member.gone);
        let wakes = there.filter_map(|member| member.machine.wake());
        let next = wakes.chain(self.server.wake()).min().unwrap();
        let passed = next - self.now.time;
        self.now.time = self.now.time.max(next);
        self.now.unix_millis += passed.as_millis() as u64;
        self.server.tick(self.now);
        self.serve();
        for number in 0..self.members.len() {
            self.give(number, |machine, now| machine.tick(now));
        }
    }

    fn connect(&mut self, number: usize) {
        self.latest_link += 1;
        let link = self.latest_link;
        let member = &mut self.members[number];
        member.link = Some(link);
        member.connections += 1;
        self.give(number, |machine, now| {
            machine.handle(now, party::Input::Linked(LinkId(link)));
        });
    }

    fn cut(&mut self, number: usize, cut: &Cut) {
        let link = self.members[number].link.take().unwrap();
        self.server.handle(
            self.now,
            coordinator::Input::Lost {
                link: coordinator::LinkId(link),
                reason: "lost".into(),
                returns: true,
            },
        );
        self.serve();
        if cut.returns {
            self.give(number, |machine, now| {
                machine.handle(now, party::Input::Lost(LinkId(link), "lost".into()));
            });
            self.events.push_back(Event::Connect(number));
        } else {
            self.members[number].gone = true;
        }
    }

    /// The coordinator hears something.
    fn hear(&mut self, link: u64, say: Say) {
        let Some(number) = self.whose(link) else {
            return;
        };
        let (member, link) = (&self.members[number], coordinator::LinkId(link));
        let input = match say {
            Say::Frame(frame) => match frame.frame.unwrap() {
                Up::Hello(hello) => coordinator::Input::Connected {
                    link,
                    peer: member.peer(),
                    hello,
                },
                frame => coordinator::Input::Frame { link, frame },
            },
            Say::Message {
                round,
                stage,
                message,
            } => {
                let gate = self.server.gate();
                let limit = gate
                    .judge(&member.peer().who(), (round, stage.into()))
                    .unwrap();
                assert!(message.len() as u64 <= limit.expect("the answer is wanted"));
                coordinator::Input::Answer {
                    link,
                    round,
                    message,
                    hold: Hold::default(),
                }
            }
            Say::Model { .. } => panic!("no model is sealed in these jobs"),
        };
        self.server.handle(self.now, input);
        self.serve();
    }

    /// Does what the coordinator wants done.
    fn serve(&mut self) {
        while let Some(effect) = self.server.poll_working(self.now) {
            match effect {
                coordinator::Effect::Send(link, say) => {
                    let frames = of_coordinator(say)
                        .unwrap()
                        .into_iter()
                        .map(without_program);
                    let frames = frames.map(|frame| Event::ToParty(link.0, frame));
                    self.events.extend(frames);
                }
                coordinator::Effect::Admit(_)
                | coordinator::Effect::Lease(_)
                | coordinator::Effect::Called { .. }
                | coordinator::Effect::CallEnded { .. }
                | coordinator::Effect::Ordered { .. } => {}
                coordinator::Effect::Letter { to, .. } => panic!("a letter to {to}"),
                coordinator::Effect::Over(result) => result.unwrap(),
                coordinator::Effect::Refuse(_, last)
                | coordinator::Effect::Close(_, last)
                | coordinator::Effect::Cut(_, last) => panic!("{last:?}"),
            }
        }
    }

    /// Hands something to a party, and does what it wants done.
    fn give(&mut self, number: usize, hand: impl FnOnce(&mut PartyMachine, Now)) {
        if self.members[number].gone {
            return;
        }
        let now = self.now;
        hand(&mut self.members[number].machine, now);
        while let Some(effect) = self.members[number].machine.poll_working(now) {
            match effect {
                Effect::Send(link, say) => self.say(number, link.0, say),
                Effect::Upload { role, .. } => panic!("an upload to the {role}"),
                Effect::Reconnect(_, reason) => panic!("{reason}"),
                Effect::Tell(told) => self.members[number].told(told, now),
            }
        }
    }

    /// A party says something, which may be the last thing on its connection.
    fn say(&mut self, number: usize, link: u64, say: Say) {
        let say = match say {
            Say::Frame(PartyFrame {
                frame: Some(Up::Hello(mut hello)),
            }) => {
                hello.program = PROGRAM.into();
                Say::Frame(hello.into())
            }
            say => say,
        };
        let cut = self.cuts.iter().position(|cut| {
            matches!(say, Say::Message { round, stage, .. }
                if (number, round, stage) == (cut.party, cut.round, cut.stage))
        });
        let cut = cut.map(|at| self.cuts.remove(at));
        let arrives = cut.as_ref().is_none_or(|cut| cut.arrives);
        for frame in of_party(say.clone()) {
            self.record(number, Side::Party, frame.encode_to_vec(), !arrives);
        }
        if arrives {
            self.events.push_back(Event::ToServer(link, say));
        }
        self.events.extend(cut.map(|cut| Event::Cut(number, cut)));
    }
}

impl Member {
    /// Who the coordinator sees.
    fn peer(&self) -> Peer {
        Peer {
            name: self.name.as_str().into(),
            role: None,
            address: "in memory".into(),
            certificate: self.certificate.clone(),
            key: self.key.verifying_key().clone(),
            traffic: Arc::new(Quiet),
        }
    }

    /// Does what the caller of a party does: it gives its update, and takes the result.
    fn told(&mut self, told: Told, now: Now) {
        match told {
            Told::Joined(_) | Told::Held(_) => {}
            Told::Round(begun) => {
                assert!(begun.needs_update);
                let update = self.updates[begun.number as usize - 1].clone();
                let (round, job) = (begun.number, &self.job);
                let update =
                    party::check_update(job, Update::F32(update), 1, &party::Metrics::new())
                        .unwrap();
                let submit = party::Input::Submit { round, update };
                self.machine.handle(now, submit);
            }
            Told::Ended(round, result) => {
                self.results.insert(round, *result.unwrap());
                self.machine.handle(now, party::Input::Took(round));
                self.machine.handle(now, party::Input::WantRound);
            }
            Told::Over(Over::JobDone { model, .. }) => self.last = model,
            Told::Refused(error) | Told::Dropped(error) | Told::Over(Over::Failed(error)) => {
                panic!("{error}")
            }
            Told::Over(Over::Left) => panic!("{} leaves", self.name),
        }
    }
}

fn open(
    job: &Arc<Job>,
    anchor: &Arc<TrustAnchor>,
    name: &str,
    key: &Arc<IdentityKey>,
    (now, rank): (Now, usize),
) -> PartyMachine {
    let settings = party::Settings {
        job: job.spec().job.clone(),
        policy: policy(),
        mask_memory: 0,
        ledger: None,
        location: String::new(),
        job_memory: Arc::default(),
        initial: None,
    };
    let identity = Identity {
        name: name.into(),
        key: key.clone(),
        anchor: anchor.clone(),
        ca: [0; 32],
    };
    PartyMachine::open(settings, identity, None, now, [1 + rank as u8; 32])
}

fn coordinate(
    job: &Arc<Job>,
    anchor: &Arc<TrustAnchor>,
    initial: Option<Model>,
    now: Now,
) -> CoordinatorMachine {
    let parts = Parts {
        job: job.clone(),
        initial,
        store: Arc::new(MemoryStore::new(3)),
        anchor: anchor.clone(),
        own: None,
        results: None,
        shelves: Arc::new(MemoryShelves),
        settings: coordinator::Settings {
            patience: Duration::from_secs(3600),
            reconnect_grace: Duration::from_secs(5),
            chunk_timeout: Duration::from_secs(30),
            failed_rounds: 3,
            choice: coordinator::Choice::First,
            change: 1,
        },
        hosted: false,
    };
    CoordinatorMachine::open(parts, now, [0; 32]).unwrap()
}

fn without_program(mut frame: CoordinatorFrame) -> CoordinatorFrame {
    if let Some(Down::Welcome(welcome)) = &mut frame.frame {
        welcome.program = PROGRAM.into();
    }
    frame
}
