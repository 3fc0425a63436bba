//! How a server proves to parties, with which it has no connection, that it has said something: it signs it with the key
//! in its certificate, and sends the certificate along.

use blindsum_crypto::sign::SIGNATURE_LEN;
use tls_codec::{TlsDeserializeBytes, TlsSerializeBytes, TlsSize};

use super::wire::{Opaque, PREFIX, list};
use crate::{FaultKind, KnownServers, ServerIdentity, ServerRole};

/// Certificates that a proof has at most: the server's, and those between it and the CA.
const MAX_CERTIFICATES: usize = 4;
/// Bytes of a certificate at most. Those of a CA like ours have less than 1 KiB.
const LARGEST: usize = 16 << 10;

/// Certificates of a server and its signature. Nothing of both where nothing has to be proved.
#[derive(Clone, Default, TlsSerializeBytes, TlsDeserializeBytes, TlsSize)]
pub(crate) struct Proof {
    #[tls_codec(with = "list")]
    chain: Vec<Opaque>,
    signature: Opaque,
}

impl Proof {
    pub const MAX_BYTES: usize =
        PREFIX + MAX_CERTIFICATES * (PREFIX + LARGEST) + PREFIX + SIGNATURE_LEN;

    /// Signs `message` as this server, for the purpose `label`.
    ///
    /// # Errors
    /// [`FaultKind::Parameters`]: more certificates than a proof may have.
    pub fn by(server: &ServerIdentity, label: &str, message: &[u8]) -> Result<Self, FaultKind> {
        let count = server.chain.len();
        if count > MAX_CERTIFICATES {
            return Err(FaultKind::Parameters(format!(
                "{count} certificates of this server, but a proof has at most {MAX_CERTIFICATES}"
            )));
        }
        Ok(Self {
            chain: server.chain.iter().map(|der| der.clone().into()).collect(),
            signature: server.key.sign(label, message).into(),
        })
    }

    pub fn is_empty(&self) -> bool {
        // guard: half-a-proof-is-something
        self.chain.is_empty() && self.signature.as_slice().is_empty()
    }

    /// Checks that the server of this host signed `message`, for the purpose `label`.
    ///
    /// # Errors
    /// [`FaultKind::Unproved`]: too many certificates, none of this host, or a bad signature.
    pub fn check(
        &self,
        known: &KnownServers,
        (role, host): (ServerRole, &str),
        label: &str,
        message: &[u8],
    ) -> Result<(), FaultKind> {
        // guard: certificates-are-counted
        let count = self.chain.len();
        if count > MAX_CERTIFICATES {
            let reason = format!(
                "it shows {count} certificates, but a proof has at most {MAX_CERTIFICATES}"
            );
            return Err(FaultKind::Unproved { role, reason });
        }
        let chain: Vec<&[u8]> = self.chain.iter().map(Opaque::as_slice).collect();
        let key = known.key_of((role, host), &chain)?;
        let verified = key.verify(label, message, self.signature.as_slice());
        verified.map_err(|_| FaultKind::Unproved {
            role,
            reason: "its signature is not right".into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Cohort;
    use crate::{JobSpec, PaillierRing};

    const HOST: &str = "keys.example.org";

    /// Abuse case 37: more certificates than a proof may have. They are counted before any of them is looked at.
    #[test]
    fn case_37_a_proof_has_four_certificates_at_most() {
        let options = PaillierRing {
            decryptor: HOST.into(),
            ..PaillierRing::default()
        };
        let spec = JobSpec {
            protocol: options.into(),
            parties: 2,
            dim: 1,
            ..JobSpec::default()
        };
        let cohort = Cohort::new(spec, 3);
        let server = cohort.key_service.unwrap();
        let of = |count: usize| ServerIdentity {
            chain: vec![server.chain[0].clone(); count],
            key: server.key.clone(),
        };
        let check = |proof: &Proof| {
            let role = ServerRole::Decryptor;
            proof.check(&cohort.servers, (role, HOST), "label", b"message")
        };
        let mut proof = Proof::by(&of(4), "label", b"message").unwrap();
        assert_eq!(check(&proof), Ok(()));
        proof.chain.push(proof.chain[0].clone());
        let unproved = FaultKind::Unproved {
            role: ServerRole::Decryptor,
            reason: "it shows 5 certificates, but a proof has at most 4".into(),
        };
        assert_eq!(check(&proof), Err(unproved));
        // Nor does a server with more make one.
        let refused = Proof::by(&of(5), "label", b"message").err();
        let rule = "5 certificates of this server, but a proof has at most 4".into();
        assert_eq!(refused, Some(FaultKind::Parameters(rule)));
    }

    /// Either half alone is something.
    #[test]
    fn case_37_half_a_proof_is_not_empty() {
        assert!(Proof::default().is_empty());
        let certificate = Proof {
            chain: vec![vec![1].into()],
            ..Proof::default()
        };
        let signature = Proof {
            signature: vec![1].into(),
            ..Proof::default()
        };
        assert!(!certificate.is_empty() && !signature.is_empty());
    }
}
