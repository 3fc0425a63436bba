//! Z_2^b word vectors, bit-packing and prime fields

#![deny(unsafe_code)]

mod error;
pub mod field;
pub mod field61;
pub mod polynomial;
pub mod reed_solomon;
pub mod tiny_field;
pub mod words;

pub use error::MathError;
