//! The client. Each stage is a type that owns only the secrets it still needs and is consumed by the
//! next one.

mod advertise;
mod columns;
mod share;

use std::sync::Arc;

use blindsum_sharing::ramp::RampSharing;

use crate::core::round::ClientSetup;
use crate::kit::confirmed_sum::AwaitConfirmation;
use crate::kit::restore::Restored;
use crate::kit::result::AwaitResult;
use crate::kit::snapshot::Reader;

/// A client from its snapshot in a stage.
pub(crate) fn restore(
    setup: &Arc<ClientSetup>,
    sharing: &Arc<RampSharing>,
    stage: &str,
    reader: &mut Reader<'_>,
) -> Restored {
    let (setup, sharing) = (setup.clone(), sharing.clone());
    Ok(Some(match stage {
        "share-vector" => Box::new(columns::AwaitColumns::load(setup, sharing, reader)?),
        "consistency" => {
            let sum = (sharing.column_len(), sharing.parameters().quorum());
            Box::new(AwaitConfirmation::load(setup, sum, reader)?)
        }
        "aggregate" => Box::new(AwaitResult::load(setup, reader)?),
        _ => return Ok(None),
    }))
}
