//! The protocols. One joins by adding its folder and its line here; nothing else needs to know it.

use std::sync::Arc;

use rand_core::CryptoRng;

use crate::machine::{ClientSetup, ClientStage, ClientStep, InputRef, ServerStage};
use crate::{Fault, FaultKind, Job, JobSpec, ProtocolName, Round, SpecError, plain, secagg};

/// What the rest of the house needs to know of a protocol.
pub struct ProtocolInfo {
    /// Its name.
    pub name: ProtocolName,
    /// Names of the stages, the n-th is what clients answer n-th.
    pub(crate) stages: fn(&JobSpec) -> &'static [&'static str],
    /// The stage whose answer carries the vector.
    pub(crate) input_stage: u8,
    /// Smallest number of survivors where the job names none.
    pub(crate) min_parties: fn(&JobSpec) -> usize,
    /// The protocol's own rules for a job.
    pub(crate) check: fn(&Job) -> Result<(), SpecError>,
    /// A client and its first message body.
    pub(crate) start: StartClient,
    /// A client from its snapshot.
    pub(crate) restore: RestoreClient,
    /// A server.
    pub(crate) serve: StartServer,
}

pub(crate) type StartClient =
    fn(&Arc<ClientSetup>, InputRef<'_, '_>, &mut dyn CryptoRng) -> Result<ClientStep, Fault>;
pub(crate) type StartServer = fn(&Arc<Round>) -> Result<Box<dyn ServerStage>, Fault>;
pub(crate) type RestoreClient =
    fn(&Arc<ClientSetup>, u8, &[u8]) -> Result<Box<dyn ClientStage>, FaultKind>;

static PROTOCOLS: [ProtocolInfo; 3] = [plain::INFO, secagg::SECAGG, secagg::SECAGG_PLUS];

/// Every protocol, in the order in which they are listed to users.
pub fn protocols() -> &'static [ProtocolInfo] {
    &PROTOCOLS
}

pub(crate) fn info(name: ProtocolName) -> &'static ProtocolInfo {
    let [plain, secagg, secagg_plus] = &PROTOCOLS;
    match name {
        ProtocolName::Plain => plain,
        ProtocolName::SecAgg => secagg,
        ProtocolName::SecAggPlus => secagg_plus,
    }
}
