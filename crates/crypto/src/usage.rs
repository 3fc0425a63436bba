//! What a certificate may be used for: exactly one role in a job.
//!
//! RFC 5280 lets a certificate without extended key usage serve for everything, and TLS libraries follow it. Here such
//! a certificate is refused: the CA must say whether it is for a party, for a coordinator, for a server that computes
//! with one, or for an operator.

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
    /// An operator, who administers a coordinator and is in no round: client authentication and a usage of our own
    /// (`OPERATOR_USAGES`), and no other.
    Operator,
}

/// The value of the extension extendedKeyUsage of an operator's certificate (RFC 5280 section 4.2.1.12), in DER: client
/// authentication, and the usage of operators. That is 2.25.154868248036201392357572739927639843753, an OID of our own
/// made of a UUID (ITU-T X.667 section 7).
pub(crate) const OPERATOR_USAGES: &[u8] =
    b"\x30\x20\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x02\x06\x14\x69\x81\xe9\
      \x82\xc5\x89\xab\xf8\xfa\xac\x85\x9a\x98\xdb\xe1\xd5\xe0\xef\xc7\x29";

/// The usage of operators in there.
fn is_operator(usage: &[u8]) -> bool {
    OPERATOR_USAGES[14..] == *usage
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Party, Role::Coordinator, Role::Server, Role::Operator];

    /// The role's name, as in `blindsum pki list`.
    pub fn name(self) -> &'static str {
        match self {
            Role::Party => "party",
            Role::Coordinator => "coordinator",
            Role::Server => "server",
            Role::Operator => "operator",
        }
    }

    /// Checks that a certificate is for this role alone, and that its key may sign: its key usage has
    /// digitalSignature, and not keyCertSign.
    ///
    /// # Errors
    /// [`CertificateError::Usage`], [`CertificateError::CoordinatorUsage`], [`CertificateError::ServerUsage`] or
    /// [`CertificateError::OperatorUsage`] if it is not, [`CertificateError::Malformed`] if it cannot be read.
    pub fn check(self, certificate: &CertificateDer<'_>) -> Result<(), CertificateError> {
        let malformed = |e: String| CertificateError::Malformed(e);
        let (_, parsed) =
            X509Certificate::from_der(certificate).map_err(|e| malformed(e.to_string()))?;
        let extended = parsed
            .extended_key_usage()
            .map_err(|e| malformed(e.to_string()))?;
        let usage = parsed.key_usage().map_err(|e| malformed(e.to_string()))?;
        // guard: a-usage-is-stated
        let only = extended.is_some_and(|extended| {
            let usage = extended.value;
            let others = usage.any
                || usage.code_signing
                || usage.email_protection
                || usage.time_stamping
                || usage.ocsp_signing;
            let own = match &usage.other[..] {
                [] => Some(false),
                // guard: only-our-usage-makes-an-operator
                [own] => is_operator(own.as_bytes()).then_some(true),
                _ => None,
            };
            let found = (usage.client_auth, usage.server_auth, own);
            let expected = match self {
                // guard: not-both-roles, an-operator-is-no-party
                Role::Party => (true, false, Some(false)),
                Role::Coordinator => (false, true, Some(false)),
                Role::Server => (true, true, Some(false)),
                Role::Operator => (true, false, Some(true)),
            };
            // guard: one-role-and-nothing-else
            !others && found == expected
        });
        let signs = usage
            // guard: key-usage-is-stated, keys-that-sign, keys-that-sign-no-certificates
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
            Role::Operator => CertificateError::OperatorUsage,
        }
    }
}
