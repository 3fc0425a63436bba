//! The `blindsumd` binary.
fn main() {}
