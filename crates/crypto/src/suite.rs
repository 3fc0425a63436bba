//! The groups in which keys are agreed.

use std::fmt;

/// The group in which keys are agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// Curve25519 (RFC 7748); the default of every job.
    X25519,
    /// NIST P-256 (SP 800-56A), where rules ask for a NIST curve.
    P256,
}

impl Suite {
    /// Bytes of a public key.
    pub const fn public_key_len(self) -> usize {
        match self {
            Suite::X25519 => 32,
            Suite::P256 => 33,
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Suite::X25519 => "X25519",
            Suite::P256 => "P-256",
        })
    }
}
