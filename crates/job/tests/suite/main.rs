//! Jobs as machines, driven by hand: no network, no runtime, no clock but the test's.

mod coordinating;
mod party;
mod scene;
mod suspended;
