//! Everything that can go wrong in this crate.

use crate::{
    calendar::{UnixSeconds, utc},
    suite::Suite,
};

/// Why a key, message, certificate or roster was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CryptoError {
    /// A secret was handed in with the wrong number of bytes.
    #[error("secret: {got} bytes, must be {expected}")]
    SecretLength {
        /// Bytes it must have.
        expected: usize,
        /// Bytes it had.
        got: usize,
    },
    /// A P-256 secret is zero or not below the group order.
    #[error("P-256 secret: must satisfy 0 < secret < group order")]
    SecretRange,
    /// A public key has the wrong number of bytes or the wrong point format.
    #[error("{suite} public key: {got} bytes, must be {expected} (P-256: compressed point)")]
    KeyLength {
        /// The suite it was read for.
        suite: Suite,
        /// Bytes it must have.
        expected: usize,
        /// Bytes it had.
        got: usize,
    },
    /// An X25519 public key is not below 2^255 - 19, so the same key would have two encodings.
    #[error("X25519 public key: coordinate must be below 2^255 - 19")]
    KeyNotCanonical,
    /// An X25519 public key lies in the small subgroup: every agreement with it is predictable.
    #[error("X25519 public key: point of low order")]
    KeyLowOrder,
    /// A P-256 public key is no point of the curve.
    #[error("P-256 public key: not a point of the curve")]
    KeyOffCurve,
    /// Two keys of different suites cannot agree.
    #[error("key agreement: own key is {own}, the other one {other}")]
    SuiteMismatch {
        /// The suite of the own key pair.
        own: Suite,
        /// The suite of the other party's public key.
        other: Suite,
    },
    /// The agreement gave no usable secret, or the library failed to make a key.
    #[error("key agreement: the result is the neutral element")]
    Agreement,
    /// A sealed message was made with another key or header, or was changed on the way.
    #[error("sealed message: does not open with this key and header")]
    Open,
    /// A sealed message is shorter than what sealing adds.
    #[error("sealed message: {got} bytes, must be at least {least}")]
    SealedLength {
        /// Bytes that even an empty message has.
        least: usize,
        /// Bytes it had.
        got: usize,
    },
    /// A signature does not belong to this key, label and message.
    #[error("signature: not valid for this key, label and message")]
    Signature,
    /// The bytes are no verifying key of this algorithm, or the library failed to make a key.
    #[error("verifying key: {0}")]
    VerifyingKey(&'static str),
    /// A PEM text could not be read.
    #[error("{what}: {why}")]
    Pem {
        /// What was to be read, as in "identity key".
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A name breaks the rule for names.
    #[error(
        "name {name:?}: must be 1 to 64 characters, labels of [a-z0-9-] joined by dots, \
         a label 1 to 63 characters without a hyphen at its ends"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A certificate could not be made.
    #[error("{what}: {why}")]
    Issue {
        /// What was to be made, as in "certificate".
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// A certificate was refused.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A roster was refused.
    #[error(transparent)]
    Roster(#[from] RosterError),
}

/// Why a certificate was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// It is no X.509 certificate, or one that breaks RFC 5280.
    #[error("certificate: malformed: {0}")]
    Malformed(String),
    /// Its time is over.
    #[error("certificate: expired (valid until {}, now {})", utc(*.not_after), utc(*.now))]
    Expired {
        /// The last second in which it was valid.
        not_after: UnixSeconds,
        /// The time it was checked for.
        now: UnixSeconds,
    },
    /// Its time has not come.
    #[error("certificate: not valid yet (valid from {}, now {})", utc(*.not_before), utc(*.now))]
    NotYetValid {
        /// The first second in which it is valid.
        not_before: UnixSeconds,
        /// The time it was checked for.
        now: UnixSeconds,
    },
    /// It is not signed by the job's CA.
    #[error("certificate: not signed by the job's CA")]
    UnknownIssuer,
    /// It is on the CA's revocation list.
    #[error("certificate: revoked")]
    Revoked,
    /// The job has revocation lists, but none of the CA that signed it.
    #[error(
        "certificate: there is no revocation list of the CA that signed it; give this side that list"
    )]
    RevocationUnknown,
    /// The revocation list is not signed by the CA that signed the certificate.
    #[error("revocation list: not signed by the job's CA")]
    RevocationListForeign,
    /// The revocation list of its CA is out of date.
    #[error("revocation list: out of date (the next one was due {}, now {})", utc(*.next_update), utc(*.now))]
    RevocationListExpired {
        /// When the CA promised the next list.
        next_update: UnixSeconds,
        /// The time it was checked for.
        now: UnixSeconds,
    },
    /// It was not issued for a party.
    #[error(
        "certificate: must be an end-entity certificate with client authentication as its only extended key usage \
         and digitalSignature in its key usage"
    )]
    Usage,
    /// It was not issued for a coordinator.
    #[error(
        "certificate: must be an end-entity certificate with server authentication as its only extended key usage \
         and digitalSignature in its key usage"
    )]
    CoordinatorUsage,
    /// It was not issued for a server that computes with a coordinator.
    #[error(
        "certificate: must be an end-entity certificate with client and server authentication as its only extended key \
         usages and digitalSignature in its key usage"
    )]
    ServerUsage,
    /// It was not issued for an operator.
    #[error(
        "certificate: must be an end-entity certificate of an operator, with client authentication and the usage of \
         operators as its only extended key usages and digitalSignature in its key usage"
    )]
    OperatorUsage,
    /// It does not name exactly one party.
    #[error("certificate: must have exactly one DNS name, a party's name; has {0:?}")]
    Names(Vec<String>),
    /// Its key is neither Ed25519 nor P-256.
    #[error("certificate: key must be Ed25519 or P-256")]
    Key,
}

impl CertificateError {
    /// What to do, and why the certificate of `whose` is not in its time by the clock that it was checked by. `None` if it
    /// was refused for something else. What matters most comes first, and all of it is short: others hear of it as foreign
    /// text, which is cut to 200 characters.
    pub fn out_of_time(&self, whose: &str) -> Option<String> {
        let (now, why) = match self {
            Self::Expired { not_after, now } => (now, format!("expired {}", utc(*not_after))),
            Self::NotYetValid { not_before, now } => {
                (now, format!("is not valid before {}", utc(*not_before)))
            }
            _ => return None,
        };
        Some(format!(
            "check the clocks: by this machine's clock ({}) the certificate of {whose} {why}; if they are right, renew it",
            utc(*now)
        ))
    }

    /// Whether a wrong clock may be all that is wrong.
    pub fn is_of_time(&self) -> bool {
        matches!(self, Self::Expired { .. } | Self::NotYetValid { .. })
    }
}

/// Why a roster was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RosterError {
    /// There is nobody in it.
    #[error("roster: must have at least one member")]
    Empty,
    /// A name breaks the rule for names.
    #[error("roster, rank {rank}: {error}")]
    Name {
        /// The member's place.
        rank: u32,
        /// The rule that is broken.
        error: Box<CryptoError>,
    },
    /// A member's certificate was refused.
    #[error("roster, party {party:?}: {error}")]
    Certificate {
        /// The member's name.
        party: String,
        /// What is wrong with it.
        error: CertificateError,
    },
    /// A member's certificate is that of another party.
    #[error("roster, party {party:?}: its certificate names {certified:?}")]
    WrongName {
        /// The name in the roster.
        party: String,
        /// The name in the certificate.
        certified: String,
    },
    /// A name comes twice.
    #[error("roster, party {party:?}: twice in the roster")]
    DuplicateName {
        /// The name.
        party: String,
    },
    /// Two members have the same signing key: one party under two names.
    #[error("roster, party {party:?}: has the same key as {other:?}")]
    DuplicateKey {
        /// The member's name.
        party: String,
        /// The earlier member with the same key.
        other: String,
    },
    /// The bytes are no roster.
    #[error("roster: {0}")]
    Encoding(&'static str),
}
