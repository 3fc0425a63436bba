//! What operators have ordered of the job, and what follows from it: whether a round may begin, until when the one under way
//! may last, who is let in, and the job's terms. It is in the store, so that it holds after a restart, too.

use std::collections::BTreeMap;

use blindsum_protocol::{Best, JobSpec};
use serde::{Deserialize, Serialize};

use crate::machine::Time;
use crate::orders::{Changed, Command, LostRound, Order, OrderError, Outcome, Terms};
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
    /// How long the round under way may last after the order, in seconds.
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
    pub fn ban(&self, party: &str, now_ms: u64) -> Option<Option<u64>> {
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
pub struct Ordered {
    /// The job's terms.
    pub terms: Terms,
    /// Why operators let no round begin, for people; empty if they do.
    pub held: String,
}

impl Ordered {
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
pub(super) struct View<'a> {
    pub job: &'a str,
    pub state: JobState,
    pub rounds_done: u64,
    /// The number of the next round.
    pub next_round: u64,
    /// Whether a metric has ended the job.
    pub is_early: bool,
    /// The round under way.
    pub round: Option<u64>,
    pub now: Time,
    pub now_ms: u64,
    /// Whether the party that the order names is known.
    pub is_known: bool,
    /// The round under way, where it cannot do without that party.
    pub ends: Option<LostRound>,
}

impl Operator {
    /// What is ordered after this order, and what becomes of it; or why it is refused.
    pub fn after(&self, order: &Order, view: &View<'_>) -> Result<(Self, Outcome), OrderError> {
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

fn is_none(round: &u64) -> bool {
    *round == 0
}
