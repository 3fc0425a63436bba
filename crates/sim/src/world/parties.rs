//! The parties of an episode: their disks and their callers.

use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::sign::IdentityKey;
use blindsum_encode::Reals;
use blindsum_job::JobError;
use blindsum_job::coordinator::Peer;
use blindsum_job::machine::Now;
use blindsum_job::party::{
    Absence, Begun, Identity, Input, Over, PartyMachine, Policy, Settings, Told, check_update,
    kept_leftover,
};
use blindsum_job::pb::PartyFrame;
use blindsum_job::pb::party_frame::Frame;
use blindsum_job::session::Count;
use blindsum_protocol::{InitialModel, Job, JobMemory, ProtocolName, RuleName};

use super::book::News;
use super::disk::Disk;
use super::updates::Gift;
use super::{Broken, Episode, Kind};
use crate::deviation::Deviation;
use crate::engine::{Answer, Engine, Errand, Micros, Who};
use crate::seeds::{seed_bytes, stream};

/// Bytes in which parties keep what they compute ahead.
const WORKED_AHEAD: usize = 1 << 20;

/// A party.
pub(super) struct Member {
    pub identity: Identity,
    pub certificate: Arc<[u8]>,
    pub disk: Arc<Disk>,
    /// How its machines lie, where it is one that proves things.
    pub deviation: Option<Deviation>,
    /// Whether its session was made to end.
    pub ends: bool,
    /// The round whose result its caller was told and has not taken.
    pub untaken: Option<u64>,
}

/// What a careful party would agree to in a campaign: every protocol, and cohorts that lose parties.
fn policy() -> Policy {
    Policy {
        allowed_protocols: ProtocolName::ALL.to_vec(),
        allowed_rules: RuleName::ALL.to_vec(),
        require_adversary: None,
        min_corrupt: 0.0,
        min_honest: 1,
        min_cohort: 2,
        ..Policy::default()
    }
}

impl Member {
    pub fn new(
        (name, certificate, key): (&str, &[u8], &Arc<IdentityKey>),
        anchor: &Arc<TrustAnchor>,
    ) -> Self {
        let identity = Identity {
            name: name.into(),
            key: key.clone(),
            anchor: anchor.clone(),
            ca: [0; 32],
        };
        Self {
            identity,
            certificate: certificate.into(),
            disk: Arc::default(),
            deviation: None,
            ends: false,
            untaken: None,
        }
    }

    /// Whom the coordinator sees at the other end of its connections.
    pub fn peer(&self, number: usize) -> Peer {
        Peer {
            name: self.identity.name.as_str().into(),
            role: None,
            address: format!("party {number}"),
            certificate: self.certificate.clone(),
            key: self.identity.key.verifying_key().clone(),
            traffic: Arc::<Count>::default(),
        }
    }

    fn start(&mut self, job: &Job, now: Now, seed: u64, life: u32) -> PartyMachine {
        (self.ends, self.untaken) = (false, None);
        let name = &self.identity.name;
        let settings = Settings {
            job: job.spec().job.clone(),
            policy: policy(),
            // Half of the parties' lives work ahead of the rounds.
            mask_memory: match (seed + u64::from(life)) % 2 {
                0 => 0,
                _ => WORKED_AHEAD,
            },
            location: String::new(),
            ledger: None,
            initial: (job.spec().initial == InitialModel::FirstParty)
                .then(|| first_values(job, name).into()),
            job_memory: Arc::new(
                self.deviation
                    .clone()
                    .map_or_else(JobMemory::default, |deviation| {
                        JobMemory::misbehaving(Box::new(deviation))
                    }),
            ),
        };
        let entropy = seed_bytes(&format!("party {name}"), &[seed, life.into()]);
        let records = self.disk.clone();
        PartyMachine::open(settings, self.identity.clone(), Some(records), now, entropy)
    }
}

/// The values of the first model that a party gives.
fn first_values(job: &Job, name: &str) -> Reals {
    let last = name.bytes().next_back().unwrap_or_default();
    let values = vec![FIRSTS[usize::from(last) % FIRSTS.len()]; job.spec().dim as usize];
    Reals::Double(values)
}

/// What each coordinate of such a model is.
pub(super) const FIRSTS: [f64; 4] = [0.125, -0.25, 0.5, -1.0];

impl Episode {
    /// A party is started, perhaps with records of an earlier time.
    pub(super) fn start_member(&mut self, engine: &Engine, number: usize) -> Option<PartyMachine> {
        let back = self.dice.chance(self.faults.rollback);
        let back = back.then(|| self.dice.below(12));
        let host = engine.parties.get(number).filter(|party| !party.over);
        let (Some(host), Some(member)) = (host, self.members.get_mut(number)) else {
            return None;
        };
        let back = back.filter(|_| host.life > 0);
        if let Some(changes) = back {
            member.disk = Arc::new(member.disk.restored(changes));
            self.tally.rollbacks += 1;
            self.book.rolled_back(number);
        }
        let (job, seed) = (&self.setting.job, self.setting.seed);
        let machine = member.start(job, engine.now(), seed, host.life + 1);
        if let Some(changes) = back {
            let comes_back =
                format_args!("party {number} comes back with records of {changes} changes ago");
            self.log(engine, comes_back);
        }
        Some(machine)
    }

    /// What an honest party says is compared with what it said before.
    pub(super) fn note_said(
        &mut self,
        engine: &Engine,
        number: usize,
        frame: &PartyFrame,
    ) -> Result<(), Broken> {
        let Some(Frame::Chunk(chunk)) = &frame.frame else {
            return Ok(());
        };
        let (round, stage) = (chunk.round, chunk.stage);
        let kept = self.book.says(number, round, stage, &chunk.data);
        self.check(engine, kept)
    }

    /// The caller of a party is told something.
    pub(super) fn tell(
        &mut self,
        engine: &Engine,
        number: usize,
        told: Told,
    ) -> Result<Answer, Broken> {
        match told {
            Told::Joined(_) | Told::Over(_) => Ok(Answer::Nothing),
            Told::Held(reason) => {
                let held = format_args!("party {number} is told: {reason:?} holds the job");
                self.log(engine, held);
                Ok(Answer::Nothing)
            }
            Told::Round(begun) => self.begins(engine, number, &begun),
            Told::Refused(error) | Told::Ended(_, Err(error)) => {
                self.log(engine, format_args!("party {number} is told: {error}"));
                self.news(engine, number, &error)?;
                Ok(Answer::Now(Input::WantRound))
            }
            Told::Ended(round, Ok(result)) => {
                let has = format_args!("party {number} has the sum of round {round}");
                self.log(engine, has);
                self.tally.results += 1;
                let (life, of) = (engine.life_of(Who::Party(number)), (number, round));
                let once = self.book.tells_once(number, life, round);
                let members = &self.members;
                let number_of = |name: &str| members.iter().position(|it| it.identity.name == name);
                let job = &self.setting.job;
                let kept = self.book.computes(job, of, &result, &number_of);
                self.check(engine, once.and(kept))?;
                if let Some(member) = self.members.get_mut(number) {
                    member.untaken = Some(round);
                }
                // The caller takes the result, in its own time.
                let pause = self.dice.below(100_000);
                Ok(Answer::Later(pause, Errand::Took(round)))
            }
            // The caller took too long.
            Told::Dropped(error) => {
                self.log(engine, format_args!("party {number} is told: {error}"));
                Ok(Answer::Nothing)
            }
        }
    }

    /// A round begins for a party.
    fn begins(&mut self, engine: &Engine, number: usize, begun: &Begun) -> Result<Answer, Broken> {
        let of = (number, begun.number);
        let members = &self.members;
        let number_of = |name: &str| members.iter().position(|it| it.identity.name == name);
        let job = &self.setting.job;
        let least = job.min_parties();
        let kept = self.book.begins(number, begun, least, &number_of);
        let kept = kept.and_then(|()| self.book.starts_from(job, of, &begun.model));
        self.check(engine, kept)?;
        if !begun.needs_update {
            return Ok(Answer::Nothing);
        }
        self.look_at_leftover(engine, of)?;
        // The caller makes its update, in its own time; or forgets to.
        let pause = match self.dice.chance(self.faults.careless) {
            true => self.dice.below(20_000_000),
            false => self.dice.below(300_000),
        };
        Ok(Answer::Later(pause, Errand::Trained(begun.number)))
    }

    /// What the records of a party say that is left of its updates, before a round.
    fn look_at_leftover(
        &mut self,
        engine: &Engine,
        (number, round): (usize, u64),
    ) -> Result<(), Broken> {
        let Some(member) = self.members.get(number) else {
            return Ok(());
        };
        let job = &self.setting.job;
        let left = kept_leftover(member.disk.clone(), &member.identity, job);
        let of = (number, round);
        let kept = match left {
            Ok(None) => Ok(()),
            Ok(Some(left)) => self.book.has_left(job, of, left),
            Err(error) => Err(format!("P7: party {number}: {error}")),
        };
        self.check(engine, kept)
    }

    /// The caller of a party does something: what it says.
    pub(super) fn do_errand(
        &mut self,
        engine: &Engine,
        number: usize,
        errand: Errand,
    ) -> Result<Vec<Input>, Broken> {
        match errand {
            Errand::Wants => Ok(vec![Input::WantRound]),
            Errand::Took(round) => {
                let kept = self.book.hears(number, round, News::Sum);
                self.check(engine, kept)?;
                if let Some(member) = self.members.get_mut(number) {
                    member.untaken = None;
                }
                let taken = format_args!("party {number} has taken the sum of round {round}");
                self.log(engine, taken);
                Ok(vec![Input::Took(round), Input::WantRound])
            }
            Errand::Trained(round) => Ok(vec![self.train(engine, number, round)?]),
        }
    }

    /// The update of a caller; or that there is none.
    fn train(&mut self, engine: &Engine, number: usize, round: u64) -> Result<Input, Broken> {
        if self.dice.chance(self.faults.careless / 4.0) {
            let why = Absence::SitsOut;
            return Ok(Input::Abandon { round, why });
        }
        let job = &self.setting.job;
        let life = engine.life_of(Who::Party(number));
        let numbers = [self.setting.seed, number as u64, round, life.into()];
        let mut rng = stream("update", &numbers);
        let gift = Gift::drawn(job, &mut rng);
        let kept = self.book.gave(job, (number, round), &gift);
        self.check(engine, kept)?;
        let metrics = gift.named_metrics(job);
        let judged = check_update(job, gift.update, gift.weight, &metrics);
        let update =
            judged.map_err(|error| self.broken(engine, format!("an update that fits: {error}")))?;
        Ok(Input::Submit { round, update })
    }

    /// What an error says about a round.
    fn news(&mut self, engine: &Engine, number: usize, error: &JobError) -> Result<(), Broken> {
        let (round, news) = match error {
            JobError::Missed { round, .. } => (*round, News::Missed),
            JobError::Unknown { round, .. } => (*round, News::Unknown),
            JobError::RoundAborted { round, .. } | JobError::Dropped { round, .. } => {
                (*round, News::NoSum)
            }
            JobError::Fault { round, .. } => {
                let liars = [Kind::Liar, Kind::LyingServer];
                if !liars.contains(&self.setting.kind) {
                    let what = format!("P2: somebody honest is blamed: {error}");
                    return Err(self.broken(engine, what));
                }
                (*round, News::Fault)
            }
            _ => return Ok(()),
        };
        let kept = self.book.hears(number, round, news);
        self.check(engine, kept)
    }

    /// A party has ended. Gives how long it stays away, where it comes back.
    pub(super) fn member_over(
        &mut self,
        engine: &Engine,
        number: usize,
        over: Over,
    ) -> Result<Option<Micros>, Broken> {
        let member = self.members.get(number);
        let ends = member.is_some_and(|member| member.ends);
        let untaken = member.is_some_and(|member| member.untaken.is_some());
        match over {
            // The caller is told a result again that it has not taken; and who leaves by itself waits for no last model.
            Over::JobDone { model, .. } if ends && (untaken || model.is_none()) => {
                Ok(Some(self.session_ended(engine, number)))
            }
            Over::JobDone { model, .. } => {
                let job = &self.setting.job;
                let kept = self.book.ends_with(job, number, model.as_ref());
                self.check(engine, kept)?;
                self.look_at_leftover(engine, (number, u64::MAX))?;
                Ok(None)
            }
            Over::Left | Over::Failed(_) if ends => Ok(Some(self.session_ended(engine, number))),
            Over::Left => Ok(None),
            Over::Failed(error) => {
                self.log(engine, format_args!("party {number} fails: {error}"));
                match self.liar == Some(number) {
                    // Who lies does not give up.
                    true => Ok(Some(self.dice.below(4_000_000))),
                    false if self.setting.kind == Kind::LyingServer => Ok(None),
                    false => {
                        let what = format!("P5: party {number} fails for good: {error}");
                        Err(self.broken(engine, what))
                    }
                }
            }
        }
    }
}
