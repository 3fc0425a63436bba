//! Whether a metric ends the job, and which model was the best one. What is known of that is in the report of every round:
//! the latest one that is stored has it, however many rounds had no sum.

use blindsum_protocol::{Best, Plateau};

use super::Lead;
use crate::report::RoundReport;

impl Lead {
    /// Goes on with the best value that the report of the latest round has. Its rounds without a gain count no more where an
    /// operator has let the job go on since.
    pub(super) fn going_on(mut self, best: Option<Best>) -> Self {
        self.best = best.map(|best| self.operator.counted(best, self.next_round));
        self.publish(None);
        self
    }

    fn plateau(&self) -> Option<&Plateau> {
        self.context.spec().stop.plateau()
    }

    /// The best value after the round of this report, which has a sum.
    pub(super) fn best_after(&self, report: &RoundReport) -> Option<Best> {
        let plateau = self.plateau()?;
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
    pub(super) fn ended_by_metric(&self) -> Option<String> {
        let (plateau, best) = (self.plateau()?, self.best.as_ref()?);
        plateau.is_over(Some(best)).then(|| plateau.reason(best))
    }

    /// Whether no more rounds are wanted.
    pub(super) fn is_over(&self) -> bool {
        self.operator.is_over(self.rounds_done) || self.ended_by_metric().is_some()
    }

    /// An operator lets a job go on that a metric has ended: the rounds without a gain are counted anew.
    pub(super) fn count_anew(&mut self) {
        if let Some(best) = &mut self.best {
            best.without_gain = 0;
        }
    }
}
