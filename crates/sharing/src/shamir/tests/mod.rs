//! Tests of the whole scheme.

mod laws;
mod privacy;
mod vectors;
