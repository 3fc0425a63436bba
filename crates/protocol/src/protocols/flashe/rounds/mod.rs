//! A round: the encrypted vector with its check goes up, the survivors and the encrypted sum come down.
//!
//! * Stage 0 up: the packed words and the check of 16 bytes. Down: `survivors bitmap ‖ packed sum ‖ check`, to
//!   the survivors. Lengths are fixed by the round, so nothing is prefixed.

pub(super) mod client;
pub(super) mod server;

use std::sync::Arc;

use rand_core::CryptoRng;

use crate::core::plan::{Stage, small};
use crate::core::round::Ahead;
use crate::core::round::Machines;
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef, ServerStage};
use crate::kit::restore::read;
use crate::{Fault, FaultKind, Job, Opens, Plan, Round};

/// What may happen in a round.
pub(super) fn plan(job: &Job) -> Plan {
    let vector = small(job.spec()) + job.packed_len() as u64;
    let stages = [Stage::new("upload", vector, vector).input()];
    Plan::new(job.spec(), Opens::Parties, stages)
}

/// The machines of a round in which parties send whole vectors.
pub(super) struct Dense;

impl Machines for Dense {
    fn start(
        &self,
        setup: &Arc<ClientSetup>,
        input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        client::start(setup, input, None)
    }

    fn restore(
        &self,
        setup: &Arc<ClientSetup>,
        _stage: &str,
        state: &[u8],
    ) -> Result<Box<dyn ClientStage>, FaultKind> {
        read(state, |reader| client::restore(setup, reader))
    }

    fn serve(&self, round: &Arc<Round>) -> Result<Box<dyn ServerStage>, Fault> {
        server::serve(round)
    }

    fn prepare(&self, setup: &ClientSetup, bytes: usize) -> Result<Option<Ahead>, FaultKind> {
        client::prepare(setup, bytes)
    }
}
