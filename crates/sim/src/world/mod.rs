//! Campaigns: whole jobs, with machines, disks and connections, in which everything goes wrong that can.
//!
//! A campaign is a series of episodes. An episode is one job from beginning to end: the coordinator, every party and the
//! servers that compute with the coordinator as the machines of `blindsum-job`, in virtual time, over connections that
//! break and with disks that are slow. What goes wrong is drawn from the episode's seed: machines are killed at any
//! moment and restarted, with their records or with a backup of them; connections break unnoticed, and so do the lines
//! between servers; uploads are lost or late; a member lies, or the coordinator does. After a while nothing more goes
//! wrong, and the job has to end.
//!
//! All that time these promises are checked:
//!
//! * P1: no party begins a round with strangers, with too few parties, or with an earlier number, whoever tells it to.
//! * P2: every sum is exactly that of its survivors' updates, and the same for everybody.
//! * P3: no honest party answers a stage in two ways, or gives a server two uploads for a round, whatever is restored
//!   from a backup. No server that computes with others has a part in a round again that it spoke in before it was
//!   killed.
//! * P4: nothing panics.
//! * P5: the job goes on: no honest party fails for good, and nothing waits for ever.
//! * P6: a round with a result keeps it; everybody whose vector is in it is told so, and nobody is told the opposite.
//! * P7: what a sparse round leaves of an update is neither lost nor sent twice.
//! * P8: everybody who is told a model is told the same one, and it is the one that follows from the sums.
//!
//! The same seed gives exactly the same episode.

mod agenda;
mod book;
mod campaign;
mod contents;
mod coordinator;
mod disk;
mod endings;
mod episode;
mod faults;
mod followers;
mod hosts;
mod learnt;
mod leftovers;
mod liars;
mod lines;
mod links;
mod membership;
mod misleads;
mod models;
mod parties;
mod plain;
mod promises;
mod steps;
mod updates;
mod uploads;
mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_job::coordinator::KEY_SERVICE;
use blindsum_job::machine::Task;
use blindsum_job::party::Input;
use blindsum_protocol::{Job, ModelUpdate, ServerIdentity, ServerIndex, ServerRole};

use crate::SimError;
use crate::cohort::Cohort;
use crate::liars::deviation_of_seed;
use crate::seeds::stream;
use agenda::{Agenda, Event, Micros, Who};
use book::{Book, Kept};
pub use campaign::{Broken, Campaign, CampaignError, Tally, beside_a_liar};
use coordinator::Coordinator;
use faults::Dice;
pub use faults::{Faults, Kind};
use followers::Follower;
use learnt::Learnt;
use lines::Lines;
use links::Link;
use membership::Membership;
use misleads::Deceit;
use parties::Party;
use uploads::Uploads;

/// Lines of its story that a broken promise is told with.
const STORY: usize = 400;
/// How long a machine that was killed stays away, at most.
const SHORT: Micros = 4_000_000;
const LONG: Micros = 25_000_000;

/// The world of one episode.
struct World {
    job: Arc<Job>,
    seed: u64,
    kind: Kind,
    faults: Faults,
    dice: Dice,
    /// Draws which sessions end by themselves.
    endings: Dice,
    time: Micros,
    agenda: Agenda,
    /// The task that each machine has under way.
    tasks: BTreeMap<Who, Task>,
    /// When machines will be woken, by their life.
    wakes: BTreeMap<Who, (u32, Micros)>,
    anchor: Arc<TrustAnchor>,
    /// Who makes keys and opens sums, where the job names a server for that.
    key_service: Option<Arc<ServerIdentity>>,
    server: Coordinator,
    membership: Membership,
    parties: Vec<Party>,
    /// The servers that compute with the coordinator.
    followers: BTreeMap<ServerRole, Follower>,
    lines: Lines,
    uploads: Uploads,
    learnt: Learnt,
    links: BTreeMap<u64, Link>,
    latest_link: u64,
    /// The party that lies.
    liar: Option<usize>,
    /// Whether a party has accused another one.
    claimed: bool,
    /// What a lying coordinator has at hand.
    deceit: Deceit,
    /// The party that is gone for good once it is killed.
    mortal: Option<usize>,
    book: Book,
    /// Rounds without a result, where only a member lies.
    spoilt: BTreeSet<u64>,
    tally: Tally,
    story: VecDeque<String>,
}

impl World {
    /// The episode of a seed.
    fn new(job: Arc<Job>, seed: u64) -> Result<Self, SimError> {
        let kind = Kind::of(seed);
        let faults = kind.faults();
        // Who has a model, or a leftover, has something to catch up with.
        let catches_up = job.spec().model_update != ModelUpdate::Nothing || job.density().is_some();
        let away = match catches_up && faults.kill > 0.0 {
            true => 0.15,
            false => 0.0,
        };
        Self::with(job, seed, kind, Faults { away, ..faults })
    }

    fn with(job: Arc<Job>, seed: u64, kind: Kind, faults: Faults) -> Result<Self, SimError> {
        let count = job.spec().parties as usize;
        let cohort = Cohort::of(job.spec(), count, seed)?;
        let parties = cohort.members().map(|(name, certificate, key)| {
            let identity = parties::identity(name, key, cohort.anchor());
            Party::new(name, certificate.to_vec(), identity)
        });
        let operators = Cohort::new(job.servers().count(), seed.wrapping_add(1))?;
        let followers =
            job.servers()
                .zip(operators.members())
                .map(|(role, (name, certificate, key))| {
                    let name = match (role, job.needs_everybody()) {
                        // One in the coordinator's process, or the host that the job names.
                        (ServerRole::Decryptor, true) => {
                            job.spec().decryptor().unwrap_or(KEY_SERVICE.into())
                        }
                        _ => name.to_owned(),
                    };
                    let server = Follower::new(&name, certificate, key);
                    (role, server)
                });
        let mut dice = Dice(stream("faults", &[seed]));
        // One more than the job has, of another CA.
        let strangers = match kind {
            Kind::LyingServer => Some(Cohort::new(count + 1, !seed)?),
            _ => None,
        };
        let stranger = strangers.iter().flat_map(Cohort::members).last();
        let stranger = stranger.map_or_else(Vec::new, |(_, certificate, _)| certificate.to_vec());
        // No round can do without the root, which is the last one.
        let dispensable = count - usize::from(job.spec().root().is_some());
        let liar = (kind == Kind::Liar).then(|| dice.below(dispensable as u64) as usize);
        let mut parties: Vec<Party> = parties.collect();
        if let Some(party) = liar.and_then(|liar| parties.get_mut(liar)) {
            party.deviation = deviation_of_seed(&job, seed);
        }
        let bears_loss = job.spec().dropouts_among(count) > 0 && count > job.least_roster();
        let dies = kind == Kind::Storm && bears_loss && dice.chance(0.4);
        let mortal = dies.then(|| dice.below(dispensable as u64) as usize);
        let mut world = Self {
            parties,
            followers: followers.collect(),
            lines: Lines::default(),
            uploads: Uploads::default(),
            learnt: Learnt::of(&job),
            anchor: cohort.anchor().clone(),
            key_service: cohort.key_service().cloned(),
            seed,
            kind,
            faults,
            dice,
            endings: Dice(stream("endings", &[seed])),
            time: 0,
            agenda: Agenda::default(),
            tasks: BTreeMap::new(),
            wakes: BTreeMap::new(),
            server: Coordinator::default(),
            membership: Membership::default(),
            links: BTreeMap::new(),
            latest_link: 0,
            liar,
            mortal,
            claimed: false,
            deceit: Deceit::with(stranger),
            book: Book::with(liar, kind == Kind::LyingServer, cohort),
            spoilt: BTreeSet::new(),
            tally: Tally {
                episodes: 1,
                ..Tally::default()
            },
            story: VecDeque::new(),
            job,
        };
        world.agenda.push(0, Event::Start(Who::Server));
        for role in world.job.servers() {
            let late = world.dice.below(100_000);
            world.agenda.push(late, Event::Start(Who::Follower(role)));
        }
        for number in 0..count {
            let late = match world.dice.chance(0.2) {
                true => world.dice.below(8_000_000),
                false => world.dice.below(100_000),
            };
            world.agenda.push(late, Event::Start(Who::Party(number)));
        }
        Ok(world)
    }

    fn step(&mut self) -> Result<(), Broken> {
        let Some((at, event)) = self.agenda.pop() else {
            return Err(self.broken("P5: nothing more happens".into()));
        };
        self.leases_until(at)?;
        self.time = self.time.max(at);
        self.tally.steps += 1;
        self.happens(event)?;
        if self.dice.chance(self.faults.cut)
            && let Some(link) = self.some_link()
        {
            self.tally.cuts += 1;
            self.log(format!("link {link} breaks"));
            self.cut(link, "lost");
        }
        self.perhaps_break_line();
        self.perhaps_end_session()?;
        self.note_rounds()
    }

    fn some_link(&mut self) -> Option<u64> {
        let whole = self.server.links.keys().copied();
        let whole: Vec<u64> = whole.filter(|link| self.is_whole(*link)).collect();
        self.dice.pick(&whole)
    }

    fn happens(&mut self, event: Event) -> Result<(), Broken> {
        match event {
            Event::AtServer { link, frame } => match self.is_whole(link) {
                true => self.at_server(link, frame),
                false => Ok(()),
            },
            Event::AtHost { link, frame } => self.at_host(link, frame),
            Event::Ends { link, at, reason } => match at {
                Who::Server => self.lost_at_server(link, reason),
                host => self.lost_at_host(host, link, reason),
            },
            Event::Connect(host) => self.connect(host),
            Event::TaskEnds { who, life } if self.lives(who, life) => match self.tasks.remove(&who)
            {
                Some(task) => self.task_ends(who, task),
                None => Ok(()),
            },
            Event::TaskEnds { .. } => Ok(()),
            Event::Wake { who, life } if self.lives(who, life) => {
                self.wakes.remove(&who);
                self.tick(who)
            }
            Event::Wake { .. } => Ok(()),
            Event::Start(Who::Server) => self.start_server(),
            Event::Start(Who::Party(number)) => self.start_party(number),
            Event::Start(Who::Follower(role)) => self.start_follower(role),
            Event::Trained { party, life, round } if self.lives(Who::Party(party), life) => {
                self.trained(party, round)
            }
            Event::Took { party, life, round } if self.lives(Who::Party(party), life) => {
                self.took(party, round)
            }
            Event::Wants { party, life } if self.lives(Who::Party(party), life) => {
                self.hand_party(party, Input::WantRound)
            }
            Event::Trained { .. } | Event::Took { .. } | Event::Wants { .. } => Ok(()),
            Event::Letter {
                from,
                to,
                line,
                round,
                letter,
            } => self.letter((from, to), line, round, letter),
            Event::LineEnds { at, to, line } => self.line_lost(at, to, line),
            Event::Dial { from, to } => self.dial(from, to),
            Event::Upload { attempt } => self.upload_comes(attempt),
            Event::UploadGone { attempt } => self.upload_gone(attempt),
            Event::Uploaded { attempt, what } => self.uploaded(attempt, what),
        }
    }

    fn task_ends(&mut self, who: Who, task: Task) -> Result<(), Broken> {
        let ticket = task.ticket;
        task.run();
        self.worked(who, ticket)
    }

    /// A task is under way.
    fn task_begins(&mut self, who: Who, task: Task) {
        let (life, at) = (self.life_of(who), self.task_time());
        self.tasks.insert(who, task);
        self.agenda.push(at, Event::TaskEnds { who, life });
    }

    fn life_of(&self, who: Who) -> u32 {
        match who {
            Who::Server => self.server.life,
            Who::Party(number) => self.parties.get(number).map_or(0, |party| party.life),
            Who::Follower(role) => self.followers.get(&role).map_or(0, |server| server.life),
        }
    }

    /// Whether this machine still lives the same life.
    fn lives(&self, who: Who, life: u32) -> bool {
        self.is_alive(who) && self.life_of(who) == life
    }

    /// A machine ends in the middle of whatever it does, and is started again later.
    fn kill(&mut self, who: Who) {
        self.tally.kills += 1;
        self.log(format!("{who:?} is killed"));
        // The disk has done its part of a task already, or not.
        if let Some(task) = self.tasks.remove(&who)
            && self.dice.chance(0.5)
        {
            task.run();
        }
        let links: Vec<u64> = match who {
            Who::Server => {
                self.server.machine = None;
                self.server.links.keys().copied().collect()
            }
            Who::Party(number) => {
                let Some(party) = self.parties.get_mut(number) else {
                    return;
                };
                party.machine = None;
                party.link.take().into_iter().collect()
            }
            Who::Follower(role) => {
                let Some(server) = self.followers.get_mut(&role) else {
                    return;
                };
                server.machine = None;
                server.link.take().into_iter().collect()
            }
        };
        for link in links {
            self.cut(link, "lost");
        }
        match who {
            Who::Server => {
                self.server.links.clear();
                self.lines_end(ServerIndex::ALL[0]);
            }
            Who::Party(number) => self.give_up_uploads(number, |_| true),
            Who::Follower(role) => self.silence(role),
        }
        let back = self.time + self.away(who);
        match who == Who::Party(self.mortal.unwrap_or(usize::MAX)) {
            true => self.log(format!("{who:?} is gone for good")),
            false => self.agenda.push(back, Event::Start(who)),
        }
    }

    /// How long a machine that was killed stays away.
    fn away(&mut self, who: Who) -> Micros {
        let long = matches!(who, Who::Party(_)) && self.dice.chance(self.faults.away);
        self.dice.below(if long { LONG } else { SHORT })
    }

    /// What an honest party says is compared with what it said before.
    fn note_said(
        &mut self,
        number: usize,
        frame: &blindsum_job::pb::PartyFrame,
    ) -> Result<(), Broken> {
        use blindsum_job::pb::party_frame::Frame;
        match &frame.frame {
            Some(Frame::Chunk(chunk)) => {
                let kept = self
                    .book
                    .says(number, chunk.round, chunk.stage, &chunk.data);
                self.check(kept)
            }
            _ => Ok(()),
        }
    }

    /// Whether an honest party may give up for good.
    fn may_fail(&self, number: usize) -> bool {
        self.kind == Kind::LyingServer || self.liar == Some(number)
    }

    fn log(&mut self, line: String) {
        if self.story.len() == STORY {
            self.story.pop_front();
        }
        let seconds = self.time as f64 / 1e6;
        self.story.push_back(format!("{seconds:10.6} {line}"));
    }

    fn check(&self, kept: Kept) -> Result<(), Broken> {
        kept.map_err(|what| self.broken(what))
    }

    fn broken(&self, what: String) -> Broken {
        let stand = self.parties.iter().enumerate().map(|(number, party)| {
            let (life, link, over) = (party.life, party.link, party.over);
            let lives = party.machine.is_some();
            let known = link.is_some_and(|link| self.server.links.contains_key(&link));
            format!("party {number}: life {life}, lives {lives}, link {link:?}, known {known}, over {over}")
        });
        let servers = self.followers.iter().map(|(role, server)| {
            let (life, link, over) = (server.life, server.link, server.over);
            let lives = server.machine.is_some();
            format!("the {role}: life {life}, lives {lives}, link {link:?}, over {over}")
        });
        Broken {
            seed: self.seed,
            kind: self.kind,
            steps: self.tally.steps,
            what,
            story: self
                .story
                .iter()
                .cloned()
                .chain(stand)
                .chain(servers)
                .collect(),
        }
    }
}
