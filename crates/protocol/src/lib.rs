//! Secure aggregation protocols as byte machines.
//!
//! A protocol is two state machines, [`Client`] and [`Server`], that eat bytes and give bytes. There
//! is no socket, no clock, no thread that outlives a call and no hidden randomness in here: the
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

mod consistency;
mod fault;
mod flashe;
mod guard;
mod input;
mod keys;
mod machine;
mod names;
mod party;
mod plain;
mod prepared;
mod ramp;
mod registry;
mod result;
mod round;
mod secagg;
mod snapshot;
mod spec;
#[cfg(test)]
mod testing;
mod vault;
mod vector;
mod wire;

pub use fault::{Culprit, Fault, FaultKind, SurvivorListError};
pub use guard::{AnySurvivors, SurvivorGuard};
pub use input::{Input, SparseInput};
pub use machine::{
    Answer, Client, ClientSetup, Closed, Message, Outcome, Outgoing, Piece, Receipt, RoundSum,
    Server, Waiting,
};
pub use names::{
    Adversary, Clipping, EncodingName, Masking, ModelUpdate, ProtocolName, RoundingName, SuiteName,
};
pub use party::{PartyId, PartySet};
pub use prepared::Prepared;
pub use registry::{Direction, ProtocolInfo, protocols};
pub use round::{Round, RoundKind};
pub use secagg::{AggregationGraph, GraphParameters, ParameterError};
pub use spec::{
    Job, JobSpec, MAX_DIM, MAX_PARTIES, SpecError, TensorLayout, ceiling_of_fraction,
    floor_of_fraction,
};
pub use vault::{Kept, KeyName, MemoryVault, Vault};
