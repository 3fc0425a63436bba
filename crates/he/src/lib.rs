//! Additively symmetric encryption of word vectors: ciphertexts under one key add up to a ciphertext of the
//! sum, which takes nothing but additions of masks.
//!
//! | module | what it is for |
//! |---|---|
//! | [`flashe`] | FLASHE (Jiang, Wang, Liu): parties share a key that the server does not have |
//!
//! Nothing here reads a clock, draws randomness of its own or writes a file.
#![forbid(unsafe_code)]

pub mod flashe;
