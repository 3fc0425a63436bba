//! Nothing: the benches beside it measure single steps of the other crates, `cargo bench -p blindsum-bench --bench NAME`.
//!
//! They have a crate of their own so that nobody who builds or tests the others builds what they are measured with.
