//! The parties of a run, with keys and with certificates of a CA that is made for the run.

use std::sync::Arc;

use blindsum_crypto::CryptoError;
use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
use blindsum_crypto::roster::{CertifiedRoster, Member, Roster};
use blindsum_crypto::sign::{Algorithm, IdentityKey};
use blindsum_protocol::{JobSpec, KnownServers, ServerIdentity};
use rand_core::Rng;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::SimError;
use crate::seeds::stream;

/// Certificates are valid from here on, for one day of simulated time.
pub(crate) const NOW: u64 = 1_800_000_000;

/// Certified parties, by rank. The same seed gives the same keys and certificates, byte for byte.
pub struct Cohort {
    seed: u64,
    anchor: Arc<TrustAnchor>,
    parties: Vec<Party>,
    /// Who makes keys and opens sums, where the job names a server for that.
    key_service: Option<Arc<ServerIdentity>>,
}

/// One of them.
#[derive(Clone)]
struct Party {
    name: String,
    certificate: Vec<u8>,
    identity: Arc<IdentityKey>,
}

impl Cohort {
    /// Makes a CA and certifies `parties` parties, called `party-000000` and so on.
    ///
    /// # Errors
    /// A failure of the certificate library.
    pub fn new(parties: usize, seed: u64) -> Result<Self, SimError> {
        Self::named(parties, seed, None, None)
    }

    /// So many parties of a job: the last one has the name of the job's root, if it has one.
    ///
    /// # Errors
    /// As [`Cohort::new`].
    pub fn of(job: &JobSpec, parties: usize, seed: u64) -> Result<Self, SimError> {
        Self::named(parties, seed, job.root(), job.decryptor())
    }

    fn named(
        parties: usize,
        seed: u64,
        last: Option<&str>,
        key_service: Option<String>,
    ) -> Result<Self, SimError> {
        let mut rng = stream("cohort", &[seed]);
        let validity = Validity::days(NOW, 1);
        let authority =
            CertificateAuthority::create("simulation", Algorithm::Ed25519, validity, &mut rng)?;
        let anchor = Arc::new(TrustAnchor::from_pem(authority.certificate(), None)?);
        let mut certified = |name: &str, kind: &Kind| {
            let credential = authority.issue(name, kind, Algorithm::Ed25519, validity, &mut rng)?;
            let certificate = CertificateDer::from_pem_slice(credential.certificate.as_bytes())
                .map_err(|error| CryptoError::Pem {
                    what: "certificate",
                    why: error.to_string(),
                })?
                .to_vec();
            let key = Arc::new(IdentityKey::from_pem(&credential.key)?);
            Ok::<_, SimError>((certificate, key))
        };
        let mut party = |rank: usize| {
            let name = match last {
                Some(last) if rank + 1 == parties => last.to_owned(),
                _ => format!("party-{rank:06}"),
            };
            let (certificate, identity) = certified(&name, &Kind::Party)?;
            Ok(Party {
                name,
                certificate,
                identity,
            })
        };
        let parties = (0..parties)
            .map(&mut party)
            .collect::<Result<_, SimError>>()?;
        let key_service = match key_service {
            None => None,
            Some(host) => {
                let hosts = vec![host.clone()];
                let (certificate, key) = certified(&host, &Kind::Server { hosts })?;
                let chain = vec![certificate];
                Some(Arc::new(ServerIdentity { chain, key }))
            }
        };
        Ok(Self {
            seed,
            anchor,
            parties,
            key_service,
        })
    }

    /// A cohort of some of the parties, given by their ranks here, in this order. Their ranks start from 0 again.
    pub fn subset(&self, ranks: &[usize]) -> Self {
        let parties = ranks
            .iter()
            .filter_map(|rank| self.parties.get(*rank))
            .cloned()
            .collect();
        Self {
            seed: self.seed,
            anchor: self.anchor.clone(),
            parties,
            key_service: self.key_service.clone(),
        }
    }

    /// How many parties there are.
    pub fn len(&self) -> usize {
        self.parties.len()
    }

    /// Whether there is no party.
    pub fn is_empty(&self) -> bool {
        self.parties.is_empty()
    }

    /// Names, certificates in DER and keys, in order of rank.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &[u8], &Arc<IdentityKey>)> {
        let parties = self.parties.iter();
        parties.map(|party| (&*party.name, &*party.certificate, &party.identity))
    }

    /// The CA of the parties.
    pub(crate) fn anchor(&self) -> &Arc<TrustAnchor> {
        &self.anchor
    }

    /// By what parties know servers.
    pub(crate) fn servers(&self) -> KnownServers {
        KnownServers::certified_by(self.anchor.clone(), NOW)
    }

    /// Who makes keys and opens sums, where the job names a server for that.
    pub(crate) fn key_service(&self) -> Option<&Arc<ServerIdentity>> {
        self.key_service.as_ref()
    }

    /// The long-term key of a party.
    pub fn identity(&self, rank: usize) -> Option<&Arc<IdentityKey>> {
        self.parties.get(rank).map(|party| &party.identity)
    }

    /// The roster of a round, for which every party has drawn a new nonce. Certificates are verified only the first
    /// time.
    ///
    /// # Errors
    /// An empty cohort.
    pub fn roster(&self, round: u64) -> Result<Arc<CertifiedRoster>, SimError> {
        let mut rng = stream("nonces", &[self.seed, round]);
        let mut member = |party: &Party| {
            let mut nonce = [0; 32];
            rng.fill_bytes(&mut nonce);
            Member {
                name: party.name.clone(),
                certificate: party.certificate.clone(),
                nonce,
            }
        };
        let roster = Roster(self.parties.iter().map(&mut member).collect());
        Ok(Arc::new(roster.certify(&self.anchor, NOW)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_cohort() {
        let hash = |seed, round| Cohort::new(3, seed).unwrap().roster(round).unwrap().hash();
        assert_eq!(hash(1, 1), hash(1, 1));
        assert_ne!(hash(1, 1), hash(2, 1));
        assert_ne!(hash(1, 1), hash(1, 2));
    }

    #[test]
    fn subset_ranks_start_again() {
        let cohort = Cohort::new(5, 0).unwrap();
        let some = cohort.subset(&[4, 1, 9]);
        assert_eq!(some.len(), 2);
        let key = |cohort: &Cohort, rank| {
            let key = cohort.identity(rank).unwrap().verifying_key();
            key.as_bytes().to_vec()
        };
        assert_eq!(key(&some, 0), key(&cohort, 4));
        assert_eq!(key(&some, 1), key(&cohort, 1));
        assert_eq!(some.roster(1).unwrap().len(), 2);
        assert!(cohort.subset(&[]).roster(1).is_err());
    }
}
