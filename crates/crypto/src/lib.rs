//! Mask streams, key derivation, key agreement, sealing, signatures and certified rosters.
//!
//! The primitives come from aws-lc-rs and the RustCrypto crates; what is here is how Blindsum uses
//! them, in types that make the wrong use not compile:
//!
//! | module | what it is for |
//! |---|---|
//! | [`secret`] | bytes that are moved, never copied, and wiped |
//! | [`mask`] | expanding a seed and adding it to a vector of words, in one pass |
//!
//! Nothing here reads a clock or the system's random numbers: the time is an argument, randomness a
//! [`CryptoRng`] that the caller hands in.
#![deny(unsafe_code)]

pub mod mask;
pub mod secret;

mod error;
#[cfg(test)]
mod test_util;

pub use error::CryptoError;
pub use rand_core::CryptoRng;
pub use zeroize::Zeroizing;
