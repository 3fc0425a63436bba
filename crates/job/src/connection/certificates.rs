//! The certificates of the members of rounds, each of which is sent once over a connection.

use std::collections::{HashMap, HashSet};

use blindsum_crypto::certificate::TrustAnchor;

use crate::pb;

/// Bytes of the largest certificate that is taken. Those of a CA like ours have less than 1 KiB.
const LARGEST: usize = 64 << 10;

/// Certificates that this connection brought, by fingerprint.
#[derive(Default)]
pub(crate) struct Certificates(HashMap<[u8; 32], Vec<u8>>);

/// What a beginning of a round brought, by fingerprint.
pub(crate) struct Brought(Vec<[u8; 32]>);

impl Certificates {
    /// Takes the certificates out of a beginning of a round with at most `parties` members.
    ///
    /// # Errors
    /// A larger roster; more certificates than it needs, larger ones, or others. None of them is kept then.
    pub fn take(&mut self, start: &mut pb::RoundStart, parties: u32) -> Result<Brought, String> {
        let certificates = std::mem::take(&mut start.certificates);
        let (members, count) = (start.roster.len(), certificates.len());
        // guard: rosters-within-the-job
        if members as u64 > u64::from(parties) {
            return Err(format!(
                "the roster has {members} parties, the job at most {parties}"
            ));
        }
        // guard: certificates-within-the-roster
        if count > members {
            return Err(format!("{count} certificates for {members} members"));
        }
        // guard: certificates-within-their-size
        if let Some(large) = certificates.iter().find(|one| one.len() > LARGEST) {
            let bytes = large.len();
            return Err(format!(
                "a certificate of {bytes} bytes, more than {LARGEST}"
            ));
        }
        let members = start.roster.iter();
        let mut needed: HashSet<&[u8]> =
            members.map(|member| member.fingerprint.as_ref()).collect();
        let mut found = Vec::with_capacity(count);
        for certificate in certificates {
            let fingerprint = crate::fingerprint(&certificate);
            // guard: certificates-of-members
            if !needed.remove(&fingerprint[..]) {
                return Err("a certificate of no member, or one twice".into());
            }
            // A copy: the frame that it came in is larger.
            found.push((fingerprint, certificate.to_vec()));
        }
        let brought = Brought(found.iter().map(|(fingerprint, _)| *fingerprint).collect());
        self.0.extend(found);
        Ok(brought)
    }

    /// Those that a connection brought in an earlier process.
    pub fn known(certificates: Vec<Vec<u8>>) -> Self {
        let named = |certificate: Vec<u8>| (crate::fingerprint(&certificate), certificate);
        Self(certificates.into_iter().map(named).collect())
    }

    /// All that are kept.
    pub fn all(&self) -> Vec<Vec<u8>> {
        self.0.values().cloned().collect()
    }

    /// The certificate with this fingerprint.
    pub fn get(&self, fingerprint: &[u8; 32]) -> Option<&Vec<u8>> {
        self.0.get(fingerprint)
    }

    /// The round that brought these is refused. Those that the CA signed stay, also if they are not in their time by the clock
    /// here: the coordinator, which may have done nothing wrong, does not send them again over this connection.
    pub fn forget_strangers(&mut self, brought: Brought, anchor: &TrustAnchor) {
        for fingerprint in brought.0 {
            let known = self.0.get(&fingerprint);
            // guard: certificates-of-strangers-are-forgotten
            if known.is_some_and(|one| anchor.signed_name(one).is_none()) {
                self.0.remove(&fingerprint);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use blindsum_crypto::pki::{CertificateAuthority, Kind, Validity};
    use blindsum_crypto::sign::Algorithm;
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;

    use super::*;

    /// A beginning with these certificates, in which all of them are needed.
    fn start(certificates: &[Vec<u8>]) -> pb::RoundStart {
        let roster = certificates.iter().map(|certificate| pb::Participant {
            fingerprint: crate::fingerprint(certificate).to_vec().into(),
            nonce: vec![0; 32].into(),
        });
        pb::RoundStart {
            roster: roster.collect(),
            certificates: certificates.iter().cloned().map(Into::into).collect(),
            ..pb::RoundStart::default()
        }
    }

    fn kept(certificates: &Certificates) -> usize {
        certificates.0.values().map(Vec::len).sum()
    }

    /// Abuse case 46: however many rounds are begun in vain, a party keeps no bytes of it.
    #[test]
    fn case_46_refused_beginnings_fill_no_memory() {
        let now = crate::testing::NOW;
        let mut rng = crate::testing::rng(1);
        let validity = Validity::days(now - 60, 1);
        let mut ca =
            || CertificateAuthority::create("CA", Algorithm::Ed25519, validity, &mut rng).unwrap();
        let (own, other) = (ca(), ca());
        let mut issue = |ca: &CertificateAuthority, name: &str| {
            let issued = ca.issue(name, &Kind::Party, Algorithm::Ed25519, validity, &mut rng);
            let pem = issued.unwrap().certificate;
            CertificateDer::from_pem_slice(pem.as_bytes())
                .unwrap()
                .to_vec()
        };
        let anchor = TrustAnchor::from_pem(own.certificate(), None).unwrap();
        let good = issue(&own, "a");
        let mut certificates = Certificates::default();
        for number in 0..100u32 {
            let junk = |length: usize| [vec![0; length], number.to_be_bytes().to_vec()].concat();
            let mut unneeded = start(&[junk(9)]);
            unneeded.certificates = vec![junk(10).into()];
            let mut more = start(&[junk(11)]);
            more.certificates.push(junk(12).into());
            for (mut wrong, says) in [
                (
                    start(&[junk(1), junk(2), junk(3), junk(4)]),
                    "the roster has 4 parties",
                ),
                (more, "2 certificates for 1 members"),
                (
                    start(&[good.clone(), junk(LARGEST)]),
                    "a certificate of 65540 bytes",
                ),
                (start(&[junk(5), junk(5)]), "one twice"),
                (unneeded, "of no member"),
            ] {
                let refused = certificates.take(&mut wrong, 3).err().unwrap();
                assert!(refused.contains(says), "{refused}");
                assert!(wrong.certificates.is_empty());
            }
            // These are looked at, and stay only if the CA knows them.
            let strangers = [good.clone(), issue(&other, "b"), junk(LARGEST - 4)];
            let brought = certificates.take(&mut start(&strangers), 3).unwrap();
            certificates.forget_strangers(brought, &anchor);
            assert_eq!(kept(&certificates), good.len());
        }
    }
}
