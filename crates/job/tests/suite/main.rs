//! Jobs as machines, driven by hand: no network, no runtime, no clock but the test's.

mod accusers;
mod actors;
mod calling;
mod clocks;
mod computing;
mod coordinating;
mod draws;
mod ensemble;
mod farewell;
mod first_models;
mod followers;
mod held;
mod hosted;
mod hostile;
mod hosts;
mod kept;
mod membership;
mod nonces;
mod opening;
mod orders;
mod party;
mod plateau;
mod privacy;
mod recorded;
mod releases;
mod returning;
mod scene;
mod spending;
#[path = "../../../../vectors/support.rs"]
#[allow(dead_code)]
mod support;
mod suspended;
mod told;
mod vectors;
mod waiting;
