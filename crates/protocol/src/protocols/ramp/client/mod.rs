//! The client. Each stage is a type that owns only the secrets it still needs and is consumed by the
//! next one.

mod advertise;
mod columns;
mod share;

use std::sync::Arc;

use blindsum_sharing::ramp::RampSharing;

use crate::FaultKind;
use crate::core::round::{ClientSetup, ClientStage};
use crate::kit::confirmed_sum::AwaitConfirmation;
use crate::kit::keys::is_active;
use crate::kit::result::AwaitResult;
use crate::kit::snapshot::Reader;

/// A client from its snapshot after its answer of `stage`.
pub(crate) fn restore(
    setup: &Arc<ClientSetup>,
    sharing: &Arc<RampSharing>,
    stage: u8,
    state: &[u8],
) -> Result<Box<dyn ClientStage>, FaultKind> {
    let mut reader = Reader::new(state);
    let (setup, sharing) = (setup.clone(), sharing.clone());
    let next: Box<dyn ClientStage> = match (stage, is_active(&setup.round)) {
        (1, _) => Box::new(columns::AwaitColumns::load(setup, sharing, &mut reader)?),
        (2, true) => {
            let sum = (sharing.column_len(), sharing.parameters().quorum());
            Box::new(AwaitConfirmation::load(setup, sum, &mut reader)?)
        }
        (2, false) | (3, true) => Box::new(AwaitResult::load(setup, &mut reader)?),
        _ => return Err(FaultKind::Snapshot("no such stage".into())),
    };
    reader.end()?;
    Ok(next)
}
