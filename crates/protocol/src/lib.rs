//! Secure aggregation protocols as state machines that take bytes and give bytes.
//!
//! A protocol is two machines: [`Client`], a party's side, and [`Server`], the coordinator's. (A protocol with more
//! servers has a [`Follower`] for each of them.) There is no socket, no clock, no thread that outlives a call and no
//! hidden randomness in here: the simulator, the coordinator service, the Python binding and the fuzzers drive the same
//! machines, and the same seed and inputs give the same bytes.
//!
//! Read in this order: [`JobSpec`] (what is agreed before anything is sent), [`Round`] (what one aggregation is bound
//! to), [`Client`] and [`Server`] (the machines), [`Fault`] (what can go wrong, and who caused it), then one folder for
//! each protocol.
#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

// The simulator's corrupt parties are part of the unit tests, under the name that they know this crate by.
#[cfg(test)]
extern crate self as blindsum_protocol;

mod core;
mod kit;
mod machine;
/// The protocols. One joins by adding its folder, and its lines here and in the choice below; nothing else needs to
/// know it.
mod protocols {
    pub(crate) mod flashe;
    pub(crate) mod mpc3;
    pub(crate) mod paillier;
    pub(crate) mod plain;
    pub(crate) mod pss_malicious;
    pub(crate) mod ramp;
    pub(crate) mod secagg;
}
#[cfg(test)]
mod testing;
#[cfg(any(test, feature = "testing"))]
mod toys;

/// The declarations of options, for programs that list them: tables, types and values.
pub mod options {
    pub use crate::core::options::{Bounds, Edge, Kind, Named, OptionInfo, Rule, Table, Value};
}

pub use crate::core::evidence::Evidence;
pub use crate::core::fault::{Culprit, Fault, FaultKind, SurvivorListError};
pub use crate::core::fault_class::FaultClass;
pub use crate::core::guard::{AnyRelease, AnySurvivors, NotOpened, ReleaseGuard, SurvivorGuard};
pub use crate::core::input::{Input, SparseInput};
pub use crate::core::job::Job;
pub use crate::core::kind::RoundKind;
pub use crate::core::memory::JobMemory;
pub use crate::core::names::{Adversary, InitialModel, ModelUpdate, SuiteName};
pub use crate::core::party::{PartyId, PartySet};
pub use crate::core::plan::{Opens, Plan, Step, Who};
pub use crate::core::privacy::Privacy;
pub use crate::core::round::{
    ClientSetup, Excuse, FollowerSetup, InTheClear, Piece, Prepared, Round, RoundSum, Tag,
    nonce_commitment,
};
pub use crate::core::round_parameters::RoundParameters;
pub use crate::core::seat::{Seat, ServerRole};
pub use crate::core::servers::{KnownServers, ServerIdentity};
pub use crate::core::sparsity::Sparsity;
pub use crate::core::spec::encodings::*;
pub use crate::core::spec::privacy::*;
pub use crate::core::spec::steps::*;
pub use crate::core::spec::stops::*;
pub use crate::core::spec::{
    JobSpec, MAX_DIM, MAX_PARTIES, MAX_SECONDS, Metric, Parameters, SpecError, TensorLayout,
    ceiling_of_fraction, floor_of_fraction,
};
pub use crate::core::vault::{Kept, KeyName, MemoryVault, Vault};
pub use blindsum_mpc::ServerIndex;
pub use blindsum_privacy::{Adjacency, PrivacyError, Spent, SquaredMu};
pub use kit::wire::Message;
pub use machine::{Answer, Client, Closed, Follower, Outcome, Outgoing, Receipt, Server, Waiting};
pub use protocols::flashe::{DivisorName, Masking};
pub use protocols::mpc3::{ResultName, RuleName, TruncationName, TrustName};
pub use protocols::paillier::{ExponentName, KeyBits, RingOrder};
pub use protocols::pss_malicious::Bound;
#[doc(hidden)]
pub use protocols::pss_malicious::Misbehaviour;
pub use protocols::secagg::{AggregationGraph, GraphParameters, ParameterError};
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub use toys::share_paillier_keys;

use crate::core::protocol::{ProtocolInfo, ProtocolTable};
use crate::core::spec::choose_table;
use protocols::*;

choose_table! {
    /// Which protocol protects the sum, with its options.
    ProtocolChoice,
    /// Which protocol protects the sum.
    ProtocolName, ProtocolTable;
    plain::Plain,
    secagg::SecAgg,
    secagg::SecAggPlus,
    ramp::Fssa,
    ramp::Pss,
    pss_malicious::PssMalicious,
    flashe::Flashe,
    mpc3::Mpc3,
    paillier::PaillierRing,
    paillier::PaillierBroadcast,
    paillier::PaillierAllReduce,
}

impl ProtocolName {
    fn info(self) -> &'static ProtocolInfo {
        ProtocolChoice::from(self).view().info()
    }

    /// Whether anything is hidden from the server.
    pub fn protects(self) -> bool {
        self.info().protects
    }

    /// Whether each party is asked whose vectors may be summed, before the sum is opened ([`SurvivorGuard`]).
    pub fn asks_parties(self) -> bool {
        self.info().asks_parties
    }

    /// Whether parties may work with the server and together learn no more than the sum. If not, the server can read
    /// every vector, alone (`plain`) or with the help of any one party (`flashe`).
    pub fn tolerates_corrupt(self) -> bool {
        self.info().tolerates_corrupt
    }
}

impl JobSpec {
    /// What its protocol is.
    pub(crate) fn info(&self) -> &'static ProtocolInfo {
        #[cfg(any(test, feature = "testing"))]
        if let Some(toy) = crate::toys::of(self) {
            return toy;
        }
        self.protocol.view().info()
    }
}
