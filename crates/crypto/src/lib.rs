//! Mask streams, key derivation, key agreement, sealing, signatures and certified rosters.
//!
//! The primitives come from aws-lc-rs and the RustCrypto crates; what is here is how Blindsum uses
//! them, in types that make the wrong use not compile:
//!
//! | module | what it is for |
//! |---|---|
//! | [`secret`] | bytes that are moved, never copied, and wiped |
//! | [`kdf`] | the round [`kdf::Context`] and every derivation and hash, with one framing |
//! | [`kex`] | a fresh key pair per party and round, and what two parties agree on |
//! | [`seal`] | one key, one message between two parties; state sealed at rest |
//! | [`sign`] | the long-term identity key of a party |
//! | [`certificate`] | what the job's CA vouches for |
//! | [`roster`] | the parties of one round, all certified |
//! | [`calendar`] | times in text, for people |
//! | [`pem`] | the sections of PEM files, as people hand them around |
//! | [`encrypted`] | private keys under a passphrase |
//! | [`pki`] | making the CA, certificates and revocation lists |
//! | [`fingerprint`] | recognising a message that was received before |
//! | [`mask`] | expanding a seed and adding it to a vector of words, in one pass |
//!
//! Nothing here reads a clock or the system's random numbers: the time is an argument, randomness a
//! [`CryptoRng`] that the caller hands in.
#![deny(unsafe_code)]

#[cfg(any(test, feature = "audit"))]
pub mod audit;
pub mod calendar;
pub mod certificate;
pub mod encrypted;
pub mod fingerprint;
pub mod kdf;
pub mod kex;
pub mod mask;
pub mod merkle;
pub mod pem;
pub mod pki;
pub mod roster;
pub mod seal;
pub mod secret;
pub mod sign;
pub mod usage;

mod error;
mod suite;
#[cfg(test)]
mod test_util;

pub use error::CryptoError;
pub use rand_core::CryptoRng;
pub use zeroize::Zeroizing;
