//! Z_2^b word vectors, bit-packing and prime fields

pub mod words;
