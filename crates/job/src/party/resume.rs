//! A party that is suspended when its process ends, and resumed in another process as if nothing had happened. Its
//! connection may outlive its processes.
//!
//! The suspended state lets another process go on in a round before its vector is sent, so it may be used only once:
//! two processes that go on from one state would use the same keys for different data. So each suspended state has a
//! mark, higher than all earlier ones, and the host keeps the latest mark apart from the state, where no backup brings
//! back an old one. A state with a lower mark is from a backup: only what an ordinary record may contain is used of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use blindsum_protocol::{Job, PartyId, Tag};
use tracing::warn;

use super::active::Active;
use super::conversation::Conversation;
use super::exchange::Told;
use super::guard::Guard;
use super::member::{Member, Untold, Verdict};
use super::metrics::Reported;
use super::past::Past;
use super::state::{Live, Memory, failed, read};
use super::suspended::{
    KeptModel, KeptPledge, Missed, Part, Requested, RoundUnderWay, Suspended, VERSION, time_at,
    unix_millis_at,
};
use crate::connection::{Connection, Standing};
use crate::orders::Terms;
use crate::pb::{self, RoundKind, RoundRefusalCode};
use crate::records::Records;
use crate::{JobError, Model};

/// The record of a suspended party.
const RECORD: &str = "suspended";
/// What is authenticated with it.
const HEADER: &[u8] = b"blindsum suspended party";

impl Member {
    /// Writes down all that is in memory. Nothing happens to a party that cannot be resumed.
    pub(super) async fn suspend(&mut self) -> Result<(), JobError> {
        let (Some(folder), Some(records)) = (
            self.ctx.store.folder.clone(),
            self.ctx.store.records.clone(),
        ) else {
            return Ok(());
        };
        let Some(marks) = &mut self.ctx.store.marks else {
            return Ok(());
        };
        marks.latest = marks.latest.saturating_add(1);
        let (mark, shown) = (marks.latest, marks.shown.clone());
        let (suspended, mut rng) = (self.suspended(mark), self.ctx.hand.random());
        let write = move || {
            let bytes = suspended.to_bytes();
            let sealed = folder.key().seal(HEADER, &bytes, &mut rng);
            records
                .replace(RECORD, &[&sealed])
                .map_err(|error| failed(&*records, RECORD, error))
        };
        self.ctx.hand.work(write).await??;
        shown.store(mark, Ordering::Relaxed);
        Ok(())
    }

    fn suspended(&self, mark: u64) -> Suspended {
        let (under_way, untaken) = match self.untaken.as_ref() {
            None => (self.under_way(), None),
            Some(untaken) => untaken.again().unzip(),
        };
        let (me, connection) = (&self.ctx.introduction, &self.ctx.connection.own);
        let live = self.ctx.memory.live.as_ref();
        Suspended {
            version: VERSION,
            mark,
            job: self.ctx.settings.job.clone(),
            process: me.process.to_vec(),
            connections: me.connections,
            token: me.token.clone(),
            linked: self.ctx.connection.standing() != Standing::Lost,
            welcomed: self.ctx.connection.is_welcomed(),
            welcome: self.ctx.welcome.clone(),
            newer: connection.newer,
            wanted: self.wanted,
            wanted_tag: self.wanted_tag.map(|tag| tag.number),
            wanted_about: Tag::about_bytes(self.wanted_tag),
            begun: connection.begun,
            sent: self.ctx.memory.draws.latest_sent,
            offer: connection.offer.clone(),
            pledge: self.ready.as_ref().map(KeptPledge::of),
            last_round: self.ctx.memory.last_round,
            live: live.map(|live| live.round),
            answered: live.map_or(0, |live| live.answered),
            certified: live.and_then(|live| live.certified),
            certificates: self.ctx.connection.certificates.all(),
            requested: connection
                .requested
                .as_ref()
                .map(|(name, assembly)| Requested {
                    name: Some(name.clone()),
                    part: assembly.as_ref().map(|assembly| Part::of(0, assembly)),
                }),
            unopened: self.ctx.unopened,
            done: self.done.clone(),
            farewell: self.farewell.map(|time| {
                let (now, unix) = (self.ctx.hand.now(), self.ctx.hand.unix_millis());
                unix_millis_at(time, now, unix)
            }),
            missed: self.missed.as_ref().map(|untold| Missed {
                round: untold.round,
                reason: untold.reason.clone(),
                unknown: untold.verdict == Verdict::Unknown,
                aborted: untold.verdict == Verdict::Aborted,
                dropped: untold.verdict == Verdict::Dropped,
            }),
            // Where its result is told again, it counts as not told.
            gave: connection.gave,
            sealed: connection.sealed.0,
            sealed_times: connection.sealed.1,
            held: self.kept_held(),
            told: self.told.filter(|_| untaken.is_none()),
            clipping_told: self.ctx.given.clipping_told,
            model: self.unkept_model().filter(|_| untaken.is_none()),
            round: under_way,
            untaken,
        }
    }

    /// The model, where no record has it.
    fn unkept_model(&self) -> Option<KeptModel> {
        let model = self.ctx.model.as_ref()?;
        let name = model.name();
        (self.ctx.store.kept.as_ref() != Some(&name)).then(|| KeptModel {
            bytes: model.to_bytes().into(),
            name: Some(name),
        })
    }

    /// Goes on from what was written down, if it was and may be used. It is used up by that.
    pub(super) async fn resume(&mut self) -> Result<(), JobError> {
        let (Some(folder), Some(records)) = (
            self.ctx.store.folder.clone(),
            self.ctx.store.records.clone(),
        ) else {
            return Ok(());
        };
        let Some(sealed) = self.ctx.hand.work(move || take(&*records)).await?? else {
            return Ok(());
        };
        let Some(latest) = self.ctx.store.marks.as_ref().map(|marks| marks.latest) else {
            return Ok(());
        };
        let bytes = folder.key().open(HEADER, &sealed);
        let bytes = bytes.map_err(|_| self.not_resumed("damaged, or of another party"))?;
        let suspended = Suspended::from_bytes(&bytes).map_err(|reason| self.not_resumed(reason))?;
        if suspended.mark < latest {
            warn!(party = %self.ctx.identity.name, mark = suspended.mark, latest,
                "this suspended state is an old one: the round that it was in is given up");
            return Ok(());
        }
        if let Some(marks) = &mut self.ctx.store.marks {
            marks.latest = suspended.mark;
        }
        if suspended.job != self.ctx.settings.job {
            let reason = format!("it is of the job {:?}", suspended.job);
            return Err(self.not_resumed(reason));
        }
        self.recall_all(suspended).await
    }

    fn not_resumed(&self, reason: impl std::fmt::Display) -> JobError {
        let place = self
            .ctx
            .store
            .records
            .as_ref()
            .map(|records| records.place());
        JobError::State {
            path: place.map_or_else(Default::default, |place| place.join(RECORD)),
            reason: format!("{reason}; open the party without a mark to go on from the rest"),
        }
    }

    async fn recall_all(&mut self, mut from: Suspended) -> Result<(), JobError> {
        let process = from.process.as_slice().try_into();
        let process = process.map_err(|_| self.not_resumed("it names no process"))?;
        let me = &mut self.ctx.introduction;
        me.process = process;
        (me.connections, me.token) = (from.connections, std::mem::take(&mut from.token));
        self.ctx.connection = resumed(&mut from);
        self.ctx.memory = Memory {
            last_round: self.ctx.memory.last_round.max(from.last_round),
            live: None,
            draws: self.ctx.memory.draws.clone(),
        };
        let tag = Tag::read(from.wanted_tag, &from.wanted_about);
        let tag = tag.map_err(|reason| self.not_resumed(&reason))?;
        (self.wanted, self.wanted_tag) = (from.wanted, tag);
        let Some(welcome) = from.welcome.take() else {
            return Ok(());
        };
        let job = self.ctx.learn_job(&welcome).await?;
        self.ctx.welcome = Some(welcome);
        self.ctx.memory.last_round = self.ctx.memory.last_round.max(from.last_round);
        // guard: a-party-that-was-suspended-knows-when-it-checked-certificates
        let (answered, certified) = (from.answered, from.certified);
        let under_way = from.round.as_ref().and_then(|round| round.start.as_ref());
        let key_setup = under_way.is_some_and(|start| start.kind() == RoundKind::KeySetup);
        self.ctx.memory.live = from.live.map(|round| Live {
            round,
            answered,
            certified,
            key_setup,
        });
        if let Some(round) = from.sent {
            self.ctx.memory.draws.sends(round);
        }
        self.recall_model(&job, from.model.take()).await?;
        self.done = from.done.take();
        let (now, unix) = (self.ctx.hand.now(), self.ctx.hand.unix_millis());
        // guard: a-suspended-party-knows-the-end-of-its-farewell
        self.farewell = from.farewell.map(|then| time_at(then, now, unix));
        self.ready = from.pledge.take().and_then(KeptPledge::pledge);
        self.ctx.unopened = from.unopened;
        (self.told, self.ctx.given.clipping_told) = (from.told, from.clipping_told);
        let missed = from.missed.take();
        self.missed = missed.map(|missed| Untold {
            round: missed.round,
            reason: missed.reason,
            verdict: match (missed.unknown, missed.aborted, missed.dropped) {
                (true, ..) => Verdict::Unknown,
                (_, true, _) => Verdict::Aborted,
                (.., true) => Verdict::Dropped,
                (.., false) => Verdict::Counts,
            },
        });
        self.ctx.tell(Told::Joined(job));
        self.hears_held(&from.held);
        if let Some(round) = from.round.take() {
            self.recall_round(round, from.untaken.take()).await?;
        }
        Ok(())
    }

    async fn recall_model(&mut self, job: &Job, from: Option<KeptModel>) -> Result<(), JobError> {
        self.ctx.model = match from {
            None => self.ctx.kept_model().await?,
            Some(KeptModel { name, bytes }) => {
                let name = name.unwrap_or_default();
                let read = Model::from_holder(job, &name, &bytes);
                Some(read.map_err(|reason| self.not_resumed(reason))?)
            }
        };
        Ok(())
    }

    /// The round under way; where it cannot go on the coordinator and the caller are told.
    async fn recall_round(
        &mut self,
        from: RoundUnderWay,
        untaken: Option<pb::RoundDone>,
    ) -> Result<(), JobError> {
        let number = from.start.as_ref().map_or(0, |start| start.round);
        // guard: who-cannot-be-resumed-knows-whether-its-update-is-out
        let is_out = from.out.unwrap_or(true);
        match self.relive(from).await {
            Err(reason) => {
                let error = match (&untaken, is_out) {
                    (Some(_), _) => JobError::Missed {
                        round: number,
                        reason: reason.clone(),
                    },
                    (None, true) => JobError::unknown(number, reason.clone()),
                    (None, false) => JobError::Dropped {
                        round: number,
                        reason: reason.clone(),
                    },
                };
                self.give_up(number, reason, error).await
            }
            Ok(()) => match untaken {
                None => {
                    // Perhaps the caller waits for the one after it by now.
                    let wanted = self.wanted;
                    self.tell_begun();
                    self.wanted = wanted;
                    Ok(())
                }
                Some(done) => self.round_done(done).await,
            },
        }
    }

    async fn give_up(
        &mut self,
        round: u64,
        reason: String,
        error: JobError,
    ) -> Result<(), JobError> {
        self.active = None;
        self.ctx.send(pb::RoundRefused {
            round,
            code: RoundRefusalCode::RoundRefusalUnable.into(),
            reason,
            ..pb::RoundRefused::default()
        });
        self.ctx.tell(Told::Ended(round, Err(error)));
        self.drop_round(round, None).await
    }

    async fn relive(&mut self, mut from: RoundUnderWay) -> Result<(), String> {
        let job = self.ctx.job.clone().ok_or("the job is not known")?;
        let (start, steps) = (from.start.take(), from.steps());
        let mut start = start.ok_or("what began it is missing")?;
        let steps = steps.ok_or("a step of it is damaged")?;
        let certified = self.ctx.certified(&mut start, None);
        let round = certified.map_err(|left| left.error(&self.ctx).to_string())?;
        let round = Arc::new(round);
        let me = round.roster().rank_of(&self.ctx.identity.name);
        let me = PartyId(me.ok_or("the roster lacks this party")?);
        let (policy, earlier) = (self.ctx.settings.policy.clone(), self.ctx.sums.groups());
        let guard = Arc::new(Guard::new(policy, round.clone(), earlier));
        let terms = Terms::heard(start.terms.as_ref(), job.spec())?;
        self.enter(round.clone(), me, None, guard.clone(), None, &terms);
        let client = match from.from_snapshot {
            true => Some(
                self.ctx
                    .unsealed(self.ctx.setup(&round, me, &guard, Arc::default()))
                    .await?,
            ),
            false => None,
        };
        let Some(active) = &mut self.active else {
            return Ok(());
        };
        (active.timings, active.clipped) = (from.timings(), from.clipped());
        // Before the result is made of them.
        let known = std::mem::replace(&mut active.warnings, std::mem::take(&mut from.warnings));
        let news = known.into_iter();
        let news = news.filter(|warning| !active.warnings.contains(warning));
        let news: Vec<String> = news.collect();
        active.warnings.extend(news);
        let replayed = active.replay(&mut self.ctx, client, &steps).await;
        replayed.map_err(|left| left.error(&self.ctx).to_string())?;
        active.past = Some(Past {
            start,
            from_snapshot: from.from_snapshot,
            steps,
        });
        let (now, unix) = (self.ctx.hand.now(), self.ctx.hand.unix_millis());
        active.deadline = time_at(from.deadline, now, unix);
        let receiving = from.receiving.take();
        if let Some(receiving) = receiving.and_then(|part| part.receiving(active.number)) {
            self.ctx.connection.resume_receiving(receiving);
        }
        active.recall(from, &job);
        Ok(())
    }
}

/// The connection that the party had, and may still have.
fn resumed(from: &mut Suspended) -> Connection<Conversation> {
    let standing = match (from.linked, from.welcomed) {
        (false, _) => Standing::Lost,
        (true, false) => Standing::Greeting,
        (true, true) => Standing::Welcomed,
    };
    let requested = |requested: Requested| {
        let part = requested.part.and_then(Part::assembly);
        (requested.name.unwrap_or_default(), part)
    };
    let own = Conversation {
        newer: from.newer,
        offer: from.offer.take(),
        begun: from.begun,
        requested: from.requested.take().map(requested),
        gave: from.gave,
        sealed: (from.sealed, from.sealed_times),
    };
    Connection::resumed(standing, std::mem::take(&mut from.certificates), own)
}

/// Takes the record out, where there is one.
fn take(records: &dyn Records) -> Result<Option<Vec<u8>>, JobError> {
    let sealed = read(records, RECORD)?;
    if sealed.is_some() {
        let removed = records.remove(RECORD);
        removed.map_err(|error| failed(records, RECORD, error))?;
    }
    Ok(sealed)
}

impl Active {
    /// What waits for the machine.
    fn recall(&mut self, from: RoundUnderWay, job: &Job) {
        self.unwanted = from.unwanted;
        self.held = from.held.map(Into::into);
        self.update = from.update.and_then(|kept| kept.judged(job));
        if let Some(update) = &self.update {
            self.reported = Reported::of(job, update);
        }
    }
}
