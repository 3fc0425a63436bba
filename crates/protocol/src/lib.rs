//! Secure aggregation protocols as byte machines.
//!
//! A protocol is two state machines, [`Client`] and [`Server`], and a [`Follower`] for each further server,
//! that eat bytes and give bytes. There is no socket, no clock, no thread that outlives a call and no hidden randomness in here: the
//! simulator, the coordinator service, the Python binding and the fuzzers drive the same machines,
//! and the same seed and inputs give the same bytes.
//!
//! Read in this order: [`JobSpec`] (what is agreed before anything is sent), [`Round`] (what one
//! aggregation is bound to), [`Client`] and [`Server`] (the machines), [`Fault`] (what can go wrong,
//! and whose fault it is), then one folder per protocol.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

mod core;
mod kit;
mod machine;
mod protocols;
#[cfg(test)]
mod testing;
#[cfg(any(test, feature = "testing"))]
mod toys;

/// What options are made of, for those who list them: their tables, types and values.
pub mod options {
    pub use crate::core::options::{Bounds, Edge, Kind, Named, OptionInfo, Rule, Table, Value};
}

pub use crate::core::evidence::Evidence;
pub use crate::core::fault::{Culprit, Fault, FaultKind, SurvivorListError};
pub use crate::core::guard::{AnySurvivors, SurvivorGuard};
pub use crate::core::input::{Input, SparseInput};
pub use crate::core::names::{Adversary, ModelUpdate, SuiteName};
pub use crate::core::party::{PartyId, PartySet};
pub use crate::core::plan::{Opens, Plan, Step, Who};
pub use crate::core::protocol::Sparsity;
pub use crate::core::round::{Round, RoundKind};
pub use crate::core::seat::{Seat, ServerRole};
pub use crate::core::spec::encodings::*;
pub use crate::core::spec::{
    Job, JobSpec, MAX_DIM, MAX_PARTIES, SpecError, TensorLayout, ceiling_of_fraction,
    floor_of_fraction,
};
pub use kit::prepared::Prepared;
pub use kit::vault::{Kept, KeyName, MemoryVault, Vault};
pub use machine::{
    Answer, Client, ClientSetup, Closed, Excuse, Follower, Message, Outcome, Outgoing, Piece,
    Receipt, RoundSum, Server, Waiting,
};
pub use protocols::flashe::Masking;
pub use protocols::secagg::{AggregationGraph, GraphParameters, ParameterError};
pub use protocols::*;
