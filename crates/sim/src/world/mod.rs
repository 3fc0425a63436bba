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

mod book;
mod campaign;
mod contents;
mod coordinator;
mod disk;
mod endings;
mod episode;
mod faults;
mod followers;
mod learnt;
mod leftovers;
mod liars;
mod membership;
mod misleads;
mod models;
mod parties;
mod plain;
mod promises;
mod steps;
mod surroundings;
mod updates;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Arguments;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_job::coordinator::KEY_SERVICE;
use blindsum_protocol::{Job, ModelUpdate, ServerIdentity, ServerRole};

use crate::SimError;
use crate::cohort::Cohort;
use crate::engine::{Engine, Who};
use crate::liars::deviation_of_seed;
use crate::seeds::stream;
use book::{Book, Kept};
pub use campaign::{Broken, Campaign, CampaignError, Tally, beside_a_liar};
use coordinator::Stores;
use faults::Dice;
pub use faults::{Faults, Kind};
use followers::Server;
use learnt::Learnt;
use misleads::Deceit;
use parties::Member;

/// Lines of its story that a broken promise is told with.
const STORY: usize = 400;

/// The world of one episode: machines, and what surrounds them.
struct World {
    engine: Engine,
    episode: Episode,
}

/// What an episode is about.
struct Setting {
    job: Arc<Job>,
    seed: u64,
    kind: Kind,
    anchor: Arc<TrustAnchor>,
    /// Who makes keys and opens sums, where the job names a server for that.
    key_service: Option<Arc<ServerIdentity>>,
}

/// What surrounds the machines of an episode: what goes wrong, what callers give, and what everybody was promised.
struct Episode {
    setting: Setting,
    faults: Faults,
    dice: Dice,
    /// Draws which sessions end by themselves.
    endings: Dice,
    store: Stores,
    /// Whether managers of leases can be relied upon.
    calm: Arc<AtomicBool>,
    members: Vec<Member>,
    /// The servers that are not the coordinator.
    servers: BTreeMap<ServerRole, Server>,
    learnt: Learnt,
    /// The party that lies.
    liar: Option<usize>,
    /// The party that is gone for good once it is killed.
    mortal: Option<usize>,
    /// What a lying coordinator has at hand.
    deceit: Deceit,
    book: Book,
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
        let members = cohort.members();
        let mut members: Vec<Member> = members
            .map(|member| Member::new(member, cohort.anchor()))
            .collect();
        let (mut servers, mut peers) = (BTreeMap::new(), Vec::new());
        let operators = Cohort::new(job.servers().count(), seed.wrapping_add(1))?;
        for (role, (name, certificate, key)) in job.servers().zip(operators.members()) {
            let name = match (role, job.needs_everybody()) {
                // One in the coordinator's process, or the host that the job names.
                (ServerRole::Decryptor, true) => {
                    job.spec().decryptor().unwrap_or(KEY_SERVICE.into())
                }
                _ => name.to_owned(),
            };
            let server = Server::new(name);
            peers.push((role, server.peer(role, certificate, key)));
            servers.insert(role, server);
        }
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
        if let Some(member) = liar.and_then(|liar| members.get_mut(liar)) {
            member.deviation = deviation_of_seed(&job, seed);
        }
        let bears_loss = job.spec().dropouts_among(count) > 0 && count > job.least_roster();
        let dies = kind == Kind::Storm && bears_loss && dice.chance(0.4);
        let mortal = dies.then(|| dice.below(dispensable as u64) as usize);
        let parties = members.iter().enumerate();
        let parties = parties.map(|(number, member)| member.peer(number));
        let mut world = Self {
            engine: Engine::new(job.clone(), parties, peers),
            episode: Episode {
                members,
                servers,
                learnt: Learnt::of(&job),
                faults,
                dice,
                endings: Dice(stream("endings", &[seed])),
                store: Stores::default(),
                calm: Arc::default(),
                liar,
                mortal,
                deceit: Deceit::with(stranger),
                tally: Tally {
                    episodes: 1,
                    ..Tally::default()
                },
                story: VecDeque::new(),
                setting: Setting {
                    anchor: cohort.anchor().clone(),
                    key_service: cohort.key_service().cloned(),
                    job,
                    seed,
                    kind,
                },
                book: Book::with(liar, kind == Kind::LyingServer, cohort),
            },
        };
        world.begin();
        Ok(world)
    }

    /// Everybody is started, some later than others.
    fn begin(&mut self) {
        let (transit, dice) = (&mut self.engine.transit, &mut self.episode.dice);
        transit.start_after(0, Who::Server);
        for role in self.episode.setting.job.servers() {
            transit.start_after(dice.below(100_000), Who::Follower(role));
        }
        for number in 0..self.episode.members.len() {
            let late = match dice.chance(0.2) {
                true => dice.below(8_000_000),
                false => dice.below(100_000),
            };
            transit.start_after(late, Who::Party(number));
        }
    }

    fn step(&mut self) -> Result<(), Broken> {
        let (engine, episode) = (&mut self.engine, &mut self.episode);
        if !engine.step(episode)? {
            return Err(episode.broken(engine, "P5: nothing more happens".into()));
        }
        if episode.dice.chance(episode.faults.cut)
            && let Some(link) = episode.dice.pick(&engine.whole_links())
        {
            episode.tally.cuts += 1;
            episode.log(engine, format_args!("link {link} breaks"));
            engine.transit.cut(episode, link, "lost");
        }
        self.perhaps_break_line();
        self.perhaps_end_session()?;
        self.episode.note_rounds(&self.engine)
    }

    /// Now and then a line between servers breaks.
    fn perhaps_break_line(&mut self) {
        let (engine, episode) = (&mut self.engine, &mut self.episode);
        if episode.servers.is_empty() || !episode.dice.chance(episode.faults.cut) {
            return;
        }
        let whole = engine.transit.whole_lines();
        if let Some((one, other)) = episode.dice.pick(&whole) {
            episode.tally.cuts += 1;
            episode.log(
                engine,
                format_args!("the line from {one} to {other} breaks"),
            );
            engine.transit.cut_line(episode, one, other);
        }
    }
}

impl Episode {
    fn log(&mut self, engine: &Engine, line: Arguments<'_>) {
        if self.story.len() == STORY {
            self.story.pop_front();
        }
        let seconds = engine.time() as f64 / 1e6;
        self.story.push_back(format!("{seconds:10.6} {line}"));
    }

    fn check(&self, engine: &Engine, kept: Kept) -> Result<(), Broken> {
        kept.map_err(|what| self.broken(engine, what))
    }

    fn broken(&self, engine: &Engine, what: String) -> Broken {
        let story = self.story.iter().cloned();
        Broken {
            seed: self.setting.seed,
            kind: self.setting.kind,
            steps: engine.steps,
            what,
            story: story.chain(engine.standing()).collect(),
        }
    }
}
