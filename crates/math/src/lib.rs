//! The arithmetic that the other crates are built on: vectors of words modulo 2^b and their packing, prime fields, and
//! over these fields transforms, polynomials and Reed–Solomon codes.

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
pub mod polynomial;
pub mod prime_field;
pub mod reed_solomon;
pub mod residues;
#[allow(unsafe_code)]
pub mod simd;
pub mod tiny_field;
pub mod transform;
pub mod twin_residue;
pub mod words;

pub use error::MathError;
