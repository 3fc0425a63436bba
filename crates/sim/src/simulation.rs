//! A run: rounds one after another, checked against the sum in the clear.

use std::ops::ControlFlow;
use std::sync::Arc;

use blindsum_crypto::kdf;
use blindsum_encode::UpdateHistory;
use blindsum_protocol::{EncodingName, Fault, Outcome, PartySet, Round};

use crate::drive::{Drive, Finished, ProgressFn};
use crate::reference::Reference;
use crate::report::{self, RESULT, Report, RoundOutcome, RoundReport};
use crate::turn::{Seat, Setting};
use crate::workers::Workers;
use crate::{Cohort, Hooks, Inputs, Scenario, Scratch, SimError};

/// A scenario that was checked, with its cohort.
pub struct Simulation {
    scenario: Scenario,
    cohort: Arc<Cohort>,
}

/// What came out of a run.
#[derive(Debug)]
pub struct Run {
    /// Costs and outcome.
    pub report: Report,
    /// The last round.
    pub last: RoundResult,
}

/// What came out of a round.
#[derive(Debug)]
pub struct RoundResult {
    /// The server's sum, or why there is none.
    pub outcome: Result<Outcome, Fault>,
    /// The weighted mean of the survivors' updates, where there is a sum.
    pub mean: Option<Vec<f64>>,
    /// The exact weighted sums of the survivors' integers, where there is a sum of integers.
    pub sums: Option<Vec<u128>>,
    /// How the round ended for each party, by rank.
    pub ends: Vec<PartyEnd>,
    /// Messages that the server refused.
    pub refused: Vec<Fault>,
}

/// How a round ended for a party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartyEnd {
    /// It took a result; `agrees` if it was the server's.
    Result {
        /// Sum and survivors are those of the server.
        agrees: bool,
    },
    /// It met a fault instead of answering `stage`.
    Fault {
        /// The stage.
        stage: u8,
        /// The fault.
        fault: Fault,
    },
    /// It vanished, as the scenario says.
    Dropped,
    /// It heard nothing more.
    Waiting,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of the round.
    pub round: u64,
    /// The stage under way.
    pub stage: u8,
    /// Its name.
    pub name: &'static str,
    /// Parties that have answered.
    pub answered: usize,
    /// Parties that may answer.
    pub expected: usize,
}

/// Makes a cohort of as many parties as the job has and runs the scenario: see [`Simulation::run`].
///
/// # Errors
/// Those of [`Simulation::new`] and [`Simulation::run`].
pub fn run(
    scenario: Scenario,
    inputs: &dyn Inputs,
    hooks: &mut dyn Hooks,
    progress: &mut (dyn FnMut(&Progress) -> ControlFlow<()> + Send),
) -> Result<Run, SimError> {
    Simulation::new(scenario)?.run(inputs, hooks, progress)
}

impl Simulation {
    /// Checks the scenario for a new cohort of as many parties as the job has.
    ///
    /// # Errors
    /// The first field that breaks a rule.
    pub fn new(scenario: Scenario) -> Result<Self, SimError> {
        scenario.check(scenario.job.spec().parties as usize)?;
        let cohort = Cohort::new(scenario.job.spec().parties as usize, scenario.seed)?;
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

    /// The parties.
    pub fn cohort(&self) -> &Arc<Cohort> {
        &self.cohort
    }

    /// Runs the rounds; the first one that aborts is the last. `progress` is called now and then and may
    /// stop the run.
    ///
    /// # Errors
    /// Inputs that do not fit the job, a round whose parameters do not fit the cohort, a run that was
    /// stopped, or a machine that breaks its own law (a restarted client that says something else).
    pub fn run(
        &self,
        inputs: &dyn Inputs,
        hooks: &mut dyn Hooks,
        progress: &mut (dyn FnMut(&Progress) -> ControlFlow<()> + Send),
    ) -> Result<Run, SimError> {
        inputs.check(&self.scenario.job, self.cohort.len())?;
        let workers = Workers::<Scratch>::new(self.scenario.threads)?;
        let (mut reports, mut last, mut model) = (Vec::new(), None, [0; 32]);
        let mut history = self.scenario.job.new_history();
        for index in 0..self.scenario.rounds {
            let round = self.bind(index, &model, history.as_ref())?;
            let (report, result) = self.round(index, round, inputs, hooks, progress, &workers)?;
            if let (Some(history), Some(mean)) = (&mut history, &result.mean) {
                remember(history, mean, report.survivors)?;
            }
            reports.push(report);
            let sum = result
                .outcome
                .as_ref()
                .ok()
                .map(|outcome| outcome.sum.pack());
            last = Some(result);
            match sum {
                Some(sum) => model = kdf::hash("simulated model", &[&model, &sum]),
                None => break,
            }
        }
        let spec = self.scenario.job.spec();
        let report = Report::new(
            spec.protocol,
            self.cohort.len(),
            spec.dim,
            self.scenario.rounds,
            reports,
        );
        match (report, last) {
            (Some(report), Some(last)) => Ok(Run { report, last }),
            _ => Err(SimError::scenario("rounds", "1 <= rounds = 0")),
        }
    }

    /// The round with this index, with the bounds that earlier ones led to.
    fn bind(
        &self,
        index: u32,
        model: &[u8; 32],
        history: Option<&UpdateHistory>,
    ) -> Result<Arc<Round>, SimError> {
        let number = self.scenario.first_round + u64::from(index);
        let roster = self.cohort.roster(number)?;
        let round = Round::new(self.scenario.job.clone(), number, roster, model)
            .and_then(|round| match history {
                None => Ok(round),
                Some(history) => round.with_clips(&history.clips()),
            })
            .map_err(SimError::Round)?;
        Ok(Arc::new(round))
    }

    fn round(
        &self,
        index: u32,
        round: Arc<Round>,
        inputs: &dyn Inputs,
        hooks: &mut dyn Hooks,
        progress: &mut ProgressFn<'_>,
        workers: &Workers<Scratch>,
    ) -> Result<(RoundReport, RoundResult), SimError> {
        let scenario = &self.scenario;
        let setting = Setting {
            cohort: &self.cohort,
            inputs,
            seed: scenario.seed,
            round: round.clone(),
        };
        let script = scenario.script(index, self.cohort.len())?;
        let finished = workers.install(|| {
            Drive::new(setting, script, scenario.network, workers, hooks, progress).run()
        })?;
        let checked = match &finished.outcome {
            Ok(outcome) => Some(self.check(&round, inputs, outcome, &finished.seats)?),
            Err(_) => None,
        };
        Ok(self.conclude(finished, checked))
    }

    /// Compares the outcome with the sum in the clear.
    fn check(
        &self,
        round: &Round,
        inputs: &dyn Inputs,
        outcome: &Outcome,
        seats: &[Seat],
    ) -> Result<Checked, SimError> {
        let reference = Reference::of(round, inputs, self.scenario.seed, &outcome.survivors)?;
        let agree = seats
            .iter()
            .all(|seat| seat.end != PartyEnd::Result { agrees: false });
        let spec = round.job().spec();
        let mut mean = vec![0.0; spec.dim as usize];
        let (encoding, survivors) = (round.encoding(), outcome.survivors.len());
        let decoded = encoding
            .decode_mean(&outcome.sum, survivors, &mut mean)
            .is_ok();
        let sums = (spec.encoding == EncodingName::Integers).then(|| {
            let mut sums = vec![0; mean.len()];
            let decoded = encoding.decode_sums(&outcome.sum, survivors, &mut sums);
            decoded.map(|_| sums).unwrap_or_default()
        });
        let exact = decoded
            && agree
            && reference.equals(&outcome.sum)
            && sums.as_ref().is_none_or(|sums| reference.has_sums(sums));
        Ok(Checked {
            exact,
            max_abs_error: decoded.then(|| reference.max_abs_error(&mean)),
            mean: decoded.then_some(mean),
            sums: sums.filter(|_| decoded),
        })
    }

    fn conclude(&self, finished: Finished, checked: Option<Checked>) -> (RoundReport, RoundResult) {
        let survivors = finished
            .outcome
            .as_ref()
            .ok()
            .map(|outcome| &outcome.survivors);
        let rows = (0..)
            .zip(self.scenario.job.stages().iter().copied().chain([RESULT]))
            .zip(&finished.server_work);
        let stages = rows.map(|((stage, name), server)| {
            let costs = finished
                .seats
                .iter()
                .filter_map(|seat| seat.costs.get::<usize>(stage).copied());
            report::stage_report(name, costs, *server)
        });
        let counted = counted(&finished.seats, survivors);
        let (mut up, mut down) = (0, 0);
        counted.iter().for_each(|cost| {
            up += cost.up;
            down += cost.down;
        });
        let checked = checked.unwrap_or_default();
        let fault = finished
            .outcome
            .as_ref()
            .err()
            .map(|fault| describe(fault, &finished.seats));
        let report = RoundReport {
            outcome: if fault.is_none() {
                RoundOutcome::Sum
            } else {
                RoundOutcome::Abort
            },
            fault,
            survivors: survivors.map_or(0, PartySet::len),
            exact: checked.exact,
            max_abs_error: checked.max_abs_error,
            stages: stages.collect(),
            client_ms: report::work(&counted),
            server_ms: report::milliseconds(finished.server_work.iter().sum()),
            up_bytes_per_party: report::average(up, counted.len()),
            down_bytes_per_party: report::average(down, counted.len()),
            virtual_seconds: finished.virtual_time as f64 / 1e9,
        };
        let ends = finished.seats.into_iter().map(|seat| seat.end).collect();
        (
            report,
            RoundResult {
                outcome: finished.outcome,
                mean: checked.mean,
                sums: checked.sums,
                ends,
                refused: finished.refused,
            },
        )
    }
}

/// Adds a mean to what is known about updates, in the precision that parties over a network have it in.
fn remember(history: &mut UpdateHistory, mean: &[f64], survivors: usize) -> Result<(), SimError> {
    let mean: Vec<f32> = mean.iter().map(|&value| value as f32).collect();
    history
        .observe(&mean, survivors)
        .map_err(|error| SimError::scenario("clip", error.to_string()))
}

/// What the comparison with the sum in the clear gave.
#[derive(Default)]
struct Checked {
    exact: bool,
    max_abs_error: Option<f64>,
    mean: Option<Vec<f64>>,
    sums: Option<Vec<u128>>,
}

/// Costs of whole parties: of the survivors, or of all where there is no sum.
fn counted(seats: &[Seat], survivors: Option<&PartySet>) -> Vec<report::Cost> {
    let seats = seats
        .iter()
        .filter(|seat| survivors.is_none_or(|set| set.contains(seat.party)));
    let total = |seat: &Seat| {
        let mut total = report::Cost::default();
        seat.costs.iter().for_each(|cost| total += *cost);
        total
    };
    seats.map(total).collect()
}

/// The server's fault, and what parties met before it.
fn describe(fault: &Fault, seats: &[Seat]) -> String {
    let mut ended = seats.iter().filter_map(|seat| match &seat.end {
        PartyEnd::Fault { fault, .. } => Some((seat.party, fault)),
        _ => None,
    });
    match ended.next() {
        None => fault.to_string(),
        Some((party, first)) => {
            let others = ended.count();
            let more = if others > 0 {
                format!(" and {others} more")
            } else {
                String::new()
            };
            format!("{fault} ({party}{more} ended with: {first})")
        }
    }
}
