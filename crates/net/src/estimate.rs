//! How much memory a job takes.

use std::fmt;

use blindsum_protocol::{Job, Plan, ProtocolChoice, RoundKind, RuleName, Step, Who};

/// The task of a process in a job.
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
/// It is an estimate from the sizes that grow with `dim` and with the number of parties: vectors of words, numbers in double
/// precision, models, the messages of the plan, and what parties have with each other. The factors are from above: they
/// were compared with the most memory that simulations of every protocol held. What grows with neither, some twenty
/// megabytes, is left out.
///
/// * A party: its update, the mean, the models before and after with their bytes, the vector of words, the
///   messages of all stages, and its secrets with others; where rounds are sparse, the residual before, under way and after.
/// * A coordinator: the sum, the mean, the models with their bytes, and what it sends. Messages of parties are not
///   counted: `message_memory` and `relay_memory` bound them.
/// * A simulation: the sum, the sum in the clear and its mean, and the messages of a few parties, for the others wait in
///   files. What every party has with others, and what it keeps between rounds, is counted for all.
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

/// Bytes that a simulation holds for one party, whatever its vectors: its name, keys, certificate and machine.
const OF_PARTY: u128 = 40 << 10;
/// Bytes that a party holds for a neighbour in the graph: keys, the mask seed, shares of both and their ciphertexts.
const OF_NEIGHBOUR: u128 = 800;
/// Bytes that a party holds for another one to which it gives a share of its vector, beside the share.
const OF_HOLDER: u128 = 600;

/// Bytes of what grows with the number of coordinates, and with that of parties.
struct Sizes {
    /// A vector of doubles.
    doubles: u128,
    /// A vector of words, as it is added up.
    words: u128,
    /// A mean, or the values of a model.
    reals: u128,
    /// The state of the server step in a model.
    state: u128,
    /// What a party sends and receives in all stages together.
    messages: u128,
    /// Exact sums, where the encoding is of integers.
    sums: u128,
    /// What a party has left over of its updates, where rounds are sparse.
    residual: u128,
    /// What each of several servers computes with, and what a simulation of all of them holds of it at once.
    computed: u128,
    of_servers: u128,
    /// What a party has with all others together.
    shared: u128,
    /// What a party keeps of the others' messages until the round is over.
    kept: u128,
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
        let step_vectors = job.server_step().vectors() as u128;
        let (doubles, computed) = (8 * dim, u128::from(plan.memory()));
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
            state: step_vectors * job.encoding().precision().bytes() as u128 * dim,
            messages: messages.map(|step| u128::from(step.largest)).sum(),
            sums: match job.spec().encoding.integer_bits() {
                Some(_) => 2 * doubles,
                None => 0,
            },
            residual: if job.density().is_some() { doubles } else { 0 },
            computed,
            // Servers that add take turns; those that compute a rule hold all of it, and what they send.
            of_servers: if adds { computed } else { 7 * computed / 2 },
            shared: shared(job, &plan, parties),
            kept: kept(job, &plan, parties),
            parties: parties as u128,
        }
    }

    fn party(&self) -> u128 {
        let kept = self.sums + 3 * self.residual + 3 * self.state;
        2 * self.doubles + 4 * self.reals + self.words + self.messages + self.shared + kept
    }

    fn coordinator(&self) -> u128 {
        let models = 4 * self.reals + 3 * self.state;
        models + self.words + self.messages + self.sums + self.computed
    }

    fn simulation(&self) -> u128 {
        let sums = 5 * self.doubles + 2 * self.words + 3 * self.sums;
        let of_each = OF_PARTY + self.shared + self.kept + 2 * self.residual;
        // What is kept is among the messages, and counted for each.
        let messages = match self.kept {
            0 => 4 * self.messages,
            _ => self.messages,
        };
        sums + messages + self.of_servers + self.parties * of_each
    }
}

/// Bytes that a party of a round holds for secrets that it has with others.
fn shared(job: &Job, plan: &Plan, parties: usize) -> u128 {
    let parameters = job.parameters_for(parties);
    let parameters = parameters.unwrap_or_else(|_| job.parameters());
    let neighbours = parameters.iter().find(|(name, _)| *name == "neighbours");
    let gives_shares = |step: &Step| step.relayed && step.speaker == Who::Parties;
    match neighbours {
        Some((_, neighbours)) => OF_NEIGHBOUR * *neighbours as u128,
        None if plan.steps().iter().any(gives_shares) => OF_HOLDER * parties as u128,
        None => 0,
    }
}

/// Bytes that a party keeps of the others' messages until the round is over, because a later stage needs them.
fn kept(job: &Job, plan: &Plan, parties: usize) -> u128 {
    let kept = match &job.spec().protocol {
        // The places of all parties.
        ProtocolChoice::Flashe(_) if job.density().is_some() => plan.reply(0),
        // The columns of all parties, and what checking their proofs takes: together as much as all of it, by
        // measurement.
        ProtocolChoice::PssMalicious(_) => plan.replies().max_by_key(|step| step.largest),
        _ => None,
    };
    let of_all = kept.map_or(0, |step| u128::from(step.largest));
    // The plan is of as many parties as the job has.
    of_all * parties as u128 / u128::from(job.spec().parties).max(1)
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::{Flashe, JobSpec, Mpc3, ProtocolName};

    use super::*;

    fn simulated(protocol: impl Into<ProtocolChoice>, parties: u32, dim: u64) -> u64 {
        let spec = JobSpec {
            protocol: protocol.into(),
            parties,
            dim,
            encoding: blindsum_protocol::Quantised::default().into(),
            ..JobSpec::default()
        };
        let parties = parties as usize;
        memory(&spec.validate().unwrap(), Task::Simulation { parties })
    }

    /// The most bytes per coordinate that simulations held, by `peak_rss_bytes`, and no more than twice as much.
    #[test]
    fn estimates_are_somewhat_above_what_simulations_held() {
        let sparse = || Flashe {
            density: 0.1,
            min_contributors: 1,
            ..Flashe::default()
        };
        let dim = 1_000_000;
        for (bytes, held) in [
            (simulated(ProtocolName::Plain, 9, dim), 40),
            (simulated(ProtocolName::SecAgg, 9, dim), 42),
            (simulated(ProtocolName::Fssa, 3, dim), 67),
            (simulated(ProtocolName::Pss, 9, dim), 58),
            (simulated(ProtocolName::Flashe, 9, dim), 44),
            (simulated(sparse(), 9, dim), 177),
        ] {
            let estimate = bytes / dim;
            assert!(
                (held..2 * held).contains(&estimate),
                "{estimate} for {held}"
            );
        }
    }

    /// The most that simulations of many parties with small vectors held, in kilobytes, and no more than twice as much. In each
    /// 25 MB were taken whatever the job was.
    #[test]
    fn estimates_count_what_parties_have_with_each_other() {
        for (protocol, parties, dim, held) in [
            (ProtocolName::SecAgg, 300, 10, 85_000),
            (ProtocolName::SecAgg, 500, 1000, 190_000),
            (ProtocolName::SecAgg, 1000, 10, 680_000),
            (ProtocolName::SecAgg, 2000, 10, 2_600_000),
            (ProtocolName::SecAggPlus, 1000, 10, 122_000),
            (ProtocolName::SecAggPlus, 5000, 10, 627_000),
            (ProtocolName::Fssa, 200, 10, 34_000),
            (ProtocolName::Fssa, 300, 1000, 47_000),
            (ProtocolName::Pss, 300, 10, 57_000),
            (ProtocolName::PssMalicious, 120, 10, 38_000),
            (ProtocolName::Flashe, 2000, 10, 103_000),
        ] {
            let estimate = simulated(protocol, parties, dim) / 1000 + 25_000;
            assert!(
                (held..=2 * held).contains(&estimate),
                "{protocol} of {parties}: {estimate} for {held}"
            );
        }
    }

    /// The same of simulations in which every party keeps what all others have sent, or several servers compute a rule.
    #[test]
    fn estimates_count_what_every_party_keeps_of_the_others() {
        let sparse: ProtocolChoice = Flashe {
            density: 0.1,
            min_contributors: 1,
            ..Flashe::default()
        }
        .into();
        let proved: ProtocolChoice = ProtocolName::PssMalicious.into();
        let median: ProtocolChoice = Mpc3 {
            rule: RuleName::Median,
            ..Mpc3::default()
        }
        .into();
        for (protocol, parties, dim, held) in [
            (&sparse, 100, 100_000, 282_000),
            (&sparse, 200, 100_000, 784_000),
            (&sparse, 400, 50_000, 1_298_000),
            (&proved, 60, 4_000, 128_000),
            (&proved, 40, 16_000, 295_000),
            (&proved, 7, 100_000, 293_000),
            (&median, 10, 3_000, 766_000),
        ] {
            let estimate = simulated(protocol.clone(), parties, dim) / 1000 + 25_000;
            let name = protocol.name();
            assert!(
                (held..=2 * held).contains(&estimate),
                "{name} of {parties} with {dim}: {estimate} for {held}"
            );
        }
    }
}
