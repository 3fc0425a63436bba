//! Rounds that need every party of their roster: where one is lost, another round begins without it, under another
//! number, until there is a sum or too few are left.

use std::sync::Arc;

use blindsum_encode::Values;
use blindsum_protocol::{Culprit, Fault, Job, PartyId, PartySet, RoundKind};

use crate::memories::Memories;
use crate::report::RoundReport;
use crate::scenario::Script;
use crate::simulation::{Bound, Environment, RoundResult};
use crate::turn::PartyEnd;
use crate::{Cohort, Inputs, Scratch, SimError, Simulation};

impl Simulation {
    /// Runs a round of the parties with these ranks, ascending, and as many more as are begun without those that were lost.
    /// Gives how many were begun.
    pub(crate) fn round_of(
        &self,
        mut ranks: Vec<usize>,
        index: u32,
        bound: Bound<'_>,
        around: &mut Environment<'_, '_>,
    ) -> Result<(RoundReport, RoundResult, u32), SimError> {
        let scenario = self.scenario();
        let parties = self.cohort().len();
        let mut script = scenario.script(RoundKind::Sum, index, parties)?.of(&ranks);
        let (mut attempts, mut seconds) = (0, 0.0);
        let mut before = Before {
            ends: vec![PartyEnd::Dropped; parties],
            refused: Vec::new(),
            earlier: 0,
        };
        loop {
            let some = self.some(&ranks);
            let number = bound.number + u64::from(attempts);
            let round = some.bind(number, bound.model, bound.history)?;
            attempts += 1;
            let memories = Memories {
                ranks: &ranks,
                ..around.memories
            };
            let kept = Kept {
                inputs: around.inputs,
                memories,
            };
            let mut of_some = Environment {
                inputs: &kept,
                hooks: &mut *around.hooks,
                progress: &mut *around.progress,
                workers: around.workers,
                memories,
            };
            let (mut report, result) = some.round(script.clone(), round, &mut of_some)?;
            seconds += report.virtual_seconds;
            before.add(&result, &ranks);
            let lost = |place: usize| {
                result.ends.get(place) == Some(&PartyEnd::Dropped)
                    || result.silent.contains(&PartyId(place as u32))
            };
            let places: Vec<usize> = (0..ranks.len()).filter(|place| !lost(*place)).collect();
            let job = &scenario.job;
            let begins_again = job.needs_everybody()
                && result.outcome.is_err()
                && places.len() < ranks.len()
                && places.len() >= job.min_parties();
            if !begins_again {
                report.virtual_seconds = seconds;
                return Ok((report, before.with(result, &ranks), attempts));
            }
            script = script.of(&places);
            let rank = |place: &usize| ranks.get(*place).copied();
            ranks = places.iter().filter_map(rank).collect();
        }
    }

    /// The same simulation with some of the parties.
    fn some(&self, ranks: &[usize]) -> Self {
        let cohort = match ranks.len() == self.cohort().len() {
            true => self.cohort().clone(),
            false => Arc::new(Cohort::subset(self.cohort(), ranks)),
        };
        self.with(cohort)
    }
}

/// What is known of all parties of the cohort, by their ranks in it, from the rounds that were begun so far.
struct Before {
    ends: Vec<PartyEnd>,
    refused: Vec<Fault>,
    /// How many of those were found before the last round.
    earlier: usize,
}

impl Before {
    /// Takes in a round with these parties of the cohort.
    fn add(&mut self, result: &RoundResult, ranks: &[usize]) {
        for (rank, end) in ranks.iter().zip(&result.ends) {
            if let Some(place) = self.ends.get_mut(*rank) {
                *place = end.clone();
            }
        }
        self.earlier = self.refused.len();
        let refused = result.refused.iter().cloned();
        self.refused
            .extend(refused.map(|fault| of_whole(ranks, fault)));
    }

    /// The result of the last round that was begun, with all that was found before it.
    fn with(self, mut result: RoundResult, ranks: &[usize]) -> RoundResult {
        if let Ok(outcome) = &mut result.outcome {
            let survivors = outcome
                .survivors
                .iter()
                .filter_map(|party| rank_of(ranks, party));
            outcome.survivors = PartySet::of(self.ends.len(), survivors);
            let last = outcome.faults.drain(..);
            let last: Vec<Fault> = last.map(|fault| of_whole(ranks, fault)).collect();
            let earlier = self.refused.iter().take(self.earlier).cloned();
            outcome.faults = earlier.chain(last).collect();
        }
        RoundResult {
            ends: self.ends,
            refused: self.refused,
            ..result
        }
    }
}

fn rank_of(ranks: &[usize], party: PartyId) -> Option<PartyId> {
    ranks.get(party.rank()).map(|rank| PartyId(*rank as u32))
}

fn of_whole(ranks: &[usize], mut fault: Fault) -> Fault {
    let Culprit::Party(party) = fault.culprit else {
        return fault;
    };
    fault.culprit = Culprit::Party(rank_of(ranks, party).unwrap_or(party));
    fault
}

impl Script {
    /// What is in store for these parties, in their order.
    fn of(&self, places: &[usize]) -> Self {
        let old = |place: &usize| PartyId(*place as u32);
        let each = || (0..).map(PartyId).zip(places.iter().map(old));
        self.renamed(|party| each().find_map(|(new, old)| (old == party).then_some(new)))
    }
}

/// The vectors of some of the parties.
struct Kept<'a> {
    inputs: &'a dyn Inputs,
    memories: Memories<'a>,
}

impl Kept<'_> {
    fn rank(&self, party: PartyId) -> PartyId {
        self.memories.rank(party).unwrap_or(party)
    }
}

impl Inputs for Kept<'_> {
    fn values<'a>(&'a self, round: u64, party: PartyId, scratch: &'a mut Scratch) -> Values<'a> {
        self.inputs.values(round, self.rank(party), scratch)
    }

    fn weight(&self, round: u64, party: PartyId) -> u32 {
        self.inputs.weight(round, self.rank(party))
    }

    fn metrics(&self, round: u64, party: PartyId, job: &Job) -> Vec<Option<f64>> {
        self.inputs.metrics(round, self.rank(party), job)
    }
}
