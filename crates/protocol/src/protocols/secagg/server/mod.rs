//! The server. Each stage is a type that is consumed by the next one; the vectors are added up as they
//! come, so memory is that of one vector and of the shares.

mod advertise;
mod consistency;
mod masked_input;
mod masked_sum;
mod recover;
mod share;
mod unmask;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::core::round::ServerStage;
use crate::kit::advertise::CollectKeys;
use crate::{FaultKind, PartyId, Round};

use super::AggregationGraph;

/// What every stage knows.
#[derive(Clone)]
struct Common {
    round: Arc<Round>,
    graph: Arc<AggregationGraph>,
}

/// The server before the first message.
pub(super) fn serve(round: &Arc<Round>, graph: Arc<AggregationGraph>) -> Box<dyn ServerStage> {
    let round = round.clone();
    CollectKeys::of(Common { round, graph })
}

impl Common {
    /// Parties whose vectors may be in the sum must be this many before the vectors are in.
    fn required_inputs(&self) -> usize {
        self.round.job().min_parties().max(self.required_shares())
    }

    /// Parties that must answer afterwards.
    fn required_shares(&self) -> usize {
        self.graph.parameters().threshold()
    }

    /// Holders of a party's shares, K.
    fn holders(&self) -> usize {
        self.graph.parameters().holders()
    }

    /// The neighbours of a party among these parties, in rank order.
    fn neighbours_in(
        &self,
        party: PartyId,
        among: &BTreeSet<PartyId>,
    ) -> impl Iterator<Item = PartyId> {
        let neighbours = self.graph.neighbours(party);
        neighbours.into_iter().filter(|other| among.contains(other))
    }

    /// Refuses a list of parties that is not exactly the expected one.
    fn same_parties(
        &self,
        field: &'static str,
        listed: impl Iterator<Item = u32>,
        expected: impl Iterator<Item = PartyId>,
    ) -> Result<(), FaultKind> {
        if listed.eq(expected.map(|party| party.0)) {
            return Ok(());
        }
        let rule = "must name each party that it is for, once, in rank order";
        Err(FaultKind::malformed(field, rule))
    }
}
