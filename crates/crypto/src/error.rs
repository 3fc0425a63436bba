//! Everything that can go wrong in this crate.

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
}
