//! Stage 2: the masked vector goes out, the survivor set comes back.

use blindsum_crypto::mask::{MaskStream, apply_masks};
use rand_core::CryptoRng;
use zeroize::Zeroizing;

use super::held::HeldShares;
use super::unmask::{AwaitSignatures, reveal};
use crate::core::round::{ClientSetup, ClientStage, ClientStep, InputRef};
use crate::kit::consistency::signed_message;
use crate::kit::keys::is_active;
use crate::kit::result::AwaitResult;
use crate::kit::vector::pack_input;
use crate::{Fault, FaultKind, Input, PartySet, Round, SurvivorListError};

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

/// The masked vector is out; the survivor set comes next. From here on this party knows no secret of
/// its own but its share of b.
pub(super) struct AwaitSurvivors(pub HeldShares);

impl AwaitSurvivors {
    /// The survivor set (U3), if an honest server could send it.
    fn check(&self, bitmap: &[u8]) -> Result<PartySet, FaultKind> {
        let ClientSetup { round, me, .. } = &*self.0.setup;
        let bad = FaultKind::BadSurvivorList;
        let survivors = PartySet::from_bitmap(round.parties(), bitmap)
            .ok_or(bad(SurvivorListError::OutsideRoster))?;
        // guard: survivor-set-has-the-receiver
        if !survivors.contains(*me) {
            return Err(bad(SurvivorListError::SelfDropped));
        }
        let neighbours = self.0.graph.neighbours(*me);
        let revived = neighbours
            .into_iter()
            .find(|party| survivors.contains(*party) && !self.0.held.contains_key(party));
        // guard: survivor-set-revives-nobody
        if let Some(party) = revived {
            return Err(bad(SurvivorListError::Revived(party)));
        }
        let (have, need) = (survivors.len(), round.job().min_parties());
        // guard: survivors-at-least-min-parties
        if have < need {
            return Err(FaultKind::TooFewSurvivors { have, need });
        }
        let have = 1 + self
            .0
            .held
            .keys()
            .filter(|party| survivors.contains(**party))
            .count();
        let need = self.0.graph.parameters().threshold();
        // guard: own-holders
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
        let Self(shares) = *self;
        // guard: secagg-asks-about-survivors
        shares.setup.allow(&survivors)?;
        let round = &shares.setup.round;
        if is_active(round) {
            let body = signed_message(round, &shares.setup.identity, &survivors);
            let body = body.map_err(Fault::caller)?;
            let next = AwaitSignatures { shares, survivors };
            return Ok(ClientStep::Send {
                body,
                next: Box::new(next),
            });
        }
        let body = reveal(&shares, &survivors).map_err(Fault::caller)?;
        let next = AwaitResult::new(shares.setup, survivors);
        Ok(ClientStep::Send {
            body,
            next: Box::new(next),
        })
    }

    fn save(&self) -> Result<Option<Zeroizing<Vec<u8>>>, FaultKind> {
        Ok(Some(self.0.write().finish()))
    }
}
