//! Orders of operators are carried out.

use tracing::{info, warn};

use super::Halt;
use super::api::Effect;
use super::lost::{Lost, LostBy};
use super::operator::View;
use super::phase::Phase;
use super::state::State;
use super::trouble::Trouble;
use crate::foreign;
use crate::orders::{Command, LostRound, Order, OrderError, OrderId, Outcome};
use crate::report::JobState;

impl State {
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
            is_known: order.command.bans().is_some_and(|party| knows(self, party)),
            ends: order
                .command
                .bans()
                .and_then(|party| ended_without(self, party)),
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
        let stored = (self.context).stored(move |store, job| store.order(job, &bytes, &record));
        stored.await.map_err(not_recorded)?;
        let outcome = outcome?;
        let before = self.operator.held();
        self.operator = after;
        let held = self.operator.held();
        if held != before {
            self.connections.tell_held(&held);
        }
        if matches!(order.command, Command::Extend(_)) && is_early {
            self.rounds.count_anew();
        }
        match &order.command {
            Command::Ban { party, .. } => {
                // A banned party has gone at once; the round under way does without it.
                if let Some(refusal) = self.banned(party) {
                    self.expel(party, refusal);
                    self.give_up(party, Lost::new(self.context.now(), LostBy::Banned));
                }
            }
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
}

/// Whether a party of this name is here, or was lately.
fn knows(state: &State, party: &str) -> bool {
    let latest = &state.context.board.status().round;
    state.connections.knows(party)
        || latest
            .as_ref()
            .is_some_and(|round| round.parties.iter().any(|name| name == party))
}

/// The round under way, where it gives no sum without this party.
fn ended_without(state: &State, party: &str) -> Option<LostRound> {
    let running = state.phase.running()?;
    running.id(party).filter(|id| !running.is_gone(*id))?;
    let left = running.left().saturating_sub(1);
    let needed = match state.context.job().needs_everybody() {
        true => running.names().len(),
        false => state.context.spec().least_survivors(),
    };
    (left < needed).then(|| LostRound {
        round: running.number(),
        left,
        needed,
    })
}

fn not_recorded(halt: Halt) -> OrderError {
    let reason = match halt {
        Halt::Broken(error) => error.for_others(),
        other => other.reason().into(),
    };
    OrderError::NotRecorded { reason }
}
