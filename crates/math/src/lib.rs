//! Z_2^b word vectors, bit-packing and prime fields

#![deny(unsafe_code)]

mod error;
pub mod words;

pub use error::MathError;
