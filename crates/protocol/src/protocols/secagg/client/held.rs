//! The shares that a party holds, of its own seed and of its neighbours' secrets.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_sharing::Share;

use crate::core::round::ClientSetup;
use crate::kit::snapshot::{Reader, Writer};
use crate::protocols::secagg::AggregationGraph;
use crate::{FaultKind, PartyId};

/// A neighbour's shares that this party holds.
pub(super) struct Held {
    /// Of s^SK: revealed if the neighbour dropped.
    pub mask_share: Share,
    /// Of b: revealed if the neighbour survived.
    pub seed_share: Share,
}

/// What a party has from the moment its masked vector is out until it reveals shares.
pub(super) struct HeldShares {
    pub setup: Arc<ClientSetup>,
    pub graph: Arc<AggregationGraph>,
    pub own_seed_share: Share,
    /// The shares of the neighbours that shared (U2).
    pub held: BTreeMap<PartyId, Held>,
}

impl HeldShares {
    pub fn load(
        setup: Arc<ClientSetup>,
        graph: Arc<AggregationGraph>,
        reader: &mut Reader<'_>,
    ) -> Result<Self, FaultKind> {
        let own_seed_share = reader.share()?;
        let mut held = BTreeMap::new();
        for _ in 0..reader.number()? {
            let party = reader.party()?;
            let (mask_share, seed_share) = (reader.share()?, reader.share()?);
            held.insert(
                party,
                Held {
                    mask_share,
                    seed_share,
                },
            );
        }
        Ok(Self {
            setup,
            graph,
            own_seed_share,
            held,
        })
    }

    pub fn write(&self) -> Writer {
        let writer = Writer::default()
            .bytes(&*self.own_seed_share.to_bytes())
            .number(self.held.len() as u32);
        self.held.iter().fold(writer, |writer, (party, held)| {
            writer
                .number(party.0)
                .bytes(&*held.mask_share.to_bytes())
                .bytes(&*held.seed_share.to_bytes())
        })
    }
}
