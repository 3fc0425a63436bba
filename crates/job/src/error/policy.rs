//! The errors about a party's policy: what it refuses, and what to change if it should not.

use std::fmt::Display;

use blindsum_protocol::{Adversary, ProtocolName, RuleName};

use crate::hex;

/// The rule of a policy that a job or a round breaks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The policy does not allow the job's protocol.
    #[error(
        "policy allowed_protocols: the job uses {protocol}, this party allows {}; name {protocol} in \
         allowed_protocols to take part",
        list(allowed)
    )]
    Protocol {
        /// The job's.
        protocol: ProtocolName,
        /// The policy's.
        allowed: Vec<ProtocolName>,
    },
    /// The policy does not allow what the servers make of updates.
    #[error(
        "policy allowed_rules: the job's rule is {rule}, this party allows {}; name {rule} in allowed_rules to take part",
        list(allowed)
    )]
    Rule {
        /// The job's.
        rule: RuleName,
        /// The policy's.
        allowed: Vec<RuleName>,
    },
    /// The job protects against a weaker adversary than the policy requires.
    #[error(
        "policy require_adversary: the job protects against {holds}, this party requires {required}; ask for \
         another job, or lower require_adversary"
    )]
    Adversary {
        /// The adversary that the job protects against.
        holds: String,
        /// What the policy requires.
        required: Adversary,
    },
    /// The job tolerates a smaller fraction of corrupt parties than the policy requires.
    #[error(
        "policy min_corrupt: the job tolerates corrupt = {job} of its parties, this party wants {need} or \
         more; ask for a larger corrupt, or lower min_corrupt"
    )]
    Corrupt {
        /// The job's.
        job: f64,
        /// The policy's.
        need: f64,
    },
    /// The job tolerates fewer corrupt parties than the policy requires.
    #[error(
        "policy min_corrupt_parties: the job tolerates {job} corrupt parties, this party wants {need}; ask for a \
         larger corrupt, or lower min_corrupt_parties"
    )]
    CorruptParties {
        /// The job's.
        job: usize,
        /// How many are wanted.
        need: usize,
    },
    /// The job opens coordinates that too few parties sent.
    #[error(
        "policy min_honest: the job hands out coordinates that {have} parties sent, this party wants {need}; \
         ask for a larger min_contributors, or lower min_honest"
    )]
    Contributors {
        /// The job's `min_contributors`, or its default.
        have: usize,
        /// How many are wanted.
        need: usize,
    },
    /// The job opens sums of too few parties.
    #[error(
        "policy min_honest: the job opens sums of {have} parties, this party wants {need}: {honest} honest \
         ones and {corrupt} that may be corrupt; ask for a larger min_parties, or lower min_honest or \
         min_corrupt"
    )]
    SmallestSum {
        /// The job's `min_parties`, or what its protocol chooses.
        have: usize,
        /// How many are wanted.
        need: usize,
        /// The policy's `min_honest`.
        honest: usize,
        /// How many parties of the job may be corrupt, by the policy.
        corrupt: usize,
    },
    /// Too few parties of a round survive.
    #[error(
        "policy min_honest: {have} parties survive, this party wants {need}: {honest} honest ones and \
         {corrupt} that may be corrupt"
    )]
    TooFewSurvivors {
        /// How many there are.
        have: usize,
        /// How many are wanted.
        need: usize,
        /// The policy's `min_honest`.
        honest: usize,
        /// How many parties of the job may be corrupt, by the policy.
        corrupt: usize,
    },
    /// The job's vectors are longer than the policy allows.
    #[error(
        "policy max_dim: the job has dim = {job}, this party takes {allowed} or less; raise max_dim if it \
         has the memory"
    )]
    MaxDim {
        /// The job's.
        job: u64,
        /// The policy's.
        allowed: u64,
    },
    /// The job's messages are longer than the policy allows.
    #[error(
        "policy max_message: messages of stage {stage} have up to {job} bytes, this party takes {allowed}; ask \
         for a smaller dim, fewer parties or a larger packing, or raise max_message if it has the memory"
    )]
    MaxMessage {
        /// The stage of the longest message.
        stage: &'static str,
        /// The job's.
        job: u64,
        /// The policy's.
        allowed: u64,
    },
    /// The job has more parties than the policy allows.
    #[error(
        "policy max_parties: the job has {job} parties, this party takes {allowed} or fewer; raise max_parties to \
         take part"
    )]
    MaxParties {
        /// The job's.
        job: u32,
        /// The policy's.
        allowed: u32,
    },
    /// The job has more rounds than the policy allows, or was extended beyond that.
    #[error(
        "policy max_rounds: the job has {}, this party takes {allowed} or fewer; raise max_rounds to take part",
        rounds_in_words(*rounds)
    )]
    MaxRounds {
        /// The job's; 0 means without end.
        rounds: u32,
        /// The policy's.
        allowed: u32,
    },
    /// The job allows larger weights than the policy.
    #[error(
        "policy max_weight: the job allows {job}, this party {allowed}; ask for a smaller max_weight, or \
         raise the policy's"
    )]
    MaxWeight {
        /// The job's.
        job: u32,
        /// The policy's.
        allowed: u32,
    },
    /// The job is not the one whose hash the policy names.
    #[error(
        "policy job_hash: the job has hash {}, this party takes only {}; compare the specifications",
        hex(job),
        hex(allowed)
    )]
    JobHash {
        /// The job's.
        job: [u8; 32],
        /// The policy's.
        allowed: [u8; 32],
    },
    /// The job's sums have no noise, and this rule of the policy needs some.
    #[error(
        "policy {rule}: the sums of the job have no noise; ask for a job with a table privacy, or leave {rule} out"
    )]
    NoNoise {
        /// The rule: `require_privacy` or `max_epsilon`.
        rule: &'static str,
    },
    /// The noise of the job hides nobody from the parties that may be corrupt, by the policy.
    #[error(
        "policy min_corrupt: the noise of the job hides nobody from {corrupt} corrupt parties; ask for a larger \
         min_parties or noise_multiplier, or lower min_corrupt"
    )]
    NoiseHidesNobody {
        /// How many parties of the job may be corrupt, by the policy.
        corrupt: usize,
    },
    /// δ is too small for the numbers of noise that a round of the job draws.
    #[error(
        "policy max_delta: {max_delta:e} is too small for a round of {draws:e} numbers of noise; raise max_delta"
    )]
    TooManyDraws {
        /// The policy's.
        max_delta: f64,
        /// Numbers of noise in a round.
        draws: f64,
    },
    /// δ is too small for the gate of the job's servers.
    #[error(
        "policy max_delta: {max_delta:e} is below 2^-24 = 6e-8, and the servers of this job may say in one of 2^44 rounds \
         that an update is too long which is not; raise max_delta"
    )]
    GateTells {
        /// The policy's.
        max_delta: f64,
    },
    /// One round of the job costs more than the policy allows altogether.
    #[error(
        "policy max_epsilon: one round of the job has epsilon {epsilon:.4} at delta {delta:e}, this party allows {allowed} \
         over all jobs; ask for a larger noise_multiplier, or raise max_epsilon"
    )]
    OneRelease {
        /// What a round has.
        epsilon: f64,
        /// The policy's `max_epsilon`.
        allowed: f64,
        /// The policy's `max_delta`.
        delta: f64,
    },
    /// With one more round this party's data would cost more than the policy allows.
    #[error(
        "policy max_epsilon: with this round the data has epsilon {epsilon:.4}, this party allows {allowed} at delta \
         {delta:e} (privacy_unit {unit}, {releases} releases before); take part with other data under another privacy_unit, \
         or raise max_epsilon"
    )]
    Budget {
        /// ε with one more round.
        epsilon: f64,
        /// The policy's `max_epsilon`.
        allowed: f64,
        /// The policy's `max_delta`.
        delta: f64,
        /// The policy's `privacy_unit`.
        unit: String,
        /// Releases that the ledger has.
        releases: u64,
    },
    /// The round has too few certified parties.
    #[error(
        "policy min_cohort: the round has {have} certified parties, this party wants {need}; wait for more, \
         or lower min_cohort"
    )]
    CohortTooSmall {
        /// How many there are.
        have: usize,
        /// How many are wanted.
        need: usize,
    },
    /// No round of the job can have as many parties as are wanted.
    #[error(
        "policy min_cohort: the job has at most {parties} parties in a round, this party wants {need}; agree on a job with \
         more parties, or lower min_cohort"
    )]
    JobTooSmall {
        /// The most parties of a round.
        parties: u32,
        /// How many are wanted.
        need: usize,
    },
    /// Together with earlier sums, this one would give the sum of too few parties alone.
    #[error(
        "policy min_cohort_change: together with earlier sums this one would show the sum of {have} parties alone, \
         this party wants {need}: {honest} honest ones and {corrupt} that may be corrupt"
    )]
    Differencing {
        /// Number of parties in the smallest group that was in the same sums.
        have: usize,
        /// How many are wanted.
        need: usize,
        /// The honest parties that the policy wants in each such group.
        honest: usize,
        /// How many parties of the job may be corrupt, by the policy.
        corrupt: usize,
    },
    /// The coordinator has drawn too many graphs with this party's nonces in rounds that it then ended.
    #[error(
        "the coordinator has seen {unused} graphs of this job and ended the rounds before this party had sent its vector; \
         it sent {sent}, and draws {allowed} such graphs at most, 1000 and one for each vector that it sent: whoever ends \
         rounds may be looking for a graph that gives a party away. Find out from the coordinator's reports who ended them, \
         and agree on a job with another name, without them, or on secagg, which draws no graph"
    )]
    Graphs {
        /// Rounds that ended after this party had opened its nonce and before it sent its vector.
        unused: u64,
        /// Rounds in which it sent its vector.
        sent: u64,
        /// How many such rounds are allowed by now.
        allowed: u64,
    },
}

impl PolicyError {
    /// The option of [`Policy`](crate::party::Policy) that refused, by its name; `None` for a limit that every policy has.
    pub fn field(&self) -> Option<&'static str> {
        Some(match self {
            Self::Protocol { .. } => "allowed_protocols",
            Self::Rule { .. } => "allowed_rules",
            Self::Adversary { .. } => "require_adversary",
            Self::Corrupt { .. } => "min_corrupt",
            Self::CorruptParties { .. } => "min_corrupt_parties",
            Self::Contributors { .. } | Self::SmallestSum { .. } | Self::TooFewSurvivors { .. } => {
                "min_honest"
            }
            Self::MaxDim { .. } => "max_dim",
            Self::MaxMessage { .. } => "max_message",
            Self::MaxParties { .. } => "max_parties",
            Self::MaxRounds { .. } => "max_rounds",
            Self::MaxWeight { .. } => "max_weight",
            Self::JobHash { .. } => "job_hash",
            Self::NoNoise { rule } => rule,
            Self::NoiseHidesNobody { .. } => "min_corrupt",
            Self::TooManyDraws { .. } | Self::GateTells { .. } => "max_delta",
            Self::OneRelease { .. } | Self::Budget { .. } => "max_epsilon",
            Self::CohortTooSmall { .. } | Self::JobTooSmall { .. } => "min_cohort",
            Self::Differencing { .. } => "min_cohort_change",
            Self::Graphs { .. } => return None,
        })
    }
}

fn rounds_in_words(rounds: u32) -> String {
    match rounds {
        0 => "rounds without end".into(),
        rounds => format!("{rounds} rounds"),
    }
}

fn list(names: &[impl Display]) -> String {
    match names {
        [] => "none".into(),
        names => {
            let names = names.iter().map(ToString::to_string);
            names.collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error of each option, and one of none.
    fn samples() -> Vec<PolicyError> {
        let (job, allowed) = ([0; 32], [1; 32]);
        let (have, need, honest, corrupt) = (2, 3, 2, 1);
        vec![
            PolicyError::Protocol {
                protocol: ProtocolName::ALL[0],
                allowed: Vec::new(),
            },
            PolicyError::Rule {
                rule: RuleName::ALL[0],
                allowed: Vec::new(),
            },
            PolicyError::Adversary {
                holds: "nobody".into(),
                required: Adversary::Active,
            },
            PolicyError::Corrupt {
                job: 0.0,
                need: 0.1,
            },
            PolicyError::CorruptParties { job: 0, need },
            PolicyError::Contributors { have, need },
            PolicyError::SmallestSum {
                have,
                need,
                honest,
                corrupt,
            },
            PolicyError::TooFewSurvivors {
                have,
                need,
                honest,
                corrupt,
            },
            PolicyError::MaxDim { job: 2, allowed: 1 },
            PolicyError::MaxMessage {
                stage: "shares",
                job: 2,
                allowed: 1,
            },
            PolicyError::MaxParties { job: 2, allowed: 1 },
            PolicyError::MaxRounds {
                rounds: 2,
                allowed: 1,
            },
            PolicyError::MaxWeight { job: 2, allowed: 1 },
            PolicyError::JobHash { job, allowed },
            PolicyError::NoNoise {
                rule: "require_privacy",
            },
            PolicyError::NoiseHidesNobody { corrupt },
            PolicyError::TooManyDraws {
                max_delta: 1e-30,
                draws: 1e9,
            },
            PolicyError::GateTells { max_delta: 1e-9 },
            PolicyError::OneRelease {
                epsilon: 4.4,
                allowed: 1.0,
                delta: 1e-5,
            },
            PolicyError::Budget {
                epsilon: 4.4,
                allowed: 1.0,
                delta: 1e-5,
                unit: "data".into(),
                releases: 3,
            },
            PolicyError::CohortTooSmall { have, need },
            PolicyError::JobTooSmall { parties: 2, need },
            PolicyError::Differencing {
                have,
                need,
                honest,
                corrupt,
            },
            PolicyError::Graphs {
                unused: 2,
                sent: 0,
                allowed: 1,
            },
        ]
    }

    #[test]
    fn the_option_that_refused_is_that_of_the_text() {
        for error in samples() {
            let text = error.to_string();
            match error.field() {
                Some(field) => assert!(text.starts_with(&format!("policy {field}: ")), "{text}"),
                None => assert!(!text.starts_with("policy "), "{text}"),
            }
        }
    }
}
