//! The party's policy on the survivors of a round. It is asked before the party confirms them, reveals what opens their
//! sum, or adds up.

use std::sync::{Arc, Mutex, PoisonError};

use blindsum_protocol::{PartySet, Round, SurvivorGuard};

use super::policy::{Cohort, Groups, Policy};
use crate::PolicyError;

/// What a round's machine asks about its survivors.
pub(super) struct Guard {
    policy: Policy,
    pub round: Arc<Round>,
    /// The parties of earlier sums.
    earlier: Arc<Groups>,
    judged: Mutex<Option<Result<Cohort, PolicyError>>>,
}

impl Guard {
    pub fn new(policy: Policy, round: Arc<Round>, earlier: Arc<Groups>) -> Self {
        Self {
            policy,
            round,
            earlier,
            judged: Mutex::default(),
        }
    }

    /// What was said of the survivors since it was asked last.
    pub fn judged(&self) -> Option<Result<Cohort, PolicyError>> {
        let mut judged = self.judged.lock().unwrap_or_else(PoisonError::into_inner);
        judged.take()
    }

    fn judge(&self, survivors: &PartySet) -> Result<Cohort, PolicyError> {
        // guard: policy-corrupt-of-the-whole-job
        let parties = self.round.job().spec().parties;
        // guard: policy-survivors-are-asked-about
        self.policy.check_survivors(parties, survivors.len())?;
        let members = self.round.roster().members();
        let names = survivors
            .iter()
            .filter_map(|party| Some(members.get(party.rank())?.name.clone()));
        let cohort = names.collect();
        self.policy
            // guard: survivors-that-differ-by-one
            .check_difference(parties, &cohort, &self.earlier)?;
        Ok(cohort)
    }
}

impl SurvivorGuard for Guard {
    fn allow(&self, survivors: &PartySet) -> Result<(), String> {
        let judged = self.judge(survivors);
        let allowed = judged.as_ref().map(drop).map_err(PolicyError::to_string);
        *self.judged.lock().unwrap_or_else(PoisonError::into_inner) = Some(judged);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use blindsum_crypto::certificate::TrustAnchor;
    use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
    use blindsum_crypto::roster::{Member, Roster};
    use blindsum_crypto::sign::Algorithm;
    use blindsum_protocol::{JobSpec, PartyId, ProtocolName};
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;

    use super::*;
    use crate::testing::{NOW, rng};

    /// A round of some of the parties of a job.
    fn round(spec: JobSpec, parties: usize) -> Arc<Round> {
        let (now, mut rng) = (NOW, rng(1));
        let validity = Validity::days(now - 60, 1);
        let ca =
            CertificateAuthority::create("CA", Algorithm::Ed25519, validity, &mut rng).unwrap();
        let mut member = |name: String| {
            let issued = ca.issue(&name, &Kind::Party, Algorithm::Ed25519, validity, &mut rng);
            let certificate = issued.unwrap().certificate;
            let der = CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap();
            Member {
                name,
                certificate: der.to_vec(),
                nonce: [0; 32],
            }
        };
        let members = (10..10 + parties).map(|number| member(format!("party-{number}")));
        let anchor = TrustAnchor::from_pem(ca.certificate(), None).unwrap();
        let roster = Roster(members.collect()).certify(&anchor, now).unwrap();
        let job = Arc::new(spec.validate().unwrap());
        Arc::new(Round::new(job, 1, Arc::new(roster), &[0; 32]).unwrap())
    }

    /// Abuse case 47: whatever the job opens, and however small the roster is, the party counts with the
    /// corrupt parties of the whole job and wants its honest ones beside them.
    #[test]
    fn case_47_survivors_are_judged_by_the_whole_job() {
        let spec = JobSpec {
            protocol: ProtocolName::Plain.into(),
            parties: 30,
            min_parties: 2,
            dim: 1,
            ..JobSpec::default()
        };
        let guard = Guard::new(Policy::default(), round(spec, 6), Arc::default());
        let asked = |survivors: u32| guard.allow(&PartySet::of(6, (0..survivors).map(PartyId)));
        assert_eq!(asked(5), Ok(()));
        let refused = asked(4).unwrap_err();
        assert!(
            refused.contains("4 parties survive, this party wants 5: 2 honest ones and 3"),
            "{refused}"
        );
    }
}
