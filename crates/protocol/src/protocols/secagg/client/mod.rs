//! The client. Each stage is a type that owns only the secrets it still needs and is consumed by the
//! next one.

mod advertise;
mod held;
mod masked_input;
mod share;
mod unmask;

use std::sync::Arc;

use crate::FaultKind;
use crate::core::round::{ClientSetup, ClientStage};
use crate::kit::result::AwaitResult;
use crate::kit::snapshot::Reader;

use super::AggregationGraph;
use crate::kit::keys::is_active;

pub(crate) use advertise::start;

/// A client from its snapshot after its answer of `stage`.
pub(crate) fn restore(
    setup: &Arc<ClientSetup>,
    graph: &Arc<AggregationGraph>,
    stage: u8,
    state: &[u8],
) -> Result<Box<dyn ClientStage>, FaultKind> {
    let mut reader = Reader::new(state);
    let (setup, graph) = (setup.clone(), graph.clone());
    let next: Box<dyn ClientStage> = match (stage, is_active(&setup.round)) {
        (2, _) => {
            let shares = held::HeldShares::load(setup, graph, &mut reader)?;
            Box::new(masked_input::AwaitSurvivors(shares))
        }
        (3, true) => Box::new(unmask::AwaitSignatures::load(setup, graph, &mut reader)?),
        (3, false) | (4, true) => Box::new(AwaitResult::load(setup, &mut reader)?),
        _ => return Err(FaultKind::Snapshot("no such stage".into())),
    };
    reader.end()?;
    Ok(next)
}
