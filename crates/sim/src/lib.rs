//! Deterministic simulator of any protocol, for many parties in one process.
//!
//! It drives the machines of `blindsum-protocol` in virtual time. The same scenario, seed and inputs give the same
//! messages and the same sum, on any number of threads; only the measured times differ. Parties vanish, restart and are
//! late as the [`Scenario`] says. The [`Network`] delays, loses, repeats and reorders messages, and [`Hooks`] between
//! the machines may change them. Every sum is compared, bit for bit, with the sum of the survivors' words computed in
//! the clear.
//!
//! ```
//! use std::{ops::ControlFlow, sync::Arc};
//! use blindsum_protocol::{JobSpec, ProtocolName};
//! use blindsum_sim::{RoundOutcome, Scenario, Synthetic, run};
//!
//! let spec = JobSpec { protocol: ProtocolName::Plain.into(), parties: 10, dim: 100, ..JobSpec::default() };
//! let job = Arc::new(spec.validate()?);
//! let inputs = Synthetic::new(&job, 7);
//! let scenario = Scenario { drop: 0.1, seed: 7, ..Scenario::new(job) };
//! let result = run(scenario, &inputs, &mut (), &mut |_| ControlFlow::Continue(()))?;
//! assert_eq!(result.report.last.outcome, RoundOutcome::Sum);
//! assert_eq!(result.report.last.survivors, 9);
//! assert!(result.report.last.exact);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod agenda;
mod clock;
mod cohort;
mod costs;
mod deviation;
mod drive;
mod engine;
mod error;
mod hooks;
mod inputs;
mod key_setup;
mod liars;
mod memories;
mod metrics;
mod network;
mod progress;
mod reference;
mod reform;
mod relay;
mod report;
mod rounds;
mod scenario;
mod seeds;
mod simulation;
mod sparse;
mod state;
mod training;
mod turn;
mod weighted;
mod words;
mod workers;
mod world;

pub use blindsum_encode::{Integers, Values};
pub use clock::peak_rss_bytes;
pub use cohort::Cohort;
pub use deviation::Deviation;
pub use error::SimError;
pub use hooks::{Action, Hooks};
pub use inputs::{Given, Inputs, Scratch, Synthetic};
pub use liars::{Liars, LieKind};
pub use network::Network;
pub use progress::Progress;
pub use report::{
    Costs, Excluded, KeySetupReport, Leftover, PartyClipping, Report, RoundOutcome, RoundReport,
    ServerReport, Spread, SpreadBytes, StageReport,
};
pub use rounds::{Rounds, run};
pub use scenario::{DropAt, Event, Happening, Scenario, Stage};
pub use simulation::{RoundResult, Run, Simulation};
pub use state::TrainingState;
pub use training::Training;
pub use turn::PartyEnd;
pub use world::{Broken, Campaign, CampaignError, Faults, Kind, Tally, beside_a_liar};
