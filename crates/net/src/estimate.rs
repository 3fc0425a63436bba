//! How much memory a job takes.

use std::fmt;

use blindsum_protocol::{Job, ProtocolChoice, RoundKind, RuleName, Step, Who};

/// What a process does in a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// It simulates a round of so many parties.
    Simulation {
        /// The parties.
        parties: usize,
    },
    /// It is the coordinator, or another server.
    Coordinator,
    /// It is a party.
    Party,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Simulation { .. } => "a simulation",
            Self::Coordinator => "a coordinator",
            Self::Party => "a party",
        })
    }
}

/// Bytes that a process takes for a job in its largest round, beside the updates that the caller holds in a simulation.
///
/// It is an estimate from the sizes that grow with `dim`: vectors of words, numbers in double precision, models, and the
/// messages of the plan. The factors are from above: they were compared with the most memory that simulations of every
/// protocol held. What does not grow with `dim`, some ten megabytes, is left out.
///
/// * A party: its update, the mean, the models before and after with their bytes, the vector of words, and the
///   messages of all stages; where rounds are sparse, the residual before, under way and after.
/// * A coordinator: the sum, the mean, the models with their bytes, and what it sends. Messages of parties are not
///   counted: `message_memory` and `relay_memory` bound them.
/// * A simulation: the sum, the sum in the clear and its mean, and the messages of a few parties, for the others wait in
///   files. What every party keeps between rounds is counted for all.
pub fn memory(job: &Job, task: Task) -> u64 {
    let parties = match task {
        Task::Simulation { parties } => parties,
        Task::Coordinator | Task::Party => job.spec().parties as usize,
    };
    let sizes = Sizes::of(job, parties);
    let bytes = match task {
        Task::Party => sizes.party(),
        Task::Coordinator => sizes.coordinator(),
        Task::Simulation { .. } => sizes.simulation(),
    };
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Bytes of what grows with the number of coordinates.
struct Sizes {
    /// A vector of doubles.
    doubles: u128,
    /// A vector of words, as it is added up.
    words: u128,
    /// A mean or a model.
    reals: u128,
    /// What a party sends and receives in all stages together.
    messages: u128,
    /// Exact sums, where the encoding is of integers.
    sums: u128,
    /// What a party has left over of its updates, where rounds are sparse.
    residual: u128,
    /// What each of several servers computes with, and how many of them do so at once.
    computed: u128,
    computing: u128,
    parties: u128,
}

impl Sizes {
    fn of(job: &Job, parties: usize) -> Self {
        let (dim, plan) = (
            u128::from(job.spec().dim),
            job.plan_of(RoundKind::Sum, parties),
        );
        let word = if job.width().fits_u32() { 4 } else { 8 };
        let is_party = |who: Who| matches!(who, Who::Parties | Who::Few | Who::Party(_));
        let of_party = |step: &&Step| is_party(step.speaker) || is_party(step.hearer);
        let messages = plan.steps().iter().filter(of_party);
        let doubles = 8 * dim;
        let adds = match &job.spec().protocol {
            ProtocolChoice::Mpc3(options) => {
                matches!(options.rule, RuleName::FedAvg | RuleName::Weighted)
            }
            _ => true,
        };
        Self {
            doubles,
            words: word * job.lanes() as u128,
            reals: job.encoding().precision().bytes() as u128 * dim,
            messages: messages.map(|step| u128::from(step.largest)).sum(),
            sums: match job.spec().encoding.integer_bits() {
                Some(_) => 2 * doubles,
                None => 0,
            },
            residual: if job.density().is_some() { doubles } else { 0 },
            computed: plan.memory().into(),
            computing: if adds { 1 } else { 3 },
            parties: parties as u128,
        }
    }

    fn party(&self) -> u128 {
        let kept = self.sums + 3 * self.residual;
        2 * self.doubles + 4 * self.reals + self.words + self.messages + kept
    }

    fn coordinator(&self) -> u128 {
        4 * self.reals + self.words + self.messages + self.sums + self.computed
    }

    fn simulation(&self) -> u128 {
        let sums = 5 * self.doubles + 2 * self.words + 3 * self.sums;
        let servers = self.computing * self.computed;
        sums + 4 * self.messages + servers + 2 * self.parties * self.residual
    }
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::{Flashe, JobSpec, ProtocolName};

    use super::*;

    fn simulated(protocol: impl Into<ProtocolChoice>, parties: u32) -> u64 {
        let spec = JobSpec {
            protocol: protocol.into(),
            parties,
            dim: 1_000_000,
            encoding: blindsum_protocol::Quantised::default().into(),
            ..JobSpec::default()
        };
        let parties = parties as usize;
        memory(&spec.validate().unwrap(), Task::Simulation { parties }) / 1_000_000
    }

    /// The most bytes per coordinate that simulations held, by `peak_rss_bytes`, and no more than twice as much.
    #[test]
    fn estimates_are_somewhat_above_what_simulations_held() {
        let sparse = || Flashe {
            density: 0.1,
            min_contributors: 1,
            ..Flashe::default()
        };
        for (estimate, held) in [
            (simulated(ProtocolName::Plain, 9), 40),
            (simulated(ProtocolName::SecAgg, 9), 42),
            (simulated(ProtocolName::Fssa, 3), 67),
            (simulated(ProtocolName::Pss, 9), 58),
            (simulated(ProtocolName::Flashe, 9), 44),
            (simulated(sparse(), 9), 177),
        ] {
            assert!(
                (held..2 * held).contains(&estimate),
                "{estimate} for {held}"
            );
        }
    }
}
