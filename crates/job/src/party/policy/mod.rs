//! A party's own rules: what it refuses, whatever the coordinator says.

mod groups;
mod privacy;
#[cfg(test)]
mod tests;

use blindsum_protocol::{Adversary, Job, JobSpec, ProtocolName, RuleName, ceiling_of_fraction};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::PolicyError;

pub use groups::{Cohort, Groups};
pub use privacy::{PrivacyPolicy, RoundCost};

/// What a party agrees to. In addition, and whatever the policy, it refuses every member of a round whose certificate
/// is not of the CA that it trusts.
///
/// Whoever writes the job chooses its parameters, and that may be the attacker. The defaults are for a party that
/// trusts neither the coordinator nor a tenth of the parties, at least one of them. The number of parties is taken from
/// the job: a party that knows of more parties who may work together says so in `min_corrupt_parties`.
///
/// It is read from a JSON object or another table. A missing field has its default, and `null` means no limit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Protocols that may protect this party's updates. By default `secagg`, `secagg+`, `fssa` and `pss`. The other two
    /// must be named to be allowed, since they tolerate no corrupt party: in `plain` the coordinator reads every
    /// update, in `flashe` it can do so with the help of any one party.
    pub allowed_protocols: Vec<ProtocolName>,
    /// What the servers of `mpc3` may make of this party's updates. By default the rules whose result is a mean of many:
    /// `fedavg`, `weighted`, `clipped`, `multi-krum` and `trimmed-mean`. The others must be named to be allowed: `krum` shows
    /// the vector of one party, `median` a coordinate of one, and in `fltrust` and `cosine` other parties, the root above all,
    /// can bring about that one vector alone counts.
    pub allowed_rules: Vec<RuleName>,
    /// The adversary against which the job must protect; `None` means either. By default active.
    pub require_adversary: Option<Adversary>,
    /// The fraction of a job's `parties` that may work together with the coordinator, in this party's opinion: the
    /// job's own `corrupt` must not be less. By default 0.1. Not compared in `plain` and `flashe`, which tolerate no
    /// corrupt party.
    pub min_corrupt: f64,
    /// The number of parties that may work together with the coordinator, however few parties a job has: the job must
    /// tolerate as many. By default 1.
    pub min_corrupt_parties: usize,
    /// The fewest honest parties in a sum. The smallest sum that the job opens, and every survivor set, must have that
    /// many parties in addition to the corrupt ones, of which there are ⌈`min_corrupt` · `parties`⌉ or
    /// `min_corrupt_parties`, whichever is more. Nor may a sparse job open coordinates that fewer than `min_honest`
    /// parties have sent. By default 2: a sum of one honest party and corrupt ones reveals that party's update.
    pub min_honest: usize,
    /// Smallest number of certified parties in a round. By default 3: in a sum of two parties, each learns the other's
    /// update.
    pub min_cohort: usize,
    /// The fewest honest parties in whatever can be computed from several sums together, over any number of rounds; at
    /// least `min_honest`. By default 0, which allows everything. This matters if a vector changes little from round to
    /// round: then the difference of two sums over sets that differ by one party is that party's vector. The party
    /// compares each new set of survivors with the sums that it confirmed or answered for before, and refuses a set
    /// that would tell a smaller group of parties apart from the others. Corrupt parties come on top, as many as for
    /// `min_honest`, since they know what they sent. A single sum is judged by `min_honest`, in `plain` and `flashe` by
    /// `min_cohort`. In these two protocols and in `mpc3` a party is not asked about survivors: rosters are compared, which
    /// does not see whose vectors a server leaves out of a sum.
    pub min_cohort_change: usize,
    /// Largest weight that the job may allow, so that no single update dominates the mean; `None` allows all weights.
    pub max_weight: Option<u32>,
    /// Largest `dim` of a job, which decides how much memory this party needs. A vector takes 4 bytes for each
    /// coordinate, and a round several vectors. By default 2²⁸, which is 1 GiB for a vector.
    pub max_dim: u64,
    /// Bytes of the largest message that the job may ask for or send. In `fssa` and `pss` a party sends a share to
    /// every other party, and a share is the larger the fewer words are packed. By default 2³², 4 GiB.
    pub max_message: u64,
    /// Most `parties` of a job: each of them costs this party keys and shares. By default 10,000.
    pub max_parties: u32,
    /// Most `rounds` of a job, also after an operator of its coordinator has extended it; `None` allows all numbers, and with
    /// `job_hash` those of the specification. A job
    /// without end, of 0 rounds, has more than any number.
    pub max_rounds: Option<u32>,
    /// The hash that the job must have, if the parties agreed on its specification beforehand; `None` accepts any job
    /// that keeps the other rules. Written as hexadecimal digits.
    #[serde(deserialize_with = "read_hash")]
    pub job_hash: Option<[u8; 32]>,
    /// What the noise of sums must guarantee.
    pub privacy: PrivacyPolicy,
}

impl Default for Policy {
    fn default() -> Self {
        // guard: default-protocols
        let tolerant = |name: &ProtocolName| name.tolerates_corrupt();
        let many = |rule: &RuleName| rule.is_mean_of_many();
        Self {
            allowed_protocols: ProtocolName::ALL.iter().copied().filter(tolerant).collect(),
            allowed_rules: RuleName::ALL.iter().copied().filter(many).collect(),
            // guard: default-adversary
            require_adversary: Some(Adversary::Active),
            // guard: default-corrupt
            min_corrupt: 0.1,
            min_corrupt_parties: 1,
            // guard: default-honest
            min_honest: 2,
            // guard: default-cohort
            min_cohort: 3,
            min_cohort_change: 0,
            max_weight: None,
            // guard: default-dim
            max_dim: 1 << 28,
            max_message: 1 << 32,
            max_parties: 10_000,
            max_rounds: None,
            job_hash: None,
            privacy: PrivacyPolicy::default(),
        }
    }
}

/// A hash out of 64 hexadecimal digits, if there is one.
fn read_hash<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[u8; 32]>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else {
        return Ok(None);
    };
    let wrong = || {
        D::Error::custom(format!(
            "{text:?} must be 64 hexadecimal digits, as JobSpec.hash"
        ))
    };
    unhex(&text).map(Some).ok_or_else(wrong)
}

/// 32 bytes from hexadecimal digits.
fn unhex(text: &str) -> Option<[u8; 32]> {
    let digit = |digit: char| digit.to_digit(16).map(|digit| digit as u8);
    let digits: Vec<u8> = text.chars().map(digit).collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return None;
    };
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    bytes.try_into().ok()
}

impl Policy {
    /// Checks a job before anything is said in it.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_job(&self, job: &Job) -> Result<(), PolicyError> {
        self.check_spec(job.spec())?;
        // guard: policy-job-hash
        if let Some(allowed) = self.job_hash.filter(|allowed| allowed != job.hash()) {
            let job = *job.hash();
            return Err(PolicyError::JobHash { job, allowed });
        }
        let spec = job.spec();
        let (honest, corrupt) = (self.min_honest, self.corrupt_among(spec.parties));
        if spec.protocol.name().tolerates_corrupt() && spec.corrupt_parties() < corrupt {
            let (job, need) = (spec.corrupt_parties(), corrupt);
            return Err(PolicyError::CorruptParties { job, need });
        }
        // guard: policy-left-out-are-not-in-the-mean
        let have = job.min_parties().saturating_sub(spec.left_out());
        // guard: policy-corrupt-are-not-honest
        let need = honest.saturating_add(corrupt);
        // guard: policy-smallest-sum
        if have < need {
            return Err(PolicyError::SmallestSum {
                have,
                need,
                honest,
                corrupt,
            });
        }
        let (have, need) = (spec.least_contributors() as usize, honest);
        // guard: policy-contributors
        if spec.is_sparse() && have < need {
            return Err(PolicyError::Contributors { have, need });
        }
        self.check_privacy(job)?;
        self.check_messages(job)
    }

    fn check_messages(&self, job: &Job) -> Result<(), PolicyError> {
        let (steps, allowed) = (job.plan().steps(), self.max_message);
        // guard: policy-messages
        match steps.iter().find(|step| step.largest > allowed) {
            Some(step) => Err(PolicyError::MaxMessage {
                stage: step.name,
                job: step.largest,
                allowed,
            }),
            None => Ok(()),
        }
    }

    /// The rules of [`check_job`](Self::check_job) that need no checked job. They come first, because checking a job
    /// takes memory by its numbers.
    pub fn check_spec(&self, spec: &JobSpec) -> Result<(), PolicyError> {
        let protocol = spec.protocol.name();
        // guard: policy-protocols
        if !self.allowed_protocols.contains(&protocol) {
            let allowed = self.allowed_protocols.clone();
            return Err(PolicyError::Protocol { protocol, allowed });
        }
        let is_refused = |rule: &RuleName| !self.allowed_rules.contains(rule);
        // guard: policy-rules
        if let Some(rule) = spec.rule().filter(is_refused) {
            let allowed = self.allowed_rules.clone();
            return Err(PolicyError::Rule { rule, allowed });
        }
        self.check_adversary(spec)?;
        // guard: corrupt-as-the-party-assumes, policy-corrupt
        if protocol.tolerates_corrupt() && spec.corrupt < self.min_corrupt {
            let (job, need) = (spec.corrupt, self.min_corrupt);
            return Err(PolicyError::Corrupt { job, need });
        }
        if spec.parties != 0 && (spec.parties as usize) < self.min_cohort {
            let (parties, need) = (spec.parties, self.min_cohort);
            return Err(PolicyError::JobTooSmall { parties, need });
        }
        // guard: policy-parties
        if spec.parties > self.max_parties {
            let (job, allowed) = (spec.parties, self.max_parties);
            return Err(PolicyError::MaxParties { job, allowed });
        }
        // guard: policy-dim
        if spec.dim > self.max_dim {
            let (job, allowed) = (spec.dim, self.max_dim);
            return Err(PolicyError::MaxDim { job, allowed });
        }
        self.check_rounds(spec.rounds)?;
        let job = spec.encoding.max_weight();
        match self.max_weight {
            // guard: policy-weight
            Some(allowed) if job > allowed => Err(PolicyError::MaxWeight { job, allowed }),
            _ => Ok(()),
        }
    }

    /// Checks how many rounds a job has by its specification, or by now.
    ///
    /// # Errors
    /// They are more than `max_rounds`.
    pub fn check_rounds(&self, rounds: u32) -> Result<(), PolicyError> {
        match self.max_rounds {
            // guard: an-extended-job-keeps-to-the-policy
            Some(allowed) if rounds == 0 || rounds > allowed => {
                Err(PolicyError::MaxRounds { rounds, allowed })
            }
            _ => Ok(()),
        }
    }

    /// Checks how many rounds an operator has given a job that has so many by its specification. A policy that allows one
    /// specification alone, by `job_hash`, allows its rounds alone, unless it says otherwise by `max_rounds`.
    ///
    /// # Errors
    /// They are more than that.
    pub fn check_extension(&self, rounds: u32, specified: u32) -> Result<(), PolicyError> {
        let is_pinned = self.job_hash.is_some() && self.max_rounds.is_none() && specified != 0;
        // guard: one-specification-means-its-rounds
        match is_pinned && (rounds == 0 || rounds > specified) {
            true => Err(PolicyError::MaxRounds {
                rounds,
                allowed: specified,
            }),
            false => self.check_rounds(rounds),
        }
    }

    fn check_adversary(&self, spec: &JobSpec) -> Result<(), PolicyError> {
        let Some(required) = self.require_adversary else {
            return Ok(());
        };
        let protects = spec.protocol.name().protects();
        let holds = protects.then_some(spec.adversary);
        let enough = match required {
            Adversary::SemiHonest => holds.is_some(),
            // guard: policy-adversary
            Adversary::Active => holds == Some(Adversary::Active),
        };
        if enough {
            return Ok(());
        }
        let holds = holds.map_or("nobody".into(), |adversary| {
            format!("{adversary} adversaries")
        });
        Err(PolicyError::Adversary { holds, required })
    }

    /// How many of a job's parties may be corrupt, by this policy: ⌈`min_corrupt` · `parties`⌉, or
    /// `min_corrupt_parties`, at least one.
    fn corrupt_among(&self, parties: u32) -> usize {
        let fraction = ceiling_of_fraction(self.min_corrupt, parties as usize);
        // guard: policy-corrupt-by-number, policy-one-corrupt
        fraction.max(self.min_corrupt_parties).max(1)
    }

    /// Checks how many certified parties a round has.
    pub fn check_roster(&self, cohort: &Cohort) -> Result<(), PolicyError> {
        let (have, need) = (cohort.len(), self.min_cohort);
        // guard: policy-cohort
        match have < need {
            true => Err(PolicyError::CohortTooSmall { have, need }),
            false => Ok(()),
        }
    }

    /// Checks the number of parties in a sum of a job with `parties` parties.
    pub fn check_survivors(&self, parties: u32, survivors: usize) -> Result<(), PolicyError> {
        let (honest, corrupt) = (self.min_honest, self.corrupt_among(parties));
        let (have, need) = (survivors, honest.saturating_add(corrupt));
        // guard: policy-survivors
        if have < need {
            return Err(PolicyError::TooFewSurvivors {
                have,
                need,
                honest,
                corrupt,
            });
        }
        Ok(())
    }

    /// Checks the parties of a sum against those of earlier sums, in a job with `parties` parties. A group that is too
    /// small already is no reason to refuse a set that leaves it whole. The sum itself is checked by
    /// [`check_survivors`](Self::check_survivors).
    pub fn check_difference(
        &self,
        parties: u32,
        cohort: &Cohort,
        earlier: &Groups,
    ) -> Result<(), PolicyError> {
        if self.min_cohort_change == 0 {
            return Ok(());
        }
        let honest = self.min_cohort_change.max(self.min_honest);
        let refined = earlier.refine(cohort, parties);
        for group in refined.fresh().filter(|group| group.parties != *cohort) {
            let corrupt = self.corrupt_among(group.of_job);
            // guard: corrupt-parties-in-a-group
            let (have, need) = (group.parties.len(), honest.saturating_add(corrupt));
            // guard: policy-cohort-change
            if have < need {
                return Err(PolicyError::Differencing {
                    have,
                    need,
                    honest,
                    corrupt,
                });
            }
        }
        Ok(())
    }
}
