//! Before a round: the coordinator offers it, and the parties that are ready in time become its roster.

use std::sync::Arc;

use blindsum_protocol::{Fault, Round, RoundKind};
use tracing::info;

use super::offered::Offered;
use super::phase::Phase;
use super::selecting::{certify, choose_kind, openable, wanted};
use super::{Coordinator, Halt};
use crate::report::RoundReport;

impl Coordinator {
    /// Offers the next round and collects its roster.
    pub(super) async fn join(&mut self, report: &mut RoundReport) -> Result<Arc<Round>, Halt> {
        let number = report.number;
        self.state.phase = Phase::Offered(Offered::new(number));
        self.state.models.sealed.round_offered();
        self.state.calls.offered(number);
        for (_, member) in self.state.invited() {
            let offer = self.state.models.offer(number, self.state.calls.tag());
            member.link.frame(offer.into());
        }
        info!(job = %self.state.context.name, round = number, connected = self.state.connections.len(), "round offered");
        self.state.publish(Some(report.clone()));
        let collected = loop {
            let collected = match self.state.calls.is_hosted {
                true => self.collect_called(number).await,
                false => self.collect_ready(number).await,
            };
            // Time has gone by since they were ready.
            // guard: rosters-are-made-of-certificates-in-their-time
            if collected.is_err() || !self.state.expel_unfit() {
                break collected;
            }
        };
        let offered = self.state.phase.take();
        collected?;
        let ready = wanted(&mut self.state, number, offered);
        let (kind, ready) = choose_kind(&mut self.state, number, ready);
        let ready = openable(&mut self.state, number, kind, ready)?;
        let ready = (self.state.rounds.turns).choose(&self.state.context, number, ready);
        let roster = certify(&mut self.state, number, ready)?;
        report.parties = roster.members().iter().map(|m| m.name.clone()).collect();
        let aborted = |fault: Fault| Halt::Aborted(fault.kind.to_string());
        let job = self.state.context.job().clone();
        let round = match kind {
            RoundKind::KeySetup => {
                let round = Round::key_setup(job, number, Arc::new(roster));
                round.map(|round| round.with_tag(self.state.calls.tag()))
            }
            RoundKind::Sum => {
                let numbers = job.round_parameters_for(roster.len()).map_err(aborted)?;
                let roster = match job.commits_nonces() {
                    true => self.open_nonces(number, roster, numbers).await?,
                    false => roster,
                };
                Round::announced(
                    job,
                    number,
                    Arc::new(roster),
                    self.state.models.current.hash(),
                    numbers,
                )
                .map(|round| round.with_tag(self.state.calls.tag()))
                .and_then(|round| self.state.models.current.bind(round))
            }
        };
        let round = round.map_err(aborted)?;
        self.state.bounds.observe(&self.state.context.name, &round);
        Ok(Arc::new(
            self.state.opened.guard(round, self.state.models.key()),
        ))
    }
}
