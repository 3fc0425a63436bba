//! What a certificate may be used for: exactly one role in a job.
//!
//! RFC 5280 lets a certificate without extended key usage serve for everything, and TLS libraries follow it. Here such
//! a certificate is refused: the CA must say whether it is for a party, for a coordinator, or for a server that computes
//! with one.

use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::error::CertificateError;

/// Who may show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A party: the only extended key usage is client authentication.
    Party,
    /// A coordinator: the only extended key usage is server authentication.
    Coordinator,
    /// A server that computes with a coordinator: client and server authentication, and no other, as it dials and is
    /// dialled.
    Server,
}

impl Role {
    /// Checks that a certificate is for this role alone, and that its key may sign: its key usage has
    /// digitalSignature, and not keyCertSign.
    ///
    /// # Errors
    /// [`CertificateError::Usage`], [`CertificateError::CoordinatorUsage`] or [`CertificateError::ServerUsage`] if it is
    /// not, [`CertificateError::Malformed`] if it cannot be read.
    pub fn check(self, certificate: &CertificateDer<'_>) -> Result<(), CertificateError> {
        let malformed = |e: String| CertificateError::Malformed(e);
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|e| malformed(e.to_string()))?;
        let extended = parsed
            .extended_key_usage()
            .map_err(|e| malformed(e.to_string()))?;
        let usage = parsed.key_usage().map_err(|e| malformed(e.to_string()))?;
        let only = extended.is_some_and(|extended| {
            let usage = extended.value;
            let others = usage.any
                || usage.code_signing
                || usage.email_protection
                || usage.time_stamping
                || usage.ocsp_signing
                || !usage.other.is_empty();
            let roles = (usage.client_auth, usage.server_auth);
            !others && roles == (self != Role::Coordinator, self != Role::Party)
        });
        let signs = usage
            .is_some_and(|usage| usage.value.digital_signature() && !usage.value.key_cert_sign());
        match only && signs {
            true => Ok(()),
            false => Err(self.wrong()),
        }
    }

    /// A certificate is not one of this role.
    pub(crate) fn wrong(self) -> CertificateError {
        match self {
            Role::Party => CertificateError::Usage,
            Role::Coordinator => CertificateError::CoordinatorUsage,
            Role::Server => CertificateError::ServerUsage,
        }
    }
}
