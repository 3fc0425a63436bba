//! The rounds of a job: their numbers, how many are done, and whether a metric ends the job. What is known of the metric is in
//! the report of every round: the latest one that is stored has it, however many rounds had no sum.

use blindsum_protocol::{Best, Job, JobSpec, Plateau};
use tracing::{info, warn};

use super::Halt;
use super::choosing::Turns;
use super::context::Context;
use super::operator::Operator;
use crate::report::{PrivacyStatus, Releases, RoundReport};
use crate::store::StoredJob;

/// The rounds of a job.
#[derive(Default)]
pub(super) struct Rounds {
    /// The number of the next one.
    pub next: u64,
    pub done: u64,
    /// Rounds done since the coordinator started.
    pub done_here: u64,
    /// Whether a round was offered before, so that parties have had the time to come: who is here is whom to wait for.
    pub met: bool,
    /// Whether the round before was a key set-up.
    pub after_key_setup: bool,
    /// The best value of the metric that may end the job.
    pub best: Option<Best>,
    /// In a job with noise, rounds whose updates may have been sent.
    pub releases: Option<Releases>,
    /// Who took part in which round.
    pub turns: Turns,
}

impl Rounds {
    /// What the store has, with the latest reports, newest first.
    pub fn stored(job: &Job, stored: &StoredJob, latest: &[RoundReport]) -> Self {
        Self {
            next: stored.next_round,
            done: stored.rounds_done,
            met: !latest.is_empty(),
            best: latest.first().and_then(|report| report.best.clone()),
            releases: (job.privacy()).map(|_| {
                let latest = latest.first().and_then(|report| report.releases);
                latest.unwrap_or_default()
            }),
            turns: Turns::stored(latest),
            ..Self::default()
        }
    }

    /// A party or another server has taken part in rounds that are still to come here: the store is a restored one. Nobody
    /// goes back to them, so the job goes on behind them. One such word moves the number by `most`.
    pub fn skip_to(&mut self, job: &str, last_round: u64, most: u64) {
        let ahead = last_round.saturating_add(1).saturating_sub(self.next);
        // guard: campaign-restored-stores
        if ahead > 0 {
            let (from, to) = (
                self.next,
                // guard: campaign-bounded-steps
                self.next.saturating_add(ahead.min(most)),
            );
            warn!(%job, from, to, "somebody knows of later rounds than the store: their numbers are skipped. The store may be an older or incomplete \
                copy: while a coordinator runs, copy a store with `blindsum backup` only");
            self.next = to;
            // A word of a party ends no job, so the target is not used up by it; but the guarantee does not hide these rounds.
            if let Some(releases) = &mut self.releases {
                // guard: rounds-that-a-store-lacks-are-shown
                releases.lacking = releases.lacking.saturating_add(to - from);
            }
        }
    }

    /// A report of the next round, whose number is taken for ever.
    pub async fn begin(&mut self, context: &Context, version: u64) -> Result<RoundReport, Halt> {
        let mut report = RoundReport::offered(self.next, version, context.unix_millis());
        report.best = self.best.clone();
        // guard: a-round-counts-before-anything-is-sent
        report.releases = self.releases.map(|before| Releases {
            counted: before.counted + 1,
            ..before
        });
        let stored = report.clone();
        context
            .stored(move |store, job| store.begin_round(job, &stored))
            .await?;
        self.next += 1;
        Ok(report)
    }

    /// A round is over: it counts as a release if updates may have been sent in it.
    pub fn released(&mut self, context: &Context, report: &mut RoundReport) {
        let input = context.job().plan().input_stage().map(usize::from);
        // Of the first stage a party is told as the round begins, before the stage is in the report.
        let has_begun = usize::from(!report.parties.is_empty()).max(report.stages.len());
        let may_be_out = input.is_some_and(|stage| has_begun > stage);
        if report.key_setup || !may_be_out {
            report.releases = self.releases;
            return;
        }
        self.releases = report.releases;
        let status = self
            .releases
            .and_then(|releases| PrivacyStatus::of(context.job(), releases));
        if let Some(status) = status {
            info!(job = %context.name, round = report.number, "privacy: {status}");
        }
    }

    /// The best value after the round of this report, which has a sum.
    pub fn best_after(&self, spec: &JobSpec, report: &RoundReport) -> Option<Best> {
        let plateau = plateau(spec)?;
        let metric = report.metrics.get(&plateau.metric);
        let value = metric.and_then(|metric| metric.value);
        match report.key_setup {
            true => self.best.clone(),
            false => plateau.after(
                self.best.clone(),
                report.number,
                report.model_version,
                value,
            ),
        }
    }

    /// Why a metric ends the job, for people; `None` where none does.
    pub fn ended_by_metric(&self, spec: &JobSpec) -> Option<String> {
        let (plateau, best) = (plateau(spec)?, self.best.as_ref()?);
        plateau.is_over(Some(best)).then(|| plateau.reason(best))
    }

    /// Why no further round may have noise of this job, for people; `None` where one may.
    fn used_up(&self, job: &Job) -> Option<String> {
        let privacy = job.privacy()?;
        let allowed = privacy.target().and(privacy.releases())?;
        // guard: no-round-beyond-the-target
        let releases = self.releases.filter(|it| it.counted >= allowed)?;
        let status = PrivacyStatus::of(job, releases)?;
        Some(format!(
            "privacy: the target is used up: {status}; begin another job"
        ))
    }

    /// Why the job ends before its rounds are done, for people; `None` where it does not.
    pub fn ended_early(&self, job: &Job) -> Option<String> {
        self.ended_by_metric(job.spec())
            .or_else(|| self.used_up(job))
    }

    /// Whether no more rounds are wanted.
    pub fn are_over(&self, operator: &Operator, job: &Job) -> bool {
        operator.is_over(self.done) || self.ended_early(job).is_some()
    }

    /// An operator lets a job go on that a metric has ended: the rounds without a gain are counted anew.
    pub fn count_anew(&mut self) {
        if let Some(best) = &mut self.best {
            best.without_gain = 0;
        }
    }
}

fn plateau(spec: &JobSpec) -> Option<&Plateau> {
    spec.stop.plateau()
}
