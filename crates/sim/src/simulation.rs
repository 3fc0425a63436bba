//! A run: rounds one after another, checked against the sum in the clear.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use blindsum_encode::{Reach, UpdateHistory, Values};
use blindsum_job::report::{MetricReport, metric_reports};
use blindsum_math::words::Words;
use blindsum_protocol::{Fault, FaultKind, Outcome, PartyId, PartySet, Round, RoundKind};

use crate::costs::{costs, servers};
use crate::drive::{Drive, Finished};
use crate::memories::Memories;
use crate::progress::ProgressFn;
use crate::reference::Reference;
use crate::report::{PartyClipping, Report, RoundOutcome, RoundReport};
use crate::scenario::{Event, Script};
use crate::turn::{PartyEnd, Seat, Setting};
use crate::workers::Workers;
use crate::{Cohort, Hooks, Inputs, Scenario, Scratch, SimError};

/// A scenario that was checked, with its cohort.
pub struct Simulation {
    scenario: Scenario,
    cohort: Arc<Cohort>,
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    /// Costs and outcome.
    pub report: Report,
    /// The last round.
    pub last: RoundResult,
}

/// The result of a round.
#[derive(Debug)]
pub struct RoundResult {
    /// How the round ended at the server, with its sum if the server learns it.
    pub outcome: Result<Outcome, Fault>,
    /// The sum: the server's, or the parties' if only they learn it.
    pub sum: Option<Words>,
    /// In a sparse round, how many survivors sent each word of the sum.
    pub contributors: Option<Vec<u32>>,
    /// The weighted mean of the survivors' updates, `[dim]`, if there is a sum.
    pub mean: Option<Vec<f64>>,
    /// The sum of the survivors' weights, if there is a sum.
    pub total_weight: Option<u64>,
    /// The exact weighted sums of the survivors' integers, `[dim]`, if there is a sum of integers.
    pub sums: Option<Vec<u128>>,
    /// How the round ended for each party, by rank.
    pub ends: Vec<PartyEnd>,
    /// Messages that the server refused.
    pub refused: Vec<Fault>,
    /// Parties that had not answered the latest stage when it ended, by rank.
    pub(crate) silent: Vec<PartyId>,
}

impl Simulation {
    /// Checks the scenario for a new cohort of as many parties as the job has.
    ///
    /// # Errors
    /// The first field that breaks a rule.
    pub fn new(scenario: Scenario) -> Result<Self, SimError> {
        let spec = scenario.job.spec();
        scenario.check(spec.parties as usize)?;
        let cohort = Cohort::of(spec, spec.parties as usize, scenario.seed)?;
        Self::with_cohort(scenario, Arc::new(cohort))
    }

    /// Checks the scenario for this cohort.
    ///
    /// # Errors
    /// The first field that breaks a rule.
    pub fn with_cohort(scenario: Scenario, cohort: Arc<Cohort>) -> Result<Self, SimError> {
        scenario.check(cohort.len())?;
        Ok(Self { scenario, cohort })
    }

    /// What is simulated.
    pub(crate) fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The parties.
    pub fn cohort(&self) -> &Arc<Cohort> {
        &self.cohort
    }

    /// What happens in the round with this index, counted from 0, in place of the scenario's events.
    pub(crate) fn set_events(&mut self, index: u32, events: Vec<Event>) -> Result<(), SimError> {
        let scenario = &mut self.scenario;
        scenario.rounds = scenario.rounds.max(index.saturating_add(1));
        scenario.events = events;
        let events = scenario.events.iter();
        let parties = self.cohort.len();
        events
            .clone()
            .try_for_each(|event| scenario.check_event(event, parties))
    }

    /// The same scenario for other parties.
    pub(crate) fn with(&self, cohort: Arc<Cohort>) -> Self {
        let scenario = self.scenario.clone();
        Self { scenario, cohort }
    }

    /// The round with this number, with the bounds that earlier ones led to.
    pub(crate) fn bind(
        &self,
        number: u64,
        model: &[u8; 32],
        history: Option<&UpdateHistory>,
    ) -> Result<Arc<Round>, SimError> {
        let roster = self.cohort.roster(number)?;
        let round = Round::new(self.scenario.job.clone(), number, roster, model)
            .and_then(|round| match history {
                None => Ok(round),
                Some(history) => round.with_clips(&history.clips()),
            })
            .map_err(SimError::Round)?;
        Ok(Arc::new(round))
    }

    pub(crate) fn round(
        &self,
        script: Script,
        round: Arc<Round>,
        around: &mut Environment<'_, '_>,
    ) -> Result<(RoundReport, RoundResult), SimError> {
        let finished = self.drive(script, round.clone(), around)?;
        let checked = self.check(&round, around, &finished)?;
        Ok(conclude(&round, finished, checked))
    }

    /// Runs one round of either kind.
    pub(crate) fn drive(
        &self,
        script: Script,
        round: Arc<Round>,
        around: &mut Environment<'_, '_>,
    ) -> Result<Finished, SimError> {
        let scenario = &self.scenario;
        let found = OnceLock::new();
        let setting = Setting {
            cohort: &self.cohort,
            inputs: around.inputs,
            seed: scenario.seed,
            round: round.clone(),
            memories: around.memories,
            found: &found,
        };
        let Environment {
            hooks,
            progress,
            workers,
            ..
        } = around;
        let mut finished = workers.install(|| {
            let network = scenario.network;
            let mut nobody = ();
            let hooks = match setting.round.kind() == RoundKind::Sum || hooks.sees_key_setups() {
                true => &mut **hooks,
                false => &mut nobody,
            };
            Drive::new(setting, script, network, workers, hooks, *progress).run()
        })?;
        if let Some(found) = found.into_inner() {
            (finished.sum, finished.contributors) = (Some(found.sum), found.contributors);
        }
        if round.kind() == RoundKind::Sum && finished.sum.is_none() && finished.outcome.is_ok() {
            // Nobody was left to take the sum, which the server does not know.
            let (have, need) = (0, 1);
            finished.outcome = Err(Fault::nobody(FaultKind::TooFewSurvivors { have, need }));
        }
        Ok(finished)
    }

    /// Compares the outcome, where there is a sum, with the sum in the clear.
    fn check(
        &self,
        round: &Round,
        around: &Environment<'_, '_>,
        finished: &Finished,
    ) -> Result<Checked, SimError> {
        let (Some(survivors), Some(sum)) = (finished.survivors(), &finished.sum) else {
            return Ok(Checked::default());
        };
        let (inputs, seed) = (around.inputs, self.scenario.seed);
        let select = |party, values: Values<'_>| around.memories.select(round, party, values);
        let reference = Reference::of(round, inputs, select, seed, survivors)?;
        let (spec, encoding) = (round.job().spec(), round.encoding());
        let (least, survivors) = (spec.least_contributors(), survivors.len());
        let mut mean = vec![0.0; spec.dim as usize];
        let senders = finished.contributors.as_deref();
        let is_open = |word: usize| senders.is_none_or(|it| it.get(word) >= Some(&least));
        let (decoded, total_weight) = match senders {
            None => {
                let total_weight = round.decode_mean(sum, survivors, &mut mean).ok();
                (total_weight.is_some(), total_weight)
            }
            Some(senders) => {
                let of = (least, spec.divisor(survivors));
                let decoded = encoding.decode_sparse_mean(sum, senders, of, &mut mean);
                (decoded.is_ok(), None)
            }
        };
        let sums = spec.encoding.integer_bits().map(|_| {
            let mut sums = vec![0; mean.len()];
            let decoded = encoding.decode_sums(sum, survivors, &mut sums);
            decoded.map(|_| sums).unwrap_or_default()
        });
        // There are none where no honest parties have such a sum.
        let metrics = metric_reports(round, sum, survivors, is_open).ok();
        let exact = decoded
            && metrics.as_ref() == Some(&reference.metrics(round, survivors))
            && all_agree(&finished.seats)
            && reference.allows(sum, &mean, senders)
            && sums.as_ref().is_none_or(|sums| reference.has_sums(sums));
        Ok(Checked {
            exact,
            error_bound: reference.error_bound(),
            max_abs_error: decoded.then(|| reference.max_abs_error(&mean)),
            max_abs_error_unclipped: reference.max_abs_error_unclipped(&mean).filter(|_| decoded),
            clipping: reference.clipping,
            total_weight,
            metrics: metrics.unwrap_or_default(),
            mean: decoded.then_some(mean),
            sums: sums.filter(|_| decoded),
        })
    }
}

/// Whether all parties that took a result took the same.
fn all_agree(seats: &[Seat]) -> bool {
    let differs = |seat: &Seat| seat.end == PartyEnd::Result { agrees: false };
    !seats.iter().any(differs)
}

/// What rounds are bound to beside their parties.
pub(crate) struct Bound<'a> {
    pub number: u64,
    pub model: &'a [u8; 32],
    pub history: Option<&'a UpdateHistory>,
}

/// What a round needs beside itself.
pub(crate) struct Environment<'a, 'p> {
    pub(crate) inputs: &'a dyn Inputs,
    pub(crate) hooks: &'a mut dyn Hooks,
    pub(crate) progress: &'a mut ProgressFn<'p>,
    pub(crate) workers: &'a Workers<Scratch>,
    pub(crate) memories: Memories<'a>,
}

fn conclude(round: &Round, finished: Finished, checked: Checked) -> (RoundReport, RoundResult) {
    let fault = finished.fault();
    let costs = costs(round, &finished);
    let report = RoundReport {
        outcome: if fault.is_none() {
            RoundOutcome::Sum
        } else {
            RoundOutcome::Abort
        },
        fault,
        survivors: finished.survivors().map_or(0, PartySet::len),
        exact: checked.exact,
        error_bound: checked.error_bound,
        max_abs_error: checked.max_abs_error,
        max_abs_error_unclipped: checked.max_abs_error_unclipped,
        metrics: checked.metrics,
        clipped: checked.clipping.iter().map(|one| one.clipped).sum(),
        clipping: checked.clipping,
        stages: costs.stages,
        client_ms: costs.client_ms,
        server_ms: costs.server_ms,
        up_bytes_per_party: costs.up_bytes_per_party,
        down_bytes_per_party: costs.down_bytes_per_party,
        virtual_seconds: costs.virtual_seconds,
        servers: servers(&finished),
        key_setup: None,
        begun: 1,
        excluded: finished.excluded(),
        leftovers: Vec::new(),
    };
    let ends = finished.seats.into_iter().map(|seat| seat.end).collect();
    let result = RoundResult {
        outcome: finished.outcome,
        sum: finished.sum,
        contributors: finished.contributors,
        total_weight: checked.total_weight,
        mean: checked.mean,
        sums: checked.sums,
        ends,
        refused: finished.refused,
        silent: finished.silent,
    };
    (report, result)
}

/// How far the updates of a round with a sum went, tensor by tensor, where the job's bounds follow from that.
pub(crate) fn reached(round: &Round, result: &RoundResult) -> Result<Vec<Reach>, SimError> {
    let Some(sum) = &result.sum else {
        return Ok(Vec::new());
    };
    let least = round.job().spec().least_contributors();
    let counts = result.contributors.as_ref();
    let is_open = |word: usize| counts.is_none_or(|counts| counts[word] >= least);
    let reached = round.encoding().reached(sum, is_open);
    reached.map_err(|error| SimError::scenario("clip", error.to_string()))
}

/// What the comparison with the sum in the clear gave.
#[derive(Default)]
struct Checked {
    exact: bool,
    error_bound: Option<f64>,
    max_abs_error: Option<f64>,
    max_abs_error_unclipped: Option<f64>,
    clipping: Vec<PartyClipping>,
    total_weight: Option<u64>,
    metrics: BTreeMap<String, MetricReport>,
    mean: Option<Vec<f64>>,
    sums: Option<Vec<u128>>,
}
