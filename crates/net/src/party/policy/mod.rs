//! A party's own rules: what it refuses, whatever the coordinator says.

mod error;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use blindsum_protocol::{Adversary, Job, JobSpec, ProtocolName, ceiling_of_fraction};

pub use error::PolicyError;

/// What a party agrees to. The CA is the one in its [`Credentials`](crate::Credentials): members of a
/// round whose certificates are not its are refused without a policy.
///
/// Whoever writes the job chooses its parameters, and that may be the attacker. The defaults are for a party
/// that trusts neither the coordinator nor one in ten of the others.
#[derive(Clone, Debug, PartialEq)]
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
    /// No sum over fewer honest parties than this. Beside ⌈`min_corrupt` · `parties`⌉ corrupt ones, at least one,
    /// so many must be left where the job opens its smallest sum, and in every survivor set. By default 2: of one
    /// honest party and corrupt ones the sum is its update.
    pub min_honest: usize,
    /// Smallest number of certified parties in a round. By default 3: of two, each learns the other's
    /// update from the sum.
    pub min_cohort: usize,
    /// By how many parties the survivors of a round must differ from every earlier set that this party confirmed
    /// or answered for and that is not the same; 0 allows everything. The difference of two sums over sets that
    /// differ by one is one party's update, where nothing else changed. In `plain` and `flashe` a party is not
    /// asked about survivors: there rosters are compared.
    pub min_cohort_change: usize,
    /// Largest weight that the job may allow, so that no update drowns the others; none allows all.
    pub max_weight: Option<u32>,
    /// Largest `dim` of a job: what this party will allocate for. A vector takes 4 bytes a coordinate, and a
    /// round several vectors. By default 2²⁸, 1 GiB a vector.
    pub max_dim: u64,
    /// The hash that the job must have, where the parties agreed on its specification beforehand; none takes any
    /// job that keeps the other rules.
    pub job_hash: Option<[u8; 32]>,
}

impl Default for Policy {
    fn default() -> Self {
        let tolerant = |name: &ProtocolName| name.tolerates_corrupt();
        Self {
            allowed_protocols: ProtocolName::ALL.iter().copied().filter(tolerant).collect(),
            require_adversary: Some(Adversary::Active),
            min_corrupt: 0.1,
            min_honest: 2,
            min_cohort: 3,
            min_cohort_change: 0,
            max_weight: None,
            max_dim: 1 << 28,
            job_hash: None,
        }
    }
}

/// Parties of a round, by name.
pub(crate) type Cohort = BTreeSet<String>;

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
        let (honest, corrupt) = (self.min_honest, self.corrupt_among(job.spec().parties));
        let (have, need) = (job.min_parties(), honest.saturating_add(corrupt));
        if have < need {
            return Err(PolicyError::SmallestSum {
                have,
                need,
                honest,
                corrupt,
            });
        }
        Ok(())
    }

    /// The rules that need no checked job: checking one allocates by its numbers.
    pub(crate) fn check_spec(&self, spec: &JobSpec) -> Result<(), PolicyError> {
        let protocol = spec.protocol;
        if !self.allowed_protocols.contains(&protocol) {
            let allowed = self.allowed_protocols.clone();
            return Err(PolicyError::Protocol { protocol, allowed });
        }
        self.check_adversary(spec)?;
        if protocol.tolerates_corrupt() && spec.corrupt < self.min_corrupt {
            let (job, need) = (spec.corrupt, self.min_corrupt);
            return Err(PolicyError::Corrupt { job, need });
        }
        if spec.dim > self.max_dim {
            let (job, allowed) = (spec.dim, self.max_dim);
            return Err(PolicyError::MaxDim { job, allowed });
        }
        match self.max_weight {
            Some(allowed) if spec.max_weight > allowed => {
                let job = spec.max_weight;
                Err(PolicyError::MaxWeight { job, allowed })
            }
            _ => Ok(()),
        }
    }

    fn check_adversary(&self, spec: &JobSpec) -> Result<(), PolicyError> {
        let Some(required) = self.require_adversary else {
            return Ok(());
        };
        let holds = match spec.protocol {
            ProtocolName::Plain => None,
            _ => Some(spec.adversary),
        };
        let enough = match required {
            Adversary::SemiHonest => holds.is_some(),
            Adversary::Active => holds == Some(Adversary::Active),
        };
        if enough {
            return Ok(());
        }
        let holds = holds.map_or("nobody".into(), |adversary| adversary.to_string());
        Err(PolicyError::Adversary { holds, required })
    }

    /// How many of a job's parties may be corrupt, by this policy: ⌈`min_corrupt` · `parties`⌉, at least one.
    fn corrupt_among(&self, parties: u32) -> usize {
        ceiling_of_fraction(self.min_corrupt, parties as usize).max(1)
    }

    /// Checks how many certified parties a round has.
    pub(crate) fn check_roster(&self, cohort: &Cohort) -> Result<(), PolicyError> {
        let (have, need) = (cohort.len(), self.min_cohort);
        match have < need {
            true => Err(PolicyError::CohortTooSmall { have, need }),
            false => Ok(()),
        }
    }

    /// Checks the number of parties in a sum, of a job that has so many.
    pub(crate) fn check_survivors(
        &self,
        parties: u32,
        survivors: usize,
    ) -> Result<(), PolicyError> {
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

    /// Checks the parties of a sum against those of earlier ones.
    pub(crate) fn check_difference(
        &self,
        cohort: &Cohort,
        earlier: &[Cohort],
    ) -> Result<(), PolicyError> {
        let need = self.min_cohort_change;
        for known in earlier {
            let changed = cohort.symmetric_difference(known).count();
            if changed > 0 && changed < need {
                return Err(PolicyError::Differencing { changed, need });
            }
        }
        Ok(())
    }
}
