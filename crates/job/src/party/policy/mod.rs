//! A party's own rules: what it refuses, whatever the coordinator says.

mod groups;
#[cfg(test)]
mod tests;

use blindsum_protocol::{Adversary, Job, JobSpec, ProtocolName, ceiling_of_fraction};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::PolicyError;

pub use groups::{Cohort, Groups};

/// What a party agrees to. The CA is the one that the party trusts: members of a
/// round whose certificates are not its are refused without a policy.
///
/// Whoever writes the job chooses its parameters, and that may be the attacker. The defaults are for a party
/// that trusts neither the coordinator nor one in ten of the others, and one at least. How many others there are the
/// job says: a party that knows of more who may work together says so in `min_corrupt_parties`.
///
/// It is read from a JSON object or another table; what is missing there takes its default, and `null` takes any.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Protocols that may protect this party's updates. By default `secagg`, `secagg+`, `fssa` and `pss`. In the
    /// two others there is nobody to tolerate: in `plain` the coordinator reads every update, in `flashe` it does
    /// together with any one party. They must be named to be allowed.
    pub allowed_protocols: Vec<ProtocolName>,
    /// The adversary the job must hold against; none takes any. By default active.
    pub require_adversary: Option<Adversary>,
    /// The fraction of a job's `parties` that may work together with the coordinator, as this party sees it: the
    /// job's own `corrupt` must not be less. By default 0.1. `plain` and `flashe`, which tolerate nobody, have no
    /// `corrupt` to compare.
    pub min_corrupt: f64,
    /// So many parties at least may work together with the coordinator, however few parties a job has: it must
    /// tolerate as many. By default 1.
    pub min_corrupt_parties: usize,
    /// No sum over fewer honest parties than this. Beside the corrupt ones, ⌈`min_corrupt` · `parties`⌉ or
    /// `min_corrupt_parties`, so many must be left where the job opens its smallest sum, and in every survivor set;
    /// and no coordinate of a sparse job is handed out that fewer have sent. By default 2: of one honest party and
    /// corrupt ones the sum is its update.
    pub min_honest: usize,
    /// Smallest number of certified parties in a round. By default 3: of two, each learns the other's
    /// update from the sum.
    pub min_cohort: usize,
    /// Whatever is computed from several of the sums that this party confirmed or answered for, over any number of
    /// rounds, must have so many honest parties in it, and `min_honest` at least; 0 allows everything. One sum alone is
    /// judged by `min_honest`, in `plain` and `flashe` by `min_cohort`. It matters where a vector
    /// changes little from round to round: the difference of two sums over sets that differ by one party is that party's
    /// vector then. A set of survivors is refused that tells a smaller group of parties apart from the others of earlier
    /// sums. Corrupt parties come on top of it, as many as in `min_honest`: they know what they sent. In `plain` and
    /// `flashe` a party is not asked about survivors: there rosters are compared.
    pub min_cohort_change: usize,
    /// Largest weight that the job may allow, so that no update drowns the others; none allows all.
    pub max_weight: Option<u32>,
    /// Largest `dim` of a job: what this party will allocate for. A vector takes 4 bytes a coordinate, and a
    /// round several vectors. By default 2²⁸, 1 GiB a vector.
    pub max_dim: u64,
    /// Bytes of the largest message that the job may ask for or send. Shares of a packed vector are as many as there
    /// are parties, and larger the less is packed. By default 2³², 4 GiB.
    pub max_message: u64,
    /// Most `parties` of a job: each of them costs this party keys and shares. By default 10,000.
    pub max_parties: u32,
    /// The hash that the job must have, where the parties agreed on its specification beforehand; none takes any
    /// job that keeps the other rules. In hexadecimal digits where it is read.
    #[serde(deserialize_with = "read_hash")]
    pub job_hash: Option<[u8; 32]>,
}

impl Default for Policy {
    fn default() -> Self {
        let tolerant = |name: &ProtocolName| name.tolerates_corrupt();
        Self {
            allowed_protocols: ProtocolName::ALL.iter().copied().filter(tolerant).collect(),
            require_adversary: Some(Adversary::Active),
            min_corrupt: 0.1,
            min_corrupt_parties: 1,
            min_honest: 2,
            min_cohort: 3,
            min_cohort_change: 0,
            max_weight: None,
            max_dim: 1 << 28,
            max_message: 1 << 32,
            max_parties: 10_000,
            job_hash: None,
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
        let (have, need) = (job.min_parties(), honest.saturating_add(corrupt));
        if have < need {
            return Err(PolicyError::SmallestSum {
                have,
                need,
                honest,
                corrupt,
            });
        }
        let (have, need) = (spec.least_contributors() as usize, honest);
        if spec.is_sparse() && have < need {
            return Err(PolicyError::Contributors { have, need });
        }
        self.check_messages(job)
    }

    fn check_messages(&self, job: &Job) -> Result<(), PolicyError> {
        let (steps, allowed) = (job.plan().steps(), self.max_message);
        match steps.iter().find(|step| step.largest > allowed) {
            Some(step) => Err(PolicyError::MaxMessage {
                stage: step.name,
                job: step.largest,
                allowed,
            }),
            None => Ok(()),
        }
    }

    /// The rules that need no checked job: checking one allocates by its numbers.
    pub fn check_spec(&self, spec: &JobSpec) -> Result<(), PolicyError> {
        let protocol = spec.protocol.name();
        if !self.allowed_protocols.contains(&protocol) {
            let allowed = self.allowed_protocols.clone();
            return Err(PolicyError::Protocol { protocol, allowed });
        }
        self.check_adversary(spec)?;
        if protocol.tolerates_corrupt() && spec.corrupt < self.min_corrupt {
            let (job, need) = (spec.corrupt, self.min_corrupt);
            return Err(PolicyError::Corrupt { job, need });
        }
        if spec.parties > self.max_parties {
            let (job, allowed) = (spec.parties, self.max_parties);
            return Err(PolicyError::MaxParties { job, allowed });
        }
        if spec.dim > self.max_dim {
            let (job, allowed) = (spec.dim, self.max_dim);
            return Err(PolicyError::MaxDim { job, allowed });
        }
        let job = spec.encoding.max_weight();
        match self.max_weight {
            Some(allowed) if job > allowed => Err(PolicyError::MaxWeight { job, allowed }),
            _ => Ok(()),
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
        fraction.max(self.min_corrupt_parties).max(1)
    }

    /// Checks how many certified parties a round has.
    pub fn check_roster(&self, cohort: &Cohort) -> Result<(), PolicyError> {
        let (have, need) = (cohort.len(), self.min_cohort);
        match have < need {
            true => Err(PolicyError::CohortTooSmall { have, need }),
            false => Ok(()),
        }
    }

    /// Checks the number of parties in a sum, of a job that has so many.
    pub fn check_survivors(&self, parties: u32, survivors: usize) -> Result<(), PolicyError> {
        let (honest, corrupt) = (self.min_honest, self.corrupt_among(parties));
        let (have, need) = (survivors, honest.saturating_add(corrupt));
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

    /// Checks the parties of a sum against those of earlier ones, in a job that has so many. Groups that are too small
    /// already are not made smaller by a set that leaves them whole, and the sum itself is for
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
            let (have, need) = (group.parties.len(), honest.saturating_add(corrupt));
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
