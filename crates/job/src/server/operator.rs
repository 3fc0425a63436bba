//! What operators have ordered of the job, and what follows from it: whether a round may begin, until when the one under way
//! may last, who is let in, and the job's terms. It is in the store, so that it holds after a restart, too.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::calendar::utc;
use blindsum_protocol::{Best, JobSpec};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::face::Effect;
use super::lost::Lost;
use super::phase::Phase;
use super::trouble::Trouble;
use super::{Halt, Lead};
use crate::machine::Time;
use crate::orders::{Changed, Command, LostRound, Order, OrderError, OrderId, Outcome, Terms};
use crate::pb::{RefusalCode, Refused};
use crate::report::JobState;
use crate::{foreign, seconds};

/// What operators have ordered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Operator {
    pub terms: Terms,
    /// Who paused the job and why, for people; empty while it is not paused.
    paused: String,
    /// Whether the job was ended before its rounds were done.
    ended: bool,
    /// Until when parties are left out, in milliseconds since 1970-01-01 UTC; `None` until that is taken back.
    bans: BTreeMap<String, Option<u64>>,
    /// The first round after a job went on that a metric had ended; rounds without a gain count from it on.
    #[serde(default, skip_serializing_if = "is_none")]
    counts_from: u64,
    /// How long the round under way may last, while no other one begins.
    #[serde(skip)]
    drain: Option<Drain>,
}

/// A job that drains.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Drain {
    /// Until when the round under way may last.
    until: Time,
    /// The same in seconds after the order.
    within: f64,
}

impl Operator {
    /// Nothing was ordered.
    pub fn of(spec: &JobSpec) -> Self {
        Self {
            terms: Terms::of(spec),
            paused: String::new(),
            ended: false,
            bans: BTreeMap::new(),
            counts_from: 0,
            drain: None,
        }
    }

    /// What the store has; nothing was ordered where it has nothing.
    ///
    /// # Errors
    /// It cannot be read: a job that an operator has paused must not go on by itself.
    pub fn stored(spec: &JobSpec, bytes: &[u8]) -> Result<Self, String> {
        match bytes {
            [] => Ok(Self::of(spec)),
            bytes => serde_json::from_slice(bytes)
                .map_err(|error| format!("job {}: what operators have ordered: {error}", spec.job)),
        }
    }

    /// Whether the job stops once no round is under way.
    pub fn drains(&self) -> bool {
        self.drain.is_some()
    }

    /// Until when the round under way may last.
    pub fn drained_by(&self) -> Option<Time> {
        Some(self.drain?.until)
    }

    /// How many seconds the round under way may last, if its time is over.
    pub fn drained_after(&self, now: Time) -> Option<f64> {
        let drain = self.drain.filter(|drain| drain.until <= now)?;
        Some(drain.within)
    }

    /// Whether no round begins until the job is resumed.
    pub fn is_paused(&self) -> bool {
        !self.paused.is_empty()
    }

    /// Whether no more rounds are wanted.
    pub fn is_over(&self, rounds_done: u64) -> bool {
        self.ended || self.terms.are_met_by(rounds_done)
    }

    /// The best value of the metric that may end the job, as the report before the round `next` has it, with the rounds
    /// without a gain that count.
    pub fn counted(&self, best: Best, next: u64) -> Best {
        match next <= self.counts_from {
            true => Best {
                without_gain: 0,
                ..best
            },
            false => best,
        }
    }

    /// Why no round begins, for people; empty where operators have nothing against one.
    pub fn held(&self) -> String {
        match self.drains() {
            true => "the job stops here: it drains".into(),
            false => self.paused.clone(),
        }
    }

    /// Until when a party is banned that is, in milliseconds since 1970-01-01 UTC.
    fn ban(&self, party: &str, now_ms: u64) -> Option<Option<u64>> {
        let until = self.bans.get(party).copied()?;
        until.is_none_or(|until| until > now_ms).then_some(until)
    }

    /// Who is banned, and until when, in milliseconds since 1970-01-01 UTC.
    pub fn banned(&self, now_ms: u64) -> BTreeMap<String, Option<u64>> {
        let names = self.bans.keys();
        let banned = names.filter_map(|name| Some((name.clone(), self.ban(name, now_ms)?)));
        banned.collect()
    }
}

/// What operators have ordered of a job, as a store tells it.
pub struct Standing {
    /// The job's terms.
    pub terms: Terms,
    /// Why operators let no round begin, for people; empty if they do.
    pub held: String,
}

impl Standing {
    /// Reads [`StoredJob::operator`](crate::store::StoredJob::operator).
    ///
    /// # Errors
    /// It is damaged.
    pub fn read(spec: &JobSpec, stored: &[u8]) -> Result<Self, String> {
        let operator = Operator::stored(spec, stored)?;
        let (terms, held) = (operator.terms, operator.held());
        Ok(Self { terms, held })
    }
}

/// How a job stands when an order comes.
struct View<'a> {
    job: &'a str,
    state: JobState,
    rounds_done: u64,
    /// The number of the next round.
    next_round: u64,
    /// Whether a metric has ended the job.
    is_early: bool,
    /// The round under way.
    round: Option<u64>,
    now: Time,
    now_ms: u64,
    /// Whether the party that the order names is known.
    is_known: bool,
    /// The round under way, where it cannot do without that party.
    ends: Option<LostRound>,
}

impl Operator {
    /// What is ordered after this order, and what becomes of it; or why it is refused.
    fn after(&self, order: &Order, view: &View<'_>) -> Result<(Self, Outcome), OrderError> {
        order.check()?;
        let (mut after, round) = (self.clone(), view.round);
        let outcome = match &order.command {
            Command::Drain { within } => {
                let within = within.unwrap_or(self.terms.input_deadline);
                after.drain = Some(Drain {
                    until: view.now + seconds(within),
                    within,
                });
                Outcome::Draining { round, within }
            }
            Command::Pause {} => {
                let advice = "only a running job can be paused";
                view.must_be(order, &[JobState::Running], advice)?;
                let paused = format!(
                    "it is paused already ({}): `blindsum admin resume {}` lets it go on",
                    self.paused, view.job
                );
                view.must_change(order, !self.is_paused(), &paused)?;
                after.paused = format!(
                    "paused by {}: {}",
                    foreign(&order.by),
                    foreign(&order.reason)
                );
                Outcome::Paused { round }
            }
            Command::Resume {} => {
                let advice = "give it more rounds with extend, or begin another job";
                view.must_be(order, &[JobState::Running, JobState::Failed], advice)?;
                let drains = "it drains: it goes on when its coordinator is started again";
                view.must_change(order, !self.drains(), drains)?;
                let changes = self.is_paused() || view.state == JobState::Failed;
                view.must_change(order, changes, "it is not paused")?;
                after.paused.clear();
                Outcome::Resumed
            }
            Command::Extend(change) => {
                after.terms = change.of(self.terms);
                let is_more =
                    after.terms.rounds == 0 || u64::from(after.terms.rounds) > view.rounds_done;
                if !is_more {
                    let (command, field) = (order.command.name(), "rounds");
                    let (rounds, done) = (after.terms.rounds, view.rounds_done);
                    let rule = format!(
                        "is {rounds}, and {done} rounds are done: name more than {done}; to end the job there is end"
                    );
                    return Err(OrderError::Value {
                        command,
                        field,
                        rule,
                    });
                }
                after.ended = false;
                let changes = after.terms != self.terms || self.ended || view.is_early;
                if view.is_early {
                    after.counts_from = view.next_round;
                }
                view.must_change(order, changes, "its terms are these already")?;
                Outcome::Extended(Changed {
                    before: self.terms,
                    after: after.terms,
                })
            }
            Command::End {} => {
                let advice = "only a running job can be ended";
                view.must_be(order, &[JobState::Running], advice)?;
                view.must_change(order, !self.ended, "it ends already")?;
                after.ended = true;
                after.paused.clear();
                Outcome::Ended { round }
            }
            Command::Ban { party, seconds } => {
                let until =
                    seconds.map(|seconds| view.now_ms.saturating_add((seconds * 1000.0) as u64));
                after.bans.insert(party.clone(), until);
                let (party, seconds) = (foreign(party), *seconds);
                let (is_known, ends) = (view.is_known, view.ends);
                Outcome::Banned {
                    party,
                    seconds,
                    is_known,
                    ends,
                }
            }
            Command::Unban { party } => {
                let what = format!("{} is not banned", foreign(party));
                view.must_change(order, self.ban(party, view.now_ms).is_some(), &what)?;
                after.bans.remove(party);
                let party = foreign(party);
                Outcome::Unbanned { party }
            }
        };
        after
            .bans
            .retain(|_, until| until.is_none_or(|until| until > view.now_ms));
        Ok((after, outcome))
    }
}

impl View<'_> {
    fn must_be(
        &self,
        order: &Order,
        states: &[JobState],
        advice: &'static str,
    ) -> Result<(), OrderError> {
        match states.contains(&self.state) {
            true => Ok(()),
            false => Err(OrderError::State {
                command: order.command.name(),
                job: self.job.into(),
                state: self.state,
                advice,
            }),
        }
    }

    fn must_change(&self, order: &Order, changes: bool, what: &str) -> Result<(), OrderError> {
        match changes {
            true => Ok(()),
            false => Err(OrderError::Unchanged {
                command: order.command.name(),
                job: self.job.into(),
                what: what.into(),
            }),
        }
    }
}

impl Lead {
    /// Carries out an order, or says why not. Either is recorded before anything changes.
    pub(super) async fn ordered(&mut self, id: OrderId, order: &Order) {
        let outcome = self.carry_out(order).await;
        let (by, reason) = (foreign(&order.by), foreign(&order.reason));
        let (job, command) = (&self.context.name, order.command.name());
        match &outcome {
            Ok(outcome) => {
                info!(%job, %by, order = command, %reason, %outcome, "ordered");
            }
            Err(error) => {
                warn!(%job, %by, order = command, %reason, outcome = %error,
                    "order refused");
            }
        }
        self.context.say(Effect::Ordered { id, outcome });
    }

    /// Whether a party of this name is here, or was lately.
    fn knows(&self, party: &str) -> bool {
        let latest = &self.context.board.status().round;
        self.members.knows(party)
            || latest
                .as_ref()
                .is_some_and(|round| round.parties.iter().any(|name| name == party))
    }

    /// The round under way, where it gives no sum without this party.
    fn ended_without(&self, party: &str) -> Option<LostRound> {
        let running = self.phase.running()?;
        running.id(party).filter(|id| !running.is_gone(*id))?;
        let left = running.left().saturating_sub(1);
        let needed = match self.context.job().needs_everybody() {
            true => running.names().len(),
            false => self.context.spec().least_survivors(),
        };
        (left < needed).then(|| LostRound {
            round: running.number(),
            left,
            needed,
        })
    }

    async fn carry_out(&mut self, order: &Order) -> Result<Outcome, OrderError> {
        let view = View {
            job: &self.context.name,
            state: self.phase.state(),
            rounds_done: self.rounds.done,
            next_round: self.rounds.next,
            is_early: self.rounds.ended_by_metric(self.context.spec()).is_some(),
            round: self.phase.running().map(|running| running.number()),
            now: self.context.now(),
            now_ms: self.context.unix_millis(),
            is_known: order.command.bans().is_some_and(|party| self.knows(party)),
            ends: order
                .command
                .bans()
                .and_then(|party| self.ended_without(party)),
        };
        let is_early = view.is_early;
        let (after, outcome) = match self.operator.after(order, &view) {
            Ok((after, outcome)) => (after, Ok(outcome)),
            Err(error) => (self.operator.clone(), Err(error)),
        };
        let record = order.record(self.context.unix_millis(), &outcome);
        let unwritable = |error: serde_json::Error| OrderError::NotRecorded {
            reason: error.to_string(),
        };
        let bytes = serde_json::to_vec(&after).map_err(unwritable)?;
        let stored = self
            .context
            .stored(move |store, job| store.order(job, &bytes, &record));
        stored.await.map_err(not_recorded)?;
        let outcome = outcome?;
        let before = self.operator.held();
        self.operator = after;
        let held = self.operator.held();
        if held != before {
            self.members.tell_held(&held);
        }
        if matches!(order.command, Command::Extend(_)) && is_early {
            self.rounds.count_anew();
        }
        match &order.command {
            Command::Ban { party, .. } => self.expel_banned(&party.as_str().into()),
            Command::Resume {} if self.phase.state() == JobState::Failed => self.reopen().await?,
            Command::Extend(_) if self.phase.state() == JobState::Done => self.reopen().await?,
            _ => {}
        }
        self.publish(None);
        Ok(outcome)
    }

    /// A job that was over goes on.
    async fn reopen(&mut self) -> Result<(), OrderError> {
        let stored = self
            .context
            .stored(|store, job| store.set_job_state(job, JobState::Running, ""));
        stored.await.map_err(not_recorded)?;
        self.phase = Phase::Gathering;
        self.trouble = Trouble::default();
        Ok(())
    }

    /// What a party hears that operators have banned.
    pub(super) fn banned(&self, name: &str) -> Option<Refused> {
        let now = self.context.unix_millis();
        let reason = match self.operator.ban(name, now)? {
            Some(until) => format!(
                "an operator of the coordinator has banned this party until {}",
                utc(until.div_ceil(1000))
            ),
            None => "an operator of the coordinator has banned this party".into(),
        };
        Some(Refused::new(RefusalCode::RefusalBanned, reason))
    }

    /// A banned party has gone at once; the round under way does without it.
    fn expel_banned(&mut self, name: &Arc<str>) {
        let Some(refusal) = self.banned(name) else {
            return;
        };
        self.expel(name, refusal);
        self.give_up(name, Lost::banned(self.context.now()));
    }

    /// An error where operators want no round to begin.
    pub(super) fn may_begin(&self) -> Result<(), Halt> {
        match self.operator.is_paused() || self.rounds.are_over(&self.operator, self.context.spec())
        {
            true => Err(Halt::Held(match self.operator.is_paused() {
                true => format!("the job was {}", self.operator.held()),
                false => "an operator has ended the job".into(),
            })),
            false => Ok(()),
        }
    }

    /// Whether a job that drains may stop now: no round is under way, and whoever is here and in the latest sum has
    /// confirmed it; or its time is over.
    pub(super) fn is_drained(&self) -> bool {
        let Some(until) = self.operator.drained_by() else {
            return false;
        };
        let is_here = |name: &String| self.members.has(name.as_str());
        let waits = self.phase.running().is_some() || self.ended.unconfirmed().iter().any(is_here);
        !waits || until <= self.context.now()
    }

    /// Until the job drains or is resumed. Nobody loses patience meanwhile.
    pub(super) async fn wait_while_held(&mut self) -> Result<(), Halt> {
        while self.operator.is_paused() || self.operator.drains() {
            if let Some(input) = self.next_input(None).await? {
                self.handle(input).await;
            }
        }
        Ok(())
    }

    /// A job that has failed, or is done, waits until an order lets it go on.
    pub(super) async fn wait_for_reopening(&mut self) -> Result<(), Halt> {
        while self.phase.state() != JobState::Running {
            let until = self.ended.write_at();
            if let Some(input) = self.next_input(until).await? {
                self.handle(input).await;
            }
            // Also where there is always another input.
            if until.is_some_and(|until| until <= self.context.now()) {
                self.ended.write_confirmed(&self.context).await?;
            }
        }
        Ok(())
    }
}

fn is_none(round: &u64) -> bool {
    *round == 0
}

fn not_recorded(halt: Halt) -> OrderError {
    let reason = match halt {
        Halt::Broken(error) => error.for_others(),
        other => other.reason().into(),
    };
    OrderError::NotRecorded { reason }
}
