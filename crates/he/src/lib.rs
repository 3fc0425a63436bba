//! Additive encryption: ciphertexts add up to a ciphertext of the sum.
//!
//! | module | what it is for |
//! |---|---|
//! | [`flashe`] | FLASHE (Jiang, Wang, Liu): parties share a key that the server does not have |
//! | [`paillier`] | Paillier's scheme: everybody encrypts and adds, one key decrypts |
//!
//! Nothing here reads a clock, draws randomness of its own or writes a file.
#![deny(unsafe_code)]

pub mod flashe;
pub mod paillier;
