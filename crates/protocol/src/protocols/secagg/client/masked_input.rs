//! Stage 2: the masked vector goes out, the survivor set comes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_crypto::mask::{MaskStream, apply_masks};
use blindsum_sharing::Share;
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::unmask::{AwaitSignatures, reveal};
use crate::kit::consistency::signed_message;
use crate::kit::keys::is_active;
use crate::kit::result::AwaitResult;
use crate::kit::snapshot::{Reader, Writer};
use crate::kit::vector::pack_input;
use crate::machine::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::protocols::secagg::AggregationGraph;
use crate::{Fault, FaultKind, Input, PartyId, PartySet, Round, SurvivorListError};

/// y = x + all masks mod 2^b, packed, in one pass.
pub(super) fn masked_input(
    round: &Round,
    input: &dyn Input,
    masks: &[MaskStream],
) -> Result<Vec<u8>, FaultKind> {
    pack_input(round.job(), input, |first_lane, tile| {
        apply_masks(masks, first_lane, tile)
    })
}

/// A neighbour's shares that this party holds.
pub(super) struct Held {
    /// Of s^SK: revealed if the neighbour dropped.
    pub mask_share: Share,
    /// Of b: revealed if the neighbour survived.
    pub seed_share: Share,
}

/// The masked vector is out; the survivor set comes next. From here on this party knows no secret of
/// its own but its share of b.
pub(super) struct AwaitSurvivors {
    pub setup: Arc<ClientSetup>,
    pub graph: Arc<AggregationGraph>,
    pub own_seed_share: Share,
    /// The shares of the neighbours that shared (U2).
    pub held: BTreeMap<PartyId, Held>,
}

impl AwaitSurvivors {
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

    /// The survivor set (U3), if an honest server could send it.
    fn check(&self, bitmap: &[u8]) -> Result<PartySet, FaultKind> {
        let ClientSetup { round, me, .. } = &*self.setup;
        let bad = FaultKind::BadSurvivorList;
        let survivors = PartySet::from_bitmap(round.parties(), bitmap)
            .ok_or(bad(SurvivorListError::OutsideRoster))?;
        if !survivors.contains(*me) {
            return Err(bad(SurvivorListError::SelfDropped));
        }
        let neighbours = self.graph.neighbours(*me);
        let revived = neighbours
            .into_iter()
            .find(|party| survivors.contains(*party) && !self.held.contains_key(party));
        if let Some(party) = revived {
            return Err(bad(SurvivorListError::Revived(party)));
        }
        let (have, need) = (survivors.len(), round.job().min_parties());
        if have < need {
            return Err(FaultKind::TooFewSurvivors { have, need });
        }
        let have = 1 + self
            .held
            .keys()
            .filter(|party| survivors.contains(**party))
            .count();
        let need = self.graph.parameters().threshold();
        if have < need {
            return Err(FaultKind::TooFewSurvivors { have, need });
        }
        Ok(survivors)
    }
}

impl ClientStage for AwaitSurvivors {
    fn answer(
        self: Box<Self>,
        body: &[u8],
        _input: InputRef<'_>,
        _rng: &mut dyn CryptoRng,
    ) -> Result<ClientStep, Fault> {
        let survivors = self.check(body).map_err(Fault::server)?;
        self.setup.allow(&survivors)?;
        let round = &self.setup.round;
        if is_active(round) {
            let body = signed_message(round, &self.setup.identity, &survivors);
            let body = body.map_err(Fault::caller)?;
            let next = AwaitSignatures {
                shares: *self,
                survivors,
            };
            return Ok(ClientStep::Send {
                body,
                next: Box::new(next),
            });
        }
        let body = reveal(&self, &survivors).map_err(Fault::caller)?;
        let next = AwaitResult::new(self.setup, survivors);
        Ok(ClientStep::Send {
            body,
            next: Box::new(next),
        })
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        Ok(Some(self.write().finish()))
    }
}
