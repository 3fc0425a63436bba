//! A party that is suspended when its process ends, and resumed in another process as if nothing had happened. Its
//! connection may outlive its processes.
//!
//! The suspended state lets another process go on in a round before its vector is sent, so it may be used only once:
//! two processes that go on from one state would use the same keys for different data. So each suspended state has a
//! mark, higher than all earlier ones, and the host keeps the latest mark apart from the state, where no backup brings
//! back an old one. A state with a lower mark is from a backup: only what an ordinary record may contain is used of it.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use blindsum_protocol::{Answer, PartyId, Tag};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use tracing::warn;

use super::computed::Computed;
use super::context::{Context, PROCESS_LEN};
use super::done::Done;
use super::exchange::Told;
use super::job_party::JobParty;
use super::left::Left;
use super::metrics::Reported;
use super::opened::Opened;
use super::participation::{Participation, guard_of};
use super::pledge::Pledge;
use super::records::{Memory, failed, read};
use super::replay_log::{ReplayLog, ReplayStep};
use super::sparse::Sparse;
use super::state::State;
use super::stepping::Outcome;
use super::steps::Step;
use super::store::Store;
use super::suspended::{
    KeptModel, KeptPledge, KeptUpdate, RoundUnderWay, Suspended, VERSION, time_at, unix_millis_at,
};
use crate::connection::{Certificates, Connection};
use crate::orders::Terms;
use crate::pb;
use crate::records::Records;
use crate::{JobError, Model};

/// The record of a suspended party.
const RECORD: &str = "suspended";
/// What is authenticated with it.
const HEADER: &[u8] = b"blindsum suspended party";

impl Store {
    /// The latest suspended state, if it was written and may be used. It is used up by that.
    async fn take_suspended(&mut self, party: &str) -> Result<Option<Suspended>, JobError> {
        let (Some(folder), Some(records)) = (self.folder.clone(), self.records.clone()) else {
            return Ok(None);
        };
        let sealed = self.hand.work(move || take(&*records)).await??;
        let (Some(sealed), Some(marks)) = (sealed, &mut self.marks) else {
            return Ok(None);
        };
        let latest = marks.latest;
        let bytes = folder.key().open(HEADER, &sealed);
        let bytes = bytes.map_err(|_| self.not_resumed("damaged, or of another party"))?;
        let suspended = Suspended::from_bytes(&bytes).map_err(|reason| self.not_resumed(reason))?;
        if suspended.mark < latest {
            warn!(%party, mark = suspended.mark, latest,
                "this suspended state is an old one: the round that it was in is given up");
            return Ok(None);
        }
        if let Some(marks) = &mut self.marks {
            marks.latest = suspended.mark;
        }
        Ok(Some(suspended))
    }

    fn not_resumed(&self, reason: impl Display) -> JobError {
        let place = self.records.as_ref().map(|records| records.place());
        JobError::State {
            path: place.map_or_else(Default::default, |place| place.join(RECORD)),
            reason: format!("{reason}; open the party without a mark to go on from the rest"),
        }
    }
}

impl JobParty {
    /// Writes down all that is in memory. Nothing happens to a party that cannot be resumed.
    pub(super) async fn suspend(&mut self) -> Result<(), JobError> {
        let store = &mut self.ctx.store;
        let (Some(folder), Some(records), Some(marks)) = (
            store.folder.clone(),
            store.records.clone(),
            &mut store.marks,
        ) else {
            return Ok(());
        };
        marks.latest = marks.latest.saturating_add(1);
        let (mark, shown) = (marks.latest, marks.shown.clone());
        let (suspended, mut rng) = (suspended(self, mark), self.ctx.hand.random());
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

    /// Goes on from what was written down, if it was and may be used.
    pub(super) async fn resume(&mut self) -> Result<(), JobError> {
        let ctx = &mut self.ctx;
        let Some(suspended) = ctx.store.take_suspended(&ctx.identity.name).await? else {
            return Ok(());
        };
        if suspended.job != ctx.settings.job {
            let reason = format!("it is of the job {:?}", suspended.job);
            return Err(ctx.store.not_resumed(reason));
        }
        self.recall_all(suspended).await
    }

    async fn recall_all(&mut self, mut from: Suspended) -> Result<(), JobError> {
        let ctx = &mut self.ctx;
        if from.introduction.process.len() != PROCESS_LEN {
            return Err(ctx.store.not_resumed("it names no process"));
        }
        ctx.connection = Connection::resumed(from.standing());
        ctx.connection.certificates = Certificates::known(std::mem::take(&mut from.certificates));
        ctx.connection.receiving = from.receiving.take();
        (ctx.connection.own, ctx.introduction) = (from.conversation, from.introduction);
        ctx.memory = Memory {
            last_round: ctx.memory.last_round.max(from.last_round),
            live: None,
            draws: ctx.memory.draws.clone(),
        };
        let tag = Tag::read(from.wanted_tag, &from.wanted_about);
        let tag = tag.map_err(|reason| ctx.store.not_resumed(&reason))?;
        (self.wish.waits, self.wish.tag) = (from.wanted, tag);
        let Some(welcome) = from.welcome.take() else {
            return Ok(());
        };
        let job = ctx.learn_job(&welcome).await?;
        ctx.welcome = Some(welcome);
        ctx.memory.last_round = ctx.memory.last_round.max(from.last_round);
        // guard: a-party-that-was-suspended-knows-when-it-checked-certificates
        ctx.memory.live = from.live.take();
        if let Some(round) = from.sent {
            ctx.memory.draws.sends(round);
        }
        ctx.model = match from.model.take() {
            None => ctx.kept_model().await?,
            Some(KeptModel { name, bytes }) => {
                let read = Model::from_holder(&job, &name.unwrap_or_default(), &bytes);
                Some(read.map_err(|reason| ctx.store.not_resumed(reason))?)
            }
        };
        self.done = from.done.take().map(|last| Done {
            last,
            reason: String::new(),
            // guard: a-suspended-party-knows-the-end-of-its-farewell
            farewell: from.farewell.map(|then| time_at(then, &ctx.hand)),
        });
        if let Some(pledge) = from.pledge.take() {
            self.state = pledge.state();
        }
        ctx.unopened = from.unopened;
        (self.told, ctx.given.clipping_told) = (from.told, from.clipping_told);
        self.missed = from.missed.take();
        ctx.tell(Told::Joined(job));
        self.hears_held(&from.held);
        if let Some(round) = from.round.take() {
            self.recall_round(round, from.untaken.take()).await?;
        }
        Ok(())
    }

    /// The round under way; where it cannot go on the coordinator and the caller are told.
    async fn recall_round(
        &mut self,
        from: RoundUnderWay,
        untaken: Option<pb::RoundDone>,
    ) -> Result<(), JobError> {
        let round = from.start.as_ref().map_or(0, |start| start.round);
        // guard: who-cannot-be-resumed-knows-whether-its-update-is-out
        let is_out = from.out.unwrap_or(true);
        match State::relive(&mut self.ctx, from).await {
            Ok(state) => {
                self.missed.take_if(|missed| missed.round == round);
                if untaken.is_none() {
                    // Perhaps the caller waits for the one after it by now.
                    state.tell_begun(&self.ctx);
                }
                self.state = state;
                match untaken {
                    None => Ok(()),
                    Some(done) => self.round_done(done).await,
                }
            }
            Err(reason) => {
                self.ctx.unable(round, &reason);
                let error = match (untaken, is_out) {
                    (Some(_), _) => JobError::Missed { round, reason },
                    (None, true) => JobError::unknown(round, reason),
                    (None, false) => JobError::Dropped { round, reason },
                };
                self.ctx.tell(Told::Ended(round, Err(error)));
                self.drop_round(round, None).await
            }
        }
    }
}

impl State {
    /// The round that the party was in, with its machine where it was.
    async fn relive(ctx: &mut Context, mut from: RoundUnderWay) -> Result<Self, String> {
        let job = ctx.job.clone().ok_or("the job is not known")?;
        let (start, steps) = (from.start.take(), from.steps());
        let mut start = start.ok_or("what began it is missing")?;
        let steps = steps.ok_or("a step of it is damaged")?;
        let certified = ctx.certified(&mut start, None);
        let round = certified.map_err(|left| left.error(ctx).to_string())?;
        let round = Arc::new(round);
        let me = round.roster().rank_of(&ctx.identity.name);
        let me = PartyId(me.ok_or("the roster lacks this party")?);
        let guard = guard_of(ctx, &round);
        let terms = Terms::heard(start.terms.as_ref(), job.spec())?;
        let mut of = Participation::enter(ctx, round, me, None, guard, &terms);
        if from.from_snapshot {
            of.client = Some(ctx.store.unsealed(of.setup(ctx)).await?);
        }
        (of.timings, of.clipped) = (from.timings, from.clipped);
        // Before the result is made of them.
        let mut warnings = std::mem::take(&mut from.warnings);
        of.warnings.retain(|news| !warnings.contains(news));
        warnings.append(&mut of.warnings);
        of.warnings = warnings;
        let replayed = of.replay(ctx, &steps).await;
        let outcome = replayed.map_err(|left| left.error(ctx).to_string())?;
        of.log = Some(ReplayLog {
            start,
            from_snapshot: from.from_snapshot,
            steps,
        });
        of.deadline = time_at(from.deadline, &ctx.hand);
        of.unwanted = from.unwanted;
        let mut state = match outcome {
            Some(outcome) => Self::Computed(Box::new(Computed::new(of, outcome))),
            None => Self::enter(of),
        };
        if let Self::Working(working) = &mut state {
            // What waits for the machine.
            working.held = from.held.map(Into::into);
            working.update = from.update.and_then(|kept| kept.judged(&job));
            if let Some(update) = &working.update {
                working.of.reported = Reported::of(&job, update);
            }
        }
        Ok(state)
    }

    /// The round that the party is in, as it is written down.
    fn under_way(&self, ctx: &Context) -> Option<RoundUnderWay> {
        let mut under_way = RoundUnderWay::of(self.participation()?, self.may_count(), ctx)?;
        if let Self::Working(working) = self {
            under_way.held = working.held.as_ref().map(|message| message.to_vec());
            under_way.update = working.update.as_ref().map(KeptUpdate::of);
        }
        Some(under_way)
    }

    /// What the party is ready with, as it is written down.
    fn pledge(&self) -> Option<KeptPledge> {
        let Pledge { ready, nonce } = self.ready()?;
        Some(KeptPledge {
            ready: ready.clone(),
            nonce: nonce.clone(),
            opened: match self {
                Self::Opened(opened) => Some(opened.fixed().clone()),
                _ => None,
            },
        })
    }
}

impl KeptPledge {
    fn state(self) -> State {
        let Self {
            ready,
            nonce,
            opened,
        } = self;
        let pledge = Pledge { ready, nonce };
        match opened {
            Some(fixed) => State::Opened(Box::new(Opened::new(pledge, fixed))),
            None => State::Ready(Box::new(pledge)),
        }
    }
}

impl Participation {
    /// Brings the machine to where it was in the process before; gives what it ended with, if it did. Nothing of it is said
    /// again.
    async fn replay(
        &mut self,
        ctx: &mut Context,
        steps: &[ReplayStep],
    ) -> Result<Option<Outcome>, Left> {
        let mut outcome = None;
        for logged in steps {
            let step = Step {
                client: self.client.take(),
                setup: self.setup(ctx),
                message: logged.message.clone(),
                update: None,
                leftover: ctx.given.sparse.as_ref().map(Sparse::leftover).cloned(),
                state: None,
                rng: ChaCha20Rng::from_seed(*logged.seed),
            };
            let stepped = ctx.hand.work(move || step.run()).await?;
            // What it allowed then is remembered already.
            self.guard.judged();
            self.client = stepped.client;
            match stepped.answer {
                Ok(Answer::Done(sum)) => {
                    let told = logged.message.clone().unwrap_or_default();
                    outcome = Some(self.outcome_of(ctx, sum, told).await?);
                }
                Ok(Answer::KeyHeld(_)) => outcome = Some(Outcome::KeyHeld),
                Ok(_) => {}
                Err(fault) => {
                    let round = self.number();
                    return Err(JobError::Fault { round, fault }.into());
                }
            }
        }
        Ok(outcome)
    }
}

/// All that a party has in memory.
fn suspended(party: &JobParty, mark: u64) -> Suspended {
    let (under_way, untaken) = match &party.state {
        State::Untaken(untaken) => untaken.again().unzip(),
        state => (state.under_way(&party.ctx), None),
    };
    let (ctx, done) = (&party.ctx, party.done.as_ref());
    let is_unkept = |name: &pb::ModelName| ctx.store.kept.as_ref() != Some(name);
    let unkept = ctx.model.as_ref().filter(|model| is_unkept(&model.name()));
    Suspended {
        version: VERSION,
        mark,
        job: ctx.settings.job.clone(),
        introduction: ctx.introduction.clone(),
        standing: ctx.connection.standing().into(),
        conversation: ctx.connection.own.clone(),
        certificates: ctx.connection.certificates.all(),
        receiving: ctx.connection.receiving.clone(),
        welcome: ctx.welcome.clone(),
        wanted: party.wish.waits,
        wanted_tag: party.wish.tag.map(|tag| tag.number),
        wanted_about: Tag::about_bytes(party.wish.tag),
        pledge: party.state.pledge(),
        last_round: ctx.memory.last_round,
        live: ctx.memory.live.clone(),
        sent: ctx.memory.draws.latest_sent,
        unopened: ctx.unopened,
        done: done.map(|done| done.last.clone()),
        farewell: done
            .and_then(|done| done.farewell)
            .map(|time| unix_millis_at(time, &ctx.hand)),
        missed: party.missed.clone(),
        held: party.held.latest.clone(),
        // Where its result is told again, it counts as not told.
        told: party.told.filter(|_| untaken.is_none()),
        clipping_told: ctx.given.clipping_told,
        model: unkept.filter(|_| untaken.is_none()).map(|model| KeptModel {
            bytes: model.to_bytes().into(),
            name: Some(model.name()),
        }),
        round: under_way,
        untaken,
    }
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
