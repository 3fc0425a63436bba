//! Benches of single steps of the other crates; the library itself is empty. Run one of them with
//! `cargo bench -p blindsum-bench --bench NAME`.
//!
//! They have a crate of their own so that nobody who builds or tests the others builds what they are measured with.
