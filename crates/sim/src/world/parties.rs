//! The parties of an episode: their machines, their disks, their callers.

use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_encode::Reals;
use blindsum_job::JobError;
use blindsum_job::machine::{Now, Step};
use blindsum_job::party::{
    Absence, Begun, Effect, Identity, Input, Over, PartyMachine, Policy, Say, Settings, Told,
    check_update, kept_leftover,
};
use blindsum_job::pb::PartyFrame;
use blindsum_protocol::{InitialModel, Job, JobMemory, ProtocolName, RuleName};

use super::agenda::{Event, Who};
use super::book::News;
use super::disk::Disk;
use super::updates::Gift;
use super::{Broken, Kind, World};
use crate::deviation::Deviation;
use crate::seeds::{seed_bytes, stream};

/// A party, alive or not.
pub(super) struct Party {
    pub name: Arc<str>,
    pub identity: Identity,
    pub certificate: Arc<[u8]>,
    pub disk: Arc<Disk>,
    /// How its machines lie, where it is one that proves things.
    pub deviation: Option<Deviation>,
    pub machine: Option<PartyMachine>,
    /// How often it was started.
    pub life: u32,
    /// Its connection, where it thinks that it has one.
    pub link: Option<u64>,
    /// Whether it has left the job for good, or heard that it is done.
    pub over: bool,
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

impl Party {
    pub fn new(name: &str, certificate: Vec<u8>, identity: Identity) -> Self {
        Self {
            name: name.into(),
            identity,
            certificate: certificate.into(),
            disk: Arc::default(),
            deviation: None,
            machine: None,
            life: 0,
            link: None,
            over: false,
            ends: false,
            untaken: None,
        }
    }

    fn start(&mut self, job: &Job, now: Now, seed: u64) {
        self.life += 1;
        (self.ends, self.untaken) = (false, None);
        let settings = Settings {
            job: job.spec().job.clone(),
            policy: policy(),
            mask_memory: 0,
            location: String::new(),
            initial: (job.spec().initial == InitialModel::FirstParty)
                .then(|| first_values(job, &self.name).into()),
            job_memory: Arc::new(
                self.deviation
                    .clone()
                    .map_or_else(JobMemory::default, |deviation| {
                        JobMemory::misbehaving(Box::new(deviation))
                    }),
            ),
        };
        let number = u64::from(self.life);
        let entropy = seed_bytes(&format!("party {}", self.name), &[seed, number]);
        let records = self.disk.clone();
        let machine =
            PartyMachine::open(settings, self.identity.clone(), Some(records), now, entropy);
        self.machine = Some(machine);
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

/// Who a party is.
pub(super) fn identity(
    name: &str,
    key: &Arc<blindsum_crypto::sign::IdentityKey>,
    anchor: &Arc<TrustAnchor>,
) -> Identity {
    Identity {
        name: name.into(),
        key: key.clone(),
        anchor: anchor.clone(),
        ca: [0; 32],
    }
}

impl World {
    pub(super) fn start_party(&mut self, number: usize) -> Result<(), Broken> {
        let (now, seed, rollback) = (self.now(), self.seed, self.faults.rollback);
        let back = self.dice.chance(rollback).then(|| self.dice.below(12));
        let Some(party) = self.parties.get_mut(number) else {
            return Ok(());
        };
        if party.over {
            return Ok(());
        }
        if let Some(changes) = back.filter(|_| party.life > 0) {
            party.disk = Arc::new(party.disk.restored(changes));
            self.tally.rollbacks += 1;
            self.book.rolled_back(number);
            self.log(format!(
                "party {number} comes back with records of {changes} changes ago"
            ));
        }
        let Some(party) = self.parties.get_mut(number) else {
            return Ok(());
        };
        party.start(&self.job, now, seed);
        let life = party.life;
        self.connect_later(Who::Party(number));
        let at = self.time + self.dice.below(3_000_000);
        let wants = Event::Wants {
            party: number,
            life,
        };
        self.agenda.push(at, wants);
        self.serve_party(number)
    }

    /// Hands something in, where the party lives, and does what it wants done.
    pub(super) fn hand_party(&mut self, number: usize, input: Input) -> Result<(), Broken> {
        let now = self.now();
        if let Some(machine) = self.machine_of(number) {
            machine.handle(now, input);
        }
        self.serve_party(number)
    }

    pub(super) fn machine_of(&mut self, number: usize) -> Option<&mut PartyMachine> {
        self.parties.get_mut(number)?.machine.as_mut()
    }

    /// Does what a party wants done, unless it is killed before.
    pub(super) fn serve_party(&mut self, number: usize) -> Result<(), Broken> {
        while let Some(step) = self.machine_of(number).and_then(PartyMachine::poll) {
            if self.dice.chance(self.faults.kill) {
                self.kill(Who::Party(number));
                return Ok(());
            }
            match step {
                Step::Work(task) => self.task_begins(Who::Party(number), task),
                Step::Effect(effect) => self.carry_out(number, effect)?,
            }
        }
        let wake = self.machine_of(number).and_then(|machine| machine.wake());
        self.wake_later(Who::Party(number), wake);
        Ok(())
    }

    fn carry_out(&mut self, number: usize, effect: Effect) -> Result<(), Broken> {
        let Some(party) = self.parties.get(number) else {
            return Ok(());
        };
        let link = party.link;
        match effect {
            Effect::Send(on, say) => {
                for frame in frames(say) {
                    self.note_said(number, &frame)?;
                    if let Some(frame) = self.perhaps_lie(number, frame) {
                        self.send_up(link.filter(|link| *link == on.0), frame);
                    }
                }
            }
            Effect::Upload {
                round,
                role,
                message,
            } => self.upload(number, role, (round, message))?,
            Effect::Reconnect(on, _) if link != Some(on.0) => {}
            Effect::Reconnect(_, reason) => {
                self.log(format!("party {number} connects again: {reason}"));
                self.hang_up(Who::Party(number));
                self.connect_later(Who::Party(number));
            }
            Effect::Tell(told) => self.tell(number, told)?,
        }
        Ok(())
    }

    fn tell(&mut self, number: usize, told: Told) -> Result<(), Broken> {
        match told {
            Told::Joined(_) => {}
            Told::Held(reason) => {
                self.log(format!("party {number} is told: {reason:?} holds the job"))
            }
            Told::Round(begun) => self.begins(number, &begun)?,
            Told::Refused(error) => {
                self.log(format!("party {number} is told: {error}"));
                self.news(number, &error)?;
                self.hand_party(number, Input::WantRound)?;
            }
            Told::Ended(round, result) => {
                self.give_up_uploads(number, |other| other == round);
                match result {
                    Ok(result) => {
                        self.log(format!("party {number} has the sum of round {round}"));
                        self.tally.results += 1;
                        let (job, of) = (self.job.clone(), (number, round));
                        let life = self.life_of(Who::Party(number));
                        let once = self.book.tells_once(number, life, round);
                        let parties = &self.parties;
                        let number_of =
                            |name: &str| parties.iter().position(|party| *party.name == *name);
                        let kept = self.book.computes(&job, of, &result, &number_of);
                        self.check(once.and(kept))?;
                        return self.take_later(number, round);
                    }
                    Err(error) => {
                        self.log(format!("party {number} is told: {error}"));
                        self.news(number, &error)?;
                    }
                }
                self.hand_party(number, Input::WantRound)?;
            }
            // The caller took too long.
            Told::Dropped(error) => self.log(format!("party {number} is told: {error}")),
            Told::Over(over) => self.party_over(number, over)?,
        }
        Ok(())
    }

    /// A round begins for a party.
    fn begins(&mut self, number: usize, begun: &Begun) -> Result<(), Broken> {
        let (job, of) = (self.job.clone(), (number, begun.number));
        let parties = &self.parties;
        let number_of = |name: &str| parties.iter().position(|party| *party.name == *name);
        let least = job.min_parties();
        let kept = self.book.begins(number, begun, least, &number_of);
        self.check(kept)?;
        let kept = self.book.starts_from(&job, of, &begun.model);
        self.check(kept)?;
        if !begun.needs_update {
            return Ok(());
        }
        self.look_at_leftover(of)?;
        self.train(number, begun.number);
        Ok(())
    }

    /// What the records of a party say that is left of its updates, before a round.
    fn look_at_leftover(&mut self, (number, round): (usize, u64)) -> Result<(), Broken> {
        let Some(party) = self.parties.get(number) else {
            return Ok(());
        };
        let left = kept_leftover(party.disk.clone(), &party.identity, &self.job);
        let left = left.map_err(|e| self.broken(format!("P7: party {number}: {e}")))?;
        let of = (number, round);
        let kept = left.map_or(Ok(()), |left| self.book.has_left(&self.job, of, left));
        self.check(kept)
    }

    /// The caller takes the result, in its own time.
    fn take_later(&mut self, number: usize, round: u64) -> Result<(), Broken> {
        let Some(party) = self.parties.get_mut(number) else {
            return Ok(());
        };
        party.untaken = Some(round);
        let life = party.life;
        let at = self.time + self.dice.below(100_000);
        let event = Event::Took {
            party: number,
            life,
            round,
        };
        self.agenda.push(at, event);
        Ok(())
    }

    /// The caller has taken the result.
    pub(super) fn took(&mut self, number: usize, round: u64) -> Result<(), Broken> {
        let kept = self.book.hears(number, round, News::Sum);
        self.check(kept)?;
        if let Some(party) = self.parties.get_mut(number) {
            party.untaken = None;
        }
        self.log(format!("party {number} has taken the sum of round {round}"));
        self.hand_party(number, Input::Took(round))?;
        self.hand_party(number, Input::WantRound)
    }

    /// What an error says about a round.
    fn news(&mut self, number: usize, error: &JobError) -> Result<(), Broken> {
        let (round, news) = match error {
            JobError::Missed { round, .. } => (*round, News::Missed),
            JobError::Unknown { round, .. } => (*round, News::Unknown),
            JobError::RoundAborted { round, .. } | JobError::Dropped { round, .. } => {
                (*round, News::NoSum)
            }
            JobError::Fault { round, .. } => {
                let liars = [Kind::Liar, Kind::LyingServer];
                if !liars.contains(&self.kind) {
                    return Err(self.broken(format!("P2: somebody honest is blamed: {error}")));
                }
                (*round, News::Fault)
            }
            _ => return Ok(()),
        };
        let kept = self.book.hears(number, round, news);
        self.check(kept)
    }

    fn party_over(&mut self, number: usize, over: Over) -> Result<(), Broken> {
        let (mut ends, mut untaken) = (false, false);
        if let Some(party) = self.parties.get_mut(number) {
            party.over = true;
            party.machine = None;
            (ends, untaken) = (party.ends, party.untaken.is_some());
        }
        self.hang_up(Who::Party(number));
        self.give_up_uploads(number, |_| true);
        match over {
            // The caller is told a result again that it has not taken; and who leaves by itself waits for no last model.
            Over::JobDone { model, .. } if ends && (untaken || model.is_none()) => {
                self.session_ended(number);
                Ok(())
            }
            Over::JobDone { model, .. } => {
                let kept = self.book.ends_with(&self.job, number, model.as_ref());
                self.check(kept)?;
                self.look_at_leftover((number, u64::MAX))
            }
            Over::Left | Over::Failed(_) if ends => {
                self.session_ended(number);
                Ok(())
            }
            Over::Left => Ok(()),
            Over::Failed(error) => {
                self.log(format!("party {number} fails: {error}"));
                match self.may_fail(number) {
                    // Who lies does not give up.
                    true if self.liar == Some(number) => {
                        self.come_again(number);
                        Ok(())
                    }
                    true => Ok(()),
                    false => {
                        Err(self.broken(format!("P5: party {number} fails for good: {error}")))
                    }
                }
            }
        }
    }

    fn come_again(&mut self, number: usize) {
        if let Some(party) = self.parties.get_mut(number) {
            party.over = false;
        }
        let at = self.time + self.dice.below(4_000_000);
        self.agenda.push(at, Event::Start(Who::Party(number)));
    }

    /// The caller makes its update, in its own time; or forgets to.
    fn train(&mut self, number: usize, round: u64) {
        let Some(life) = self.parties.get(number).map(|party| party.life) else {
            return;
        };
        let time = match self.dice.chance(self.faults.careless) {
            true => self.dice.below(20_000_000),
            false => self.dice.below(300_000),
        };
        let event = Event::Trained {
            party: number,
            life,
            round,
        };
        self.agenda.push(self.time + time, event);
    }

    pub(super) fn trained(&mut self, number: usize, round: u64) -> Result<(), Broken> {
        if self.dice.chance(self.faults.careless / 4.0) {
            let why = Absence::SitsOut;
            return self.hand_party(number, Input::Abandon { round, why });
        }
        let life = self.parties.get(number).map_or(0, |party| party.life);
        let numbers = [self.seed, number as u64, round, u64::from(life)];
        let mut rng = stream("update", &numbers);
        let gift = Gift::drawn(&self.job, &mut rng);
        let kept = self.book.gave(&self.job, (number, round), &gift);
        self.check(kept)?;
        let judged = check_update(
            &self.job,
            gift.update(),
            gift.weight,
            &gift.named_metrics(&self.job),
        );
        let update =
            judged.map_err(|error| self.broken(format!("an update that fits: {error}")))?;
        self.hand_party(number, Input::Submit { round, update })
    }
}

/// What a party, or a server, says to the coordinator, as frames: a message of a campaign fits into one.
pub(super) fn frames(say: Say) -> Vec<PartyFrame> {
    use blindsum_job::{chunks, pb};
    match say {
        Say::Frame(frame) => vec![frame],
        Say::Message {
            round,
            stage,
            message,
        } => {
            let total = message.len() as u64;
            let chunk = |(offset, data)| pb::Chunk {
                round,
                stage: stage.into(),
                offset,
                total,
                data,
            };
            chunks::pieces(message)
                .map(|piece| chunk(piece).into())
                .collect()
        }
        Say::Model { version, values } => {
            let total = values.len() as u64;
            let chunk = |(offset, data)| pb::ModelChunk {
                version,
                offset,
                total,
                data,
            };
            chunks::pieces(values)
                .map(|piece| chunk(piece).into())
                .collect()
        }
    }
}
