//! Everything that can go wrong in this crate.

use crate::{certificate::CertificateError, kex::Suite, roster::RosterError};

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
    /// The agreement gave no usable secret.
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
    /// The bytes of a verifying key are no key of its algorithm.
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
