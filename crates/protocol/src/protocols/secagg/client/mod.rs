//! The client. Each stage is a type that owns only the secrets it still needs and is consumed by the
//! next one.

mod advertise;
mod held;
mod masked_input;
mod share;
mod unmask;

use std::sync::Arc;

use crate::core::round::ClientSetup;
use crate::kit::restore::Restored;
use crate::kit::result::AwaitResult;
use crate::kit::snapshot::Reader;

use super::AggregationGraph;

pub(crate) use advertise::start;

/// A client from its snapshot in a stage.
pub(crate) fn restore(
    setup: &Arc<ClientSetup>,
    graph: &Arc<AggregationGraph>,
    stage: &str,
    reader: &mut Reader<'_>,
) -> Restored {
    let (setup, graph) = (setup.clone(), graph.clone());
    Ok(Some(match stage {
        "masked-input" => {
            let shares = held::HeldShares::load(setup, graph, reader)?;
            Box::new(masked_input::AwaitSurvivors(shares))
        }
        "consistency" => Box::new(unmask::AwaitSignatures::load(setup, graph, reader)?),
        "unmask" => Box::new(AwaitResult::load(setup, reader)?),
        _ => return Ok(None),
    }))
}
