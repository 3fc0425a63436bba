//! Z_2^b word vectors, bit-packing, prime fields and their transforms

#![deny(unsafe_code)]

pub mod crt;
pub mod dense;
mod error;
pub mod field;
pub mod field61;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod ifma;
pub mod inner_product;
pub mod lagrange;
pub mod paper;
pub mod polynomial;
pub mod prime_field;
pub mod reed_solomon;
pub mod residues;
pub mod tiny_field;
pub mod transform;
pub mod twin_residue;
pub mod words;

pub use error::MathError;
