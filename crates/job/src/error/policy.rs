//! What a policy refuses, and what to change where it should not.

use blindsum_protocol::{Adversary, ProtocolName};

use crate::hex;

/// The rule of a policy that a job or a round breaks.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The job's protocol.
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
    /// What the job holds against.
    #[error(
        "policy require_adversary: the job protects against {holds}, this party requires {required}; ask for \
         another job, or lower require_adversary"
    )]
    Adversary {
        /// What the job holds against.
        holds: String,
        /// What the policy requires.
        required: Adversary,
    },
    /// How many corrupt parties the job tolerates.
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
    /// How many corrupt parties the job tolerates, in numbers.
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
    /// How few parties' words a coordinate of a sparse job may hold.
    #[error(
        "policy min_honest: the job hands out coordinates that {have} parties sent, this party wants {need}; \
         ask for a larger min_contributors, or lower min_honest"
    )]
    Contributors {
        /// The job's `min_contributors`, or what it is by itself.
        have: usize,
        /// How many are wanted.
        need: usize,
    },
    /// The smallest sum that the job opens.
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
    /// Too few survivors of a round.
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
    /// The length of the vectors.
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
    /// The length of a message.
    #[error(
        "policy max_message: messages of stage {stage} have up to {job} bytes, this party takes {allowed}; ask \
         for a smaller dim, fewer parties or a larger packing, or raise max_message if it has the memory"
    )]
    MaxMessage {
        /// Which one.
        stage: &'static str,
        /// The job's.
        job: u64,
        /// The policy's.
        allowed: u64,
    },
    /// How many parties the job has.
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
    /// The weight of one update.
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
    /// Another job than the one that was agreed on.
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
    /// Too few certified parties.
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
    /// With earlier sums, the one over this cohort tells few parties apart from the others.
    #[error(
        "policy min_cohort_change: together with earlier sums this one would show the sum of {have} parties alone, \
         this party wants {need}: {honest} honest ones and {corrupt} that may be corrupt"
    )]
    Differencing {
        /// Parties of the smallest group that were in the same sums.
        have: usize,
        /// How many are wanted.
        need: usize,
        /// How many honest ones are wanted.
        honest: usize,
        /// How many parties of the job may be corrupt, by the policy.
        corrupt: usize,
    },
    /// Too many graphs were drawn with this party's nonces that were of no use to it.
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
        /// How many may end like that by now.
        allowed: u64,
    },
}

fn list(names: &[ProtocolName]) -> String {
    match names {
        [] => "none".into(),
        names => names
            .iter()
            .map(|n| n.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    }
}
