//! Tests of several modules together.

mod held;
