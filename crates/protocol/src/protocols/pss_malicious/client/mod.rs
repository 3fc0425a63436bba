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

use crate::core::round::ClientSetup;
use crate::kit::confirmed_sum::AwaitConfirmation;
use crate::kit::restore::Restored;
use crate::kit::result::AwaitResult;
use crate::kit::snapshot::Reader;

pub use misbehaviour::Misbehaviour;

/// A client from its snapshot in a stage.
pub(super) fn restore(
    setup: &Arc<ClientSetup>,
    sharing: &Arc<ValiditySharing>,
    stage: &str,
    reader: &mut Reader<'_>,
) -> Restored {
    let (setup, sharing) = (setup.clone(), sharing.clone());
    Ok(Some(match stage {
        "share-vector" => Box::new(columns::AwaitColumns::load(setup, sharing, reader)?),
        "confirm-challenge" => Box::new(challenge::AwaitChallenge::load(setup, sharing, reader)?),
        "respond" | "dispute" => Box::new(verdict::AwaitVerdict::load(setup, sharing, reader)?),
        "confirm-survivors" => {
            let quorum = sharing.parameters().quorum();
            let sum = (sharing.words().column_len(), quorum);
            Box::new(AwaitConfirmation::load(setup, sum, reader)?)
        }
        "aggregate" => Box::new(AwaitResult::load(setup, reader)?),
        _ => return Ok(None),
    }))
}
