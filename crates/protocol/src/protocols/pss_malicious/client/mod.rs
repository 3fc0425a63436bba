//! A party: prover of its own vector, and verifier of those of the others. Each stage is a type that owns only the secrets
//! it still needs and is consumed by the next one.

mod advertise;
mod challenge;
mod columns;
mod dealt;
mod misbehaviour;
mod places;
mod share;
mod verdict;

use std::sync::Arc;

use blindsum_sharing::validity::ValiditySharing;

use crate::FaultKind;
use crate::core::round::{ClientSetup, ClientStage};
use crate::kit::confirmed_sum::AwaitConfirmation;
use crate::kit::keys::is_active;
use crate::kit::result::AwaitResult;
use crate::kit::snapshot::Reader;

pub use misbehaviour::Misbehaviour;

/// A client from its snapshot after its answer of `stage`.
pub(super) fn restore(
    setup: &Arc<ClientSetup>,
    sharing: &Arc<ValiditySharing>,
    stage: u8,
    state: &[u8],
) -> Result<Box<dyn ClientStage>, FaultKind> {
    let mut reader = Reader::new(state);
    let (setup, sharing) = (setup.clone(), sharing.clone());
    // Stages that only an active round has shift those behind them.
    let next: Box<dyn ClientStage> = match (stage, is_active(&setup.round)) {
        (1, _) => Box::new(columns::AwaitColumns::load(setup, sharing, &mut reader)?),
        (2, true) => Box::new(challenge::AwaitChallenge::load(
            setup,
            sharing,
            &mut reader,
        )?),
        (2 | 3, false) | (3 | 4, true) => {
            Box::new(verdict::AwaitVerdict::load(setup, sharing, &mut reader)?)
        }
        (5, true) => {
            let quorum = sharing.parameters().quorum();
            let sum = (sharing.words().column_len(), quorum);
            Box::new(AwaitConfirmation::load(setup, sum, &mut reader)?)
        }
        (4, false) | (6, true) => Box::new(AwaitResult::load(setup, &mut reader)?),
        _ => return Err(FaultKind::Snapshot("no such stage".into())),
    };
    reader.end()?;
    Ok(next)
}
