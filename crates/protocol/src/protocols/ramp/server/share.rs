//! Stage 1: takes note of who shared, and says whose column goes to whom.

use std::collections::BTreeSet;

use rand_core::CryptoRng;

use super::Common;
use super::aggregate::CollectSums;
use super::consistency::Survivors;
use crate::core::round::{Bodies, Piece, Relayed, ServerStage, ServerStep};
use crate::kit::confirm::CollectSignatures;
use crate::kit::keys::is_active;
use crate::protocols::ramp::messages::sealed_len;
use crate::{Fault, FaultKind, PartyId, PartySet};

pub(super) struct CollectColumns {
    common: Common,
    /// U0: who advertised keys.
    advertised: BTreeSet<PartyId>,
    /// U1: who shared.
    shared: BTreeSet<PartyId>,
}

impl CollectColumns {
    pub fn new(common: Common, advertised: BTreeSet<PartyId>) -> Self {
        Self {
            common,
            advertised,
            shared: BTreeSet::new(),
        }
    }

    fn sealed_len(&self) -> usize {
        sealed_len(self.common.sharing.column_len())
    }

    /// Where the column for the `place`-th of U0 lies in the message of another party of U0, whose own is
    /// left out.
    fn piece(&self, from: (usize, PartyId), place: usize) -> Piece {
        let index = if from.0 < place { place - 1 } else { place };
        let start = index * self.sealed_len();
        Piece {
            from: from.1,
            range: start..start + self.sealed_len(),
        }
    }
}

impl ServerStage for CollectColumns {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.advertised
    }

    fn required(&self) -> usize {
        self.common.required_inputs()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let expected = (self.advertised.len() - 1) * self.sealed_len();
        if body.len() != expected {
            let rule = format!("{} bytes, but {expected} are due", body.len());
            return Err(FaultKind::malformed("columns", rule));
        }
        self.shared.insert(from);
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let survivors = PartySet::of(self.common.round.parties(), self.shared.iter().copied());
        let ranked = self.advertised.iter().copied().enumerate();
        let members: Vec<(usize, PartyId)> = ranked
            .filter(|(_, party)| self.shared.contains(party))
            .collect();
        let relayed = members
            .iter()
            .map(|&(place, to)| Relayed {
                to: to.into(),
                head: survivors.as_bitmap().to_vec(),
                pieces: members
                    .iter()
                    .filter(|(_, from)| *from != to)
                    .map(|&from| self.piece(from, place))
                    .collect(),
            })
            .collect();
        let Self { common, shared, .. } = *self;
        let next: Box<dyn ServerStage> = match is_active(&common.round) {
            true => CollectSignatures::of(Survivors { common, survivors }, shared),
            false => Box::new(CollectSums::new(common, shared, survivors)),
        };
        Ok(ServerStep::Next {
            next,
            bodies: Bodies::Relayed(relayed),
            faults: Vec::new(),
        })
    }
}
