//! A party's own rules: what it refuses, whatever the coordinator says.

use std::collections::BTreeSet;

use blindsum_protocol::{Adversary, JobSpec, ProtocolName};

/// What a party agrees to. The CA is the one in its [`Credentials`](crate::Credentials): members of a
/// round whose certificates are not its are refused without a policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Protocols that may protect this party's updates. By default all but `plain`.
    pub allowed_protocols: Vec<ProtocolName>,
    /// Smallest number of certified parties in a round. By default 3: of two, each learns the other's
    /// update from the sum.
    pub min_cohort: usize,
    /// The adversary the job must hold against; none takes any.
    pub require_adversary: Option<Adversary>,
    /// By how many parties a round's cohort must differ from every earlier one that is not the same; 0
    /// allows everything. The difference of two sums over cohorts that differ by one is one party's
    /// update, where nothing else changed.
    pub min_cohort_change: usize,
    /// Largest weight that the job may allow, so that no update drowns the others; none allows all.
    pub max_weight: Option<u32>,
}

impl Default for Policy {
    fn default() -> Self {
        let protected = |name: &ProtocolName| *name != ProtocolName::Plain;
        Self {
            allowed_protocols: ProtocolName::ALL
                .iter()
                .copied()
                .filter(protected)
                .collect(),
            min_cohort: 3,
            require_adversary: None,
            min_cohort_change: 0,
            max_weight: None,
        }
    }
}

/// The rule of a policy that a job or a round breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The job's protocol.
    #[error(
        "policy allowed_protocols: the job uses {protocol}, this party allows {}",
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
        "policy require_adversary: the job holds against {holds}, this party requires {required}"
    )]
    Adversary {
        /// What the job holds against.
        holds: String,
        /// What the policy requires.
        required: Adversary,
    },
    /// The weight of one update.
    #[error("policy max_weight: the job allows {job}, this party {allowed}")]
    MaxWeight {
        /// The job's.
        job: u32,
        /// The policy's.
        allowed: u32,
    },
    /// Too few certified parties.
    #[error("policy min_cohort: the round has {have} certified parties, this party wants {need}")]
    CohortTooSmall {
        /// How many there are.
        have: usize,
        /// How many are wanted.
        need: usize,
    },
    /// The cohort is almost an earlier one.
    #[error(
        "policy min_cohort_change: the cohort differs by {changed} from an earlier one, \
         this party wants 0 or at least {need}"
    )]
    Differencing {
        /// Parties that are in one of the two cohorts only.
        changed: usize,
        /// How many are wanted.
        need: usize,
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

/// The parties of a round, by name.
pub(crate) type Cohort = BTreeSet<String>;

impl Policy {
    /// Checks a job before anything is said in it.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_job(&self, spec: &JobSpec) -> Result<(), PolicyError> {
        let protocol = spec.protocol;
        if !self.allowed_protocols.contains(&protocol) {
            let allowed = self.allowed_protocols.clone();
            return Err(PolicyError::Protocol { protocol, allowed });
        }
        if let Some(required) = self.require_adversary {
            let holds = match protocol {
                ProtocolName::Plain => None,
                _ => Some(spec.adversary),
            };
            let enough = match required {
                Adversary::SemiHonest => holds.is_some(),
                Adversary::Active => holds == Some(Adversary::Active),
            };
            if !enough {
                let holds = holds.map_or("nobody".into(), |adversary| adversary.to_string());
                return Err(PolicyError::Adversary { holds, required });
            }
        }
        match self.max_weight {
            Some(allowed) if spec.max_weight > allowed => {
                let job = spec.max_weight;
                Err(PolicyError::MaxWeight { job, allowed })
            }
            _ => Ok(()),
        }
    }

    /// Checks the certified parties of a round against those of the rounds this party answered in.
    pub(crate) fn check_cohort(
        &self,
        cohort: &Cohort,
        earlier: &[Cohort],
    ) -> Result<(), PolicyError> {
        let (have, need) = (cohort.len(), self.min_cohort);
        if have < need {
            return Err(PolicyError::CohortTooSmall { have, need });
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cohort(names: &[&str]) -> Cohort {
        names.iter().map(|name| name.to_string()).collect()
    }

    fn plain() -> JobSpec {
        JobSpec {
            protocol: ProtocolName::Plain,
            ..JobSpec::default()
        }
    }

    #[test]
    fn plain_must_be_allowed_by_name() {
        let spec = plain();
        let error = Policy::default().check_job(&spec).unwrap_err();
        assert!(matches!(error, PolicyError::Protocol { .. }), "{error}");
        let policy = Policy {
            allowed_protocols: vec![ProtocolName::Plain],
            ..Policy::default()
        };
        assert_eq!(policy.check_job(&spec), Ok(()));
    }

    #[test]
    fn plain_holds_against_nobody() {
        let policy = Policy {
            allowed_protocols: vec![ProtocolName::Plain],
            require_adversary: Some(Adversary::SemiHonest),
            ..Policy::default()
        };
        let error = policy.check_job(&plain()).unwrap_err();
        assert!(matches!(error, PolicyError::Adversary { .. }), "{error}");
    }

    #[test]
    fn case_12_cohorts_too_small_or_too_like_an_earlier_one_are_refused() {
        let policy = Policy {
            min_cohort_change: 2,
            ..Policy::default()
        };
        let earlier = [cohort(&["a", "b", "c", "d"])];
        let check = |names: &[&str]| policy.check_cohort(&cohort(names), &earlier);
        assert_eq!(
            check(&["a", "b"]),
            Err(PolicyError::CohortTooSmall { have: 2, need: 3 })
        );
        let differencing = PolicyError::Differencing {
            changed: 1,
            need: 2,
        };
        assert_eq!(check(&["a", "b", "c"]), Err(differencing.clone()));
        assert_eq!(check(&["a", "b", "c", "d", "e"]), Err(differencing));
        assert_eq!(check(&["a", "b", "c", "d"]), Ok(()));
        assert_eq!(check(&["a", "b", "c", "e"]), Ok(()));
    }
}
