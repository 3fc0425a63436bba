//! What the coordinator of a job counts since it was started, for those who watch it: how rounds ended, how long stages
//! took, why parties were lost. Everything is counted by words of closed sets, and nothing by the name of a party.

use std::collections::BTreeMap;

use blindsum_protocol::FaultClass;

use crate::closed::words;
use crate::pb::RefusalCode;
use crate::report::{MetricReport, RoundReport};

pub use crate::loss::LossCause;

words! {
    /// How a round ended.
    Outcome {
        /// With a sum.
        Sum => "sum",
        /// It has given the key of the job to its parties.
        KeySetup => "key_setup",
        /// Without a result.
        Aborted => "aborted",
    }
}

words! {
    /// Why a round ended without a result.
    Cause {
        /// The round failed, as with too few parties left. After `failed_rounds` of these in a row the job ends.
        Failed => "failed",
        /// It was lost with a party or another server, and does not count as failed.
        Lost => "lost",
        /// Nobody could be certified: the revocation list is out of date, or a clock is wrong.
        Certificates => "certificates",
        /// The result must not be opened: its survivors are too near to those of an earlier round.
        Withheld => "withheld",
        /// Too few parties came for longer than `patience`, or the job ended otherwise.
        Patience => "patience",
        /// An operator has paused or ended the job while parties joined the round.
        Operator => "operator",
        /// The coordinator was stopped.
        Stopped => "stopped",
        /// The coordinator was killed, and this start found the round under way in its store.
        Restarted => "restarted",
        /// The coordinator cannot go on, as with a full store.
        Broken => "broken",
    }
}

words! {
    /// Why somebody was not let in, or was sent away.
    RefusedBecause {
        /// Its certificate is revoked.
        Revoked => "revoked",
        /// Its certificate was signed by the CA and cannot be used for another reason, or cannot be used any more.
        Certificate => "certificate",
        /// Its certificate is not in its time.
        OutOfTime => "out_of_time",
        /// It came without a certificate of the CA, or did not finish the handshake.
        Handshake => "handshake",
        /// It has, or all others have, as many connections as the limits allow.
        Places => "places",
        /// It speaks no version of the wire that is spoken here.
        Version => "version",
        /// It named a job that is not served here.
        UnknownJob => "unknown_job",
        /// It used another name than that of its certificate.
        Name => "name",
        /// Another party has its name.
        NameTaken => "name_taken",
        /// A newer process has its name.
        Replaced => "replaced",
        /// It sent what no party sends.
        BadFrame => "bad_frame",
        /// It was too slow.
        TooSlow => "too_slow",
        /// The coordinator is stopping.
        Stopping => "stopping",
        /// The job has failed.
        JobFailed => "job_failed",
        /// The model that it needs is not here.
        NoModel => "no_model",
        /// An operator has banned it.
        Banned => "banned",
        /// It is to come again.
        ComeAgain => "come_again",
        /// Another reason.
        Other => "other",
    }
}

impl From<RefusalCode> for RefusedBecause {
    fn from(code: RefusalCode) -> Self {
        match code {
            RefusalCode::RefusalVersion => Self::Version,
            RefusalCode::RefusalUnknownJob => Self::UnknownJob,
            RefusalCode::RefusalName => Self::Name,
            RefusalCode::RefusalNameTaken => Self::NameTaken,
            RefusalCode::RefusalReplaced => Self::Replaced,
            RefusalCode::RefusalBadFrame => Self::BadFrame,
            RefusalCode::RefusalStopping => Self::Stopping,
            RefusalCode::RefusalTooSlow => Self::TooSlow,
            RefusalCode::RefusalJobFailed => Self::JobFailed,
            RefusalCode::RefusalNoModel => Self::NoModel,
            RefusalCode::RefusalBanned => Self::Banned,
            RefusalCode::RefusalComeAgain => Self::ComeAgain,
            RefusalCode::RefusalCertificate => Self::Certificate,
            RefusalCode::RefusalOutOfTime => Self::OutOfTime,
            RefusalCode::RefusalUnspecified => Self::Other,
        }
    }
}

/// How many values fell into which ranges.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what lies above the last.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// An empty one, with the upper bounds of its ranges in ascending order.
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    /// Counts a value.
    pub fn observe(&mut self, value: f64) {
        let above = self.bounds.iter().take_while(|bound| value > **bound);
        if let Some(count) = self.counts.get_mut(above.count()) {
            *count += 1;
        }
        self.sum += value;
    }

    /// The upper bound of each range and the number of values in it; infinity for the last.
    pub fn ranges(&self) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().copied()).collect()
    }

    /// The sum of all values.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Ranges of the seconds of rounds and stages: from a tenth of a second to a day of training.
const SECONDS: &[f64] = &[
    0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0,
];

/// What is counted of one job since the coordinator was started. Every label that can come is there from the start, with 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// The stages of a round that gives a sum, in order.
    pub stages: Vec<&'static str>,
    /// Rounds by how they ended; a cause only where they were aborted.
    pub rounds: BTreeMap<(Outcome, Option<Cause>), u64>,
    /// Seconds from the offer to the end, of rounds with a result.
    pub round_seconds: Histogram,
    /// Seconds of stages that ended, by their name.
    pub stage_seconds: BTreeMap<&'static str, Histogram>,
    /// Parties that lost their place in a round, by the stage under way and the cause.
    pub lost: BTreeMap<(&'static str, LossCause), u64>,
    /// What parties and other servers did wrong in rounds.
    pub faults: BTreeMap<FaultClass, u64>,
    /// How often parties accused others.
    pub accusations: u64,
    /// Bytes of protocol messages that were received, and that were sent.
    pub message_bytes: (u64, u64),
    /// Leases that ran out.
    pub leases_expired: u64,
    /// Rounds in a row that count as failed, up to now.
    pub failed_in_row: u64,
    /// Parties that are ready for the round that is offered, or are still in the one under way.
    pub ready: usize,
    /// The metrics of training in the latest round with a sum, by their names; none before one, and where only the parties
    /// learn sums.
    pub metrics: BTreeMap<String, MetricReport>,
}

impl Totals {
    /// Nothing yet, of a job whose rounds have these stages: those that give a sum, and those that give the key of the job.
    pub(crate) fn new(stages: Vec<&'static str>, key_setup: Vec<&'static str>) -> Self {
        let done = [(Outcome::Sum, None), (Outcome::KeySetup, None)];
        let aborted = Cause::ALL.iter();
        let aborted = aborted.map(|cause| (Outcome::Aborted, Some(*cause)));
        let mut totals = Self {
            stages: stages.clone(),
            rounds: done.into_iter().chain(aborted).map(|of| (of, 0)).collect(),
            round_seconds: Histogram::new(SECONDS),
            stage_seconds: BTreeMap::new(),
            lost: BTreeMap::new(),
            faults: FaultClass::ALL.iter().map(|class| (*class, 0)).collect(),
            accusations: 0,
            message_bytes: (0, 0),
            leases_expired: 0,
            failed_in_row: 0,
            ready: 0,
            metrics: BTreeMap::new(),
        };
        for stage in stages.into_iter().chain(key_setup) {
            let seconds = totals.stage_seconds.entry(stage);
            seconds.or_insert_with(|| Histogram::new(SECONDS));
            let causes = LossCause::ALL.iter();
            let none = causes.map(|cause| ((stage, *cause), 0));
            totals.lost.extend(none);
        }
        totals
    }

    /// A round ended with a result.
    pub(crate) fn done(&mut self, report: &RoundReport) {
        let outcome = match report.key_setup {
            true => Outcome::KeySetup,
            false => {
                self.metrics.clone_from(&report.metrics);
                Outcome::Sum
            }
        };
        *self.rounds.entry((outcome, None)).or_default() += 1;
        self.round_seconds.observe(report.seconds);
    }

    /// So many rounds ended without a result.
    pub(crate) fn aborted(&mut self, cause: Cause, rounds: u64) {
        let of = (Outcome::Aborted, Some(cause));
        *self.rounds.entry(of).or_default() += rounds;
    }

    /// A stage ended after so many seconds.
    pub(crate) fn stage_ended(&mut self, stage: &'static str, seconds: f64) {
        let of = self.stage_seconds.entry(stage);
        of.or_insert_with(|| Histogram::new(SECONDS))
            .observe(seconds);
    }

    /// A party lost its place in a round.
    pub(crate) fn party_lost(&mut self, stage: &'static str, cause: LossCause) {
        *self.lost.entry((stage, cause)).or_default() += 1;
    }

    /// A party or another server did something wrong.
    pub(crate) fn fault(&mut self, class: FaultClass) {
        *self.faults.entry(class).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn each_value_is_in_the_first_range_that_holds_it(values: Vec<u16>) {
            let mut histogram = Histogram::new(&[1.0, 100.0, 60_000.0]);
            values.iter().for_each(|value| histogram.observe((*value).into()));
            let mut seen = 0;
            for (bound, count) in histogram.ranges() {
                seen += count;
                let within = values.iter().filter(|value| f64::from(**value) <= bound);
                prop_assert_eq!(seen, within.count() as u64);
            }
            prop_assert_eq!(histogram.count(), values.len() as u64);
            prop_assert_eq!(histogram.sum(), values.iter().map(|value| f64::from(*value)).sum::<f64>());
        }
    }

    #[test]
    fn every_label_is_there_before_anything_happens() {
        let totals = Totals::new(vec!["a", "b"], vec!["a"]);
        assert_eq!(totals.lost.len(), 2 * LossCause::ALL.len());
        assert_eq!(totals.rounds.len(), 2 + Cause::ALL.len());
        assert_eq!(totals.faults.len(), FaultClass::ALL.len());
        assert!(totals.lost.values().all(|lost| *lost == 0));
        let mut later = totals.clone();
        later.party_lost("a", LossCause::Lease);
        later.aborted(Cause::Failed, 1);
        later.done(&RoundReport::offered(1, 0, 0));
        // Nothing that happens adds a label.
        assert_eq!(later.lost.len(), totals.lost.len());
        assert_eq!(later.rounds.len(), totals.rounds.len());
    }
}
