//! The end of a round at the coordinator: with a result, which is stored before anybody is told, or without one.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_encode::EncodeError;
use blindsum_protocol::{Outcome, Outgoing, Round, RoundKind, Seat};
use tracing::info;

use super::counting::count_down;
use super::finished::finish;
use super::{Halt, Lead};
use crate::Model;
use crate::pb;
use crate::report::{RoundReport, RoundState};
use crate::store::Ending;

impl Lead {
    /// The sum is there: the mean, the next model, the record, and then the news.
    pub(super) async fn finish_round(
        &mut self,
        round: &Arc<Round>,
        stage: u8,
        outcome: Outcome,
        messages: Vec<(Seat, Outgoing)>,
    ) -> Result<(), Halt> {
        let (of, model) = (round.clone(), self.models.current.clone());
        // All are told the same, and none of it is passed on from a shelf.
        let message = messages.first().map(|(_, message)| message.head.clone());
        let told = message.clone().unwrap_or_default();
        let has_integers = self.context.spec().encoding.integer_bits().is_some();
        let wanted = self.context.parts.results.is_some() || (self.calls.is_hosted && has_integers);
        let finished = self
            .context
            .hand
            .work(move || finish(&of, &model, outcome, &told, wanted));
        let mut finished = finished.await?.map_err(|error| match error {
            EncodeError::Model { .. } => Halt::Aborted(error.to_string()),
            other => Halt::Aborted(format!("no honest parties can have this sum: {other}")),
        })?;
        let mean = finished.mean.take().filter(|_| self.calls.is_hosted);
        let learnt = match finished.learnt.take() {
            Some(learnt) => Some(self.keep_result(round.number(), learnt).await?),
            None => None,
        };
        for member in round.roster().members() {
            self.members.settle(&member.name, self.phase.running_mut());
            self.bans.kept(&member.name);
        }
        self.found_out(round.number(), &finished.outcome.faults)
            .await;
        count_down(&self.context, self.phase.running_mut(), &messages);
        let Some(running) = self.phase.running_mut() else {
            return Err(Halt::Aborted("the round has no parties".into()));
        };
        running.finished(&finished, self.context.unix_millis());
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
        report.best = self.rounds.best_after(self.context.spec(), &report);
        // guard: a-round-is-recorded-before-it-is-told
        self.record(&report, &finished.model, &ending).await?;
        self.rounds.best.clone_from(&report.best);
        self.models.set(finished.model, finished.bytes);
        self.rounds.done += u64::from(round.kind() == RoundKind::Sum);
        self.rounds.done_here += 1;
        self.context.count(|totals| totals.done(&report));
        let addressed = messages.into_iter().filter_map(|(seat, _)| seat.party());
        let addressed = addressed.collect();
        if let Some(running) = self.phase.take_running() {
            let (context, members) = (&self.context, &self.members);
            (self.ended).tell_end(context, members, &running, ending, &addressed);
        }
        if round.kind() == RoundKind::Sum {
            self.result_counts(round.number()).await;
        }
        self.members
            .end_for_servers(round.number(), "it has a result", true);
        info!(job = %self.context.name, round = round.number(), survivors = report.survivors.len(),
            parties = report.parties.len(), model = self.models.current.version(),
            ms = (report.seconds * 1000.0) as u64, "round done");
        let version = self.models.current.version();
        self.calls.has_sum(&report, mean, learnt, version);
        self.publish(Some(report));
        Ok(())
    }

    /// Writes down that the round counts, with all that follows from it, before anybody is told.
    async fn record(
        &self,
        report: &RoundReport,
        model: &Model,
        ending: &Ending,
    ) -> Result<(), Halt> {
        let changed = model.version() != self.models.current.version();
        let model = changed.then(|| model.clone());
        let (report, ending) = (report.clone(), ending.clone());
        self.context
            .stored(move |store, job| {
                let ending = (!report.key_setup).then_some(&ending);
                // guard: campaign-models-outlive-the-coordinator
                store.end_round(job, &report, model.as_ref(), ending)
            })
            .await
    }

    /// The round ends without a result: it is recorded, and everybody is told.
    pub(super) async fn abort(
        &mut self,
        mut report: RoundReport,
        reason: &str,
    ) -> Result<(), Halt> {
        let number = report.number;
        self.log_aborted(number, reason);
        for name in report.parties.clone() {
            self.members.settle(&name, self.phase.running_mut());
        }
        if let Some(running) = self.phase.take_running() {
            self.bans.left(&running.gone());
            report.wire = running.report.wire;
        }
        report.state = RoundState::Aborted;
        report.reason = reason.into();
        report.seconds = report.elapsed(self.context.unix_millis());
        self.calls.has_none(&report);
        for (_, member) in self
            .members
            .iter()
            .filter(|(name, _)| self.calls.is_called(name))
        {
            let frame = pb::RoundAborted {
                round: number,
                only_you: false,
                reason: reason.into(),
                counted: false,
                unknown: false,
            };
            member.link.frame(frame.into());
        }
        self.members.end_for_servers(number, reason, false);
        self.publish(Some(report.clone()));
        self.context
            .stored(move |store, job| store.end_round(job, &report, None, None))
            .await
    }
}
