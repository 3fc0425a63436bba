//! The end of a round at the coordinator: with a result, which is stored before anybody is told, or without one.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_encode::EncodeError;
use blindsum_protocol::{Outcome, Outgoing, Round, RoundKind, Seat};
use tracing::{info, warn};

use super::connections::over;
use super::counting::count_down;
use super::faults::found_out;
use super::finished::finish;
use super::phase::Phase;
use super::state::State;
use super::trouble::WAITS;
use super::{Coordinator, Halt};
use crate::Model;
use crate::pb;
use crate::report::{RoundReport, RoundState};
use crate::results::{LearntResult, keep};
use crate::store::Ending;

/// Where a coordinator keeps results, for its status, which parties may ask for.
const RESULTS_FOLDER: &str =
    "in the coordinator's results folder (see to it; the coordinator's log has the path)";

impl Coordinator {
    /// The sum is there: the mean, the next model, the record, and then the news.
    pub(super) async fn finish_round(
        &mut self,
        round: &Arc<Round>,
        stage: u8,
        outcome: Outcome,
        messages: Vec<(Seat, Outgoing)>,
    ) -> Result<(), Halt> {
        let (of, model) = (round.clone(), self.state.models.current.clone());
        // All are told the same, and none of it is passed on from a shelf.
        let message = messages.first().map(|(_, message)| message.head.clone());
        let told = message.clone().unwrap_or_default();
        let has_integers = self.state.context.spec().encoding.integer_bits().is_some();
        let wanted = self.state.context.parts.results.is_some()
            || (self.state.calls.is_hosted && has_integers);
        let finished = self
            .state
            .context
            .hand
            .work(move || finish(&of, &model, outcome, &told, wanted));
        let mut finished = finished.await?.map_err(|error| match error {
            EncodeError::Model { .. } => Halt::Aborted(error.to_string()),
            other => Halt::Aborted(format!("no honest parties can have this sum: {other}")),
        })?;
        let mean = finished.mean.take().filter(|_| self.state.calls.is_hosted);
        let learnt = match finished.learnt.take() {
            Some(learnt) => Some(self.keep_result(round.number(), learnt).await?),
            None => None,
        };
        let state = &mut self.state;
        for member in round.roster().members() {
            state
                .connections
                .settle(&member.name, state.phase.running_mut());
            state.back_off.conduct.kept(&member.name);
        }
        found_out(state, round.number(), &finished.outcome.faults).await;
        count_down(&state.context, state.phase.running_mut(), &messages);
        let Some(running) = state.phase.running_mut() else {
            return Err(Halt::Aborted("the round has no parties".into()));
        };
        running.finished(&finished, state.context.unix_millis());
        let mut report = running.report.clone();
        let survivors = match round.kind() {
            RoundKind::KeySetup => BTreeMap::new(),
            RoundKind::Sum => {
                let survivors = finished.outcome.survivors.iter();
                let survivors = survivors.map(|party| (running.name(party).clone(), false));
                survivors.collect()
            }
        };
        let ending = Ending {
            start: running.start().clone(),
            stage,
            message: message.unwrap_or_default(),
            done: pb::RoundDone {
                round: round.number(),
                model: Some(finished.model.name()),
                result: finished.result,
            },
            survivors,
        };
        report.best = state.rounds.best_after(state.context.spec(), &report);
        state.rounds.released(&state.context, &mut report);
        // guard: a-round-is-recorded-before-it-is-told
        record(state, &report, &finished.model, &ending).await?;
        state.rounds.best.clone_from(&report.best);
        state.models.set(finished.model, finished.bytes);
        state.rounds.done += u64::from(round.kind() == RoundKind::Sum);
        state.rounds.done_here += 1;
        state.context.count(|totals| totals.done(&report));
        let addressed = messages.into_iter().filter_map(|(seat, _)| seat.party());
        let addressed = addressed.collect();
        if let Phase::Running(running) = state.phase.take() {
            let (context, members) = (&state.context, &state.connections);
            (state.ended).tell_end(context, members, &running, ending, &addressed);
        }
        if round.kind() == RoundKind::Sum {
            state
                .opened
                .result_counts(&state.context, round.number())
                .await;
        }
        state
            .connections
            .end_for_servers(round.number(), "it has a result", true);
        info!(job = %state.context.name, round = round.number(), survivors = report.survivors.len(),
            parties = report.parties.len(), model = state.models.current.version(),
            ms = (report.seconds * 1000.0) as u64, "round done");
        let version = state.models.current.version();
        state.calls.has_sum(&report, mean, learnt, version);
        state.publish(Some(report));
        Ok(())
    }

    /// Keeps the result of a round, where the operator wants it: the round counts once that is done. A place that is full
    /// is tried again, with longer pauses, until there is room or the coordinator stops.
    pub(super) async fn keep_result(
        &mut self,
        round: u64,
        learnt: LearntResult,
    ) -> Result<Arc<LearntResult>, Halt> {
        let learnt = Arc::new(learnt);
        let Some(results) = self.state.context.parts.results.clone() else {
            return Ok(learnt);
        };
        loop {
            let (results, result) = (results.clone(), learnt.clone());
            let kept = move || keep(&*results, round, &result, RESULTS_FOLDER);
            let kept = self.state.context.hand.work(kept);
            // guard: mpc3-keep-at-coordinator
            let Err(reason) = kept.await? else {
                self.state.trouble.begun();
                return Ok(learnt);
            };
            let pause = (self.state.trouble).wait(self.state.context.grace());
            let at_ms = self
                .state
                .context
                .unix_millis()
                .saturating_add(pause.as_millis() as u64);
            let blocked = format!("round {round} does not end: {reason}");
            self.state
                .trouble
                .waits(blocked, "it is tried again", at_ms);
            self.state.context.news();
            self.pause(pause, |_| false).await?;
        }
    }
}

/// The round ends without a result: it is recorded, and everybody is told.
pub(super) async fn abort(
    state: &mut State,
    mut report: RoundReport,
    reason: &str,
) -> Result<(), Halt> {
    let number = report.number;
    log_aborted(state, number, reason);
    for name in report.parties.clone() {
        state.connections.settle(&name, state.phase.running_mut());
    }
    if let Phase::Running(running) = state.phase.take() {
        state.back_off.conduct.left(&running.gone());
        report.wire = running.report.wire;
    }
    report.state = RoundState::Aborted;
    report.reason = reason.into();
    state.rounds.released(&state.context, &mut report);
    report.seconds = report.elapsed(state.context.unix_millis());
    state.calls.has_none(&report);
    for (_, member) in state.invited() {
        member.link.frame(over(number, reason, false).into());
    }
    state.connections.end_for_servers(number, reason, false);
    state.publish(Some(report.clone()));
    state
        .context
        .stored(move |store, job| store.end_round(job, &report, None, None))
        .await
}

/// Writes down that the round counts, with all that follows from it, before anybody is told.
async fn record(
    state: &State,
    report: &RoundReport,
    model: &Model,
    ending: &Ending,
) -> Result<(), Halt> {
    let changed = model.version() != state.models.current.version();
    let model = changed.then(|| model.clone());
    let (report, ending) = (report.clone(), ending.clone());
    state
        .context
        .stored(move |store, job| {
            let ending = (!report.key_setup).then_some(&ending);
            // guard: campaign-models-outlive-the-coordinator
            store.end_round(job, &report, model.as_ref(), ending)
        })
        .await
}

/// Why a round has no result, as its parties are told.
pub(super) fn why_aborted(state: &State, number: u64, halt: &Halt) -> String {
    let drained = state.operator.drained_after(state.context.now());
    match (halt, state.phase.running(), drained) {
        (Halt::Stop, Some(_), Some(within)) => {
            format!("the coordinator drained, and round {number} had not ended within {within} s")
        }
        (Halt::Stop, None, _) if state.operator.drains() => {
            "the coordinator drains, and no round begins".into()
        }
        _ => halt.reason().into(),
    }
}

/// Logs the end of a round without a result. An offer that operators take back costs no party its training.
fn log_aborted(state: &State, number: u64, reason: &str) {
    let is_held = state.operator.drains() || state.may_begin().is_err();
    match is_held && state.phase.running().is_none() {
        true => {
            info!(target: WAITS, job = %state.context.name, round = number, %reason, "offer taken back");
        }
        false => {
            warn!(target: WAITS, job = %state.context.name, round = number, %reason, "round aborted");
        }
    }
}
