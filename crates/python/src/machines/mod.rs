//! The machines of a job for whoever carries frames in another way than over gRPC.
//!
//! They take and give whole frames as bytes. Everything that they do is done when a call returns, without the GIL.

mod desk;
mod events;
mod party;
mod server;

use std::time::Duration;

use blindsum_job::machine::{Now, Time};
use pyo3::prelude::*;

use crate::errors::raise;
pub use party::PartyMachine;
pub use server::ServerMachine;

/// The largest frame that a machine takes, in bytes.
const LARGEST_FRAME: usize = 256 << 20;

/// What a machine is called in errors. Two processes that went on from one state would use its keys and masks twice.
const MACHINE: &str = "machine";

/// The time on both clocks, in seconds: on one that never goes back, and since 1970-01-01 UTC.
fn clocks(py: Python<'_>, now: f64, wall: f64) -> PyResult<Now> {
    let read = |name: &str, seconds: f64| {
        Duration::try_from_secs_f64(seconds).map_err(|_| {
            let rule = format!("{seconds} must be a time in seconds, 0 or later");
            raise(py, "ConfigError", (name, rule))
        })
    };
    let unix_millis = read("wall", wall)?.as_millis();
    Ok(Now {
        time: Time(read("now", now)?),
        unix_millis: u64::try_from(unix_millis).unwrap_or(u64::MAX),
    })
}
