//! Stage 4 (3 if semi-honest): collects shares, rebuilds the secrets that stand between the masked sum
//! and the sum, and takes their masks away.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_crypto::mask::{MaskStream, Sign, apply_masks};
use blindsum_math::words::{TileMut, Words};
use blindsum_sharing::Share;
use rand_core::CryptoRng;
use rayon::prelude::*;

use super::Common;
use super::masked_sum::MaskedSum;
use super::recover::{HeldShares, Recovery, Secrets};
use crate::core::round::{Bodies, ServerStage, ServerStep};
use crate::kit::result::result_body;
use crate::kit::vector::TILE;
use crate::kit::wire::Bounded;
use crate::protocols::secagg::keys::{pair_mask, pair_sign, self_mask};
use crate::protocols::secagg::messages::Revealed;
use crate::{Fault, FaultKind, PartyId};

pub(super) struct CollectRevealed {
    common: Common,
    masked: MaskedSum,
    expected: BTreeSet<PartyId>,
    /// By owner of the secret, then by holder.
    shares: BTreeMap<PartyId, HeldShares>,
}

impl CollectRevealed {
    pub fn new(common: Common, masked: MaskedSum, expected: BTreeSet<PartyId>) -> Self {
        Self {
            common,
            masked,
            expected,
            shares: BTreeMap::new(),
        }
    }

    /// The pair masks of those who dropped and the self masks of those who did not, each with the sign
    /// that takes it out of the sum.
    fn masks_to_remove(&self, secrets: &Secrets) -> Result<Vec<MaskStream>, FaultKind> {
        let context = self.common.round.context();
        let survivors: BTreeSet<PartyId> = self.masked.survivors.iter().collect();
        let self_masks = secrets
            .seeds
            .par_iter()
            .map(|(&owner, seed)| Ok(self_mask(context, owner, seed, Sign::Sub)));
        let mask_keys = &self.masked.commitments.mask_keys;
        let pairs: Vec<_> = secrets
            .mask_keys
            .iter()
            .flat_map(|(&dropped, key)| {
                let neighbours = self.common.neighbours_in(dropped, &survivors);
                neighbours
                    .filter_map(move |other| Some((dropped, key, other, mask_keys.get(&other)?)))
            })
            .collect();
        let pair_masks = pairs.par_iter().map(|&(dropped, key, survivor, public)| {
            // The dropped party would have added it with the sign that takes it out.
            pair_mask(
                context,
                dropped,
                key,
                survivor,
                public,
                pair_sign(dropped, survivor),
            )
        });
        // guard: pair-masks-of-the-lost
        self_masks.chain(pair_masks).collect()
    }
}

impl ServerStage for CollectRevealed {
    fn expected(&self) -> &BTreeSet<PartyId> {
        &self.expected
    }

    fn required(&self) -> usize {
        self.common.required_shares()
    }

    fn receive(&mut self, from: PartyId, body: &[u8]) -> Result<(), FaultKind> {
        let message = Revealed::read(self.common.holders(), body)?;
        let mut owed: Vec<PartyId> = self
            .common
            .neighbours_in(from, &self.masked.shared)
            .collect();
        owed.insert(owed.partition_point(|owner| *owner < from), from);
        let listed = message.shares.iter().map(|entry| entry.party);
        self.common
            .same_parties("revealed shares", listed, owed.into_iter())?;
        let shares: Vec<(PartyId, Share)> = message
            .shares
            .iter()
            .map(|entry| {
                let share = Share::parse(&entry.share)
                    .map_err(|e| FaultKind::malformed("revealed shares", e.to_string()))?;
                Ok((PartyId(entry.party), share))
            })
            .collect::<Result<_, FaultKind>>()?;
        for (owner, share) in shares {
            self.shares.entry(owner).or_default().insert(from, share);
        }
        Ok(())
    }

    fn close(self: Box<Self>, _rng: &mut dyn CryptoRng) -> Result<ServerStep, Fault> {
        let mut recovery = Recovery::new(&self.common, &self.masked, &self.shares);
        let secrets = recovery.rebuild()?;
        let faults = recovery.faults();
        let masks = self.masks_to_remove(&secrets).map_err(Fault::nobody)?;
        let Self {
            mut masked,
            expected,
            ..
        } = *self;
        remove(&mut masked.sum, &masks);
        let body = result_body(&masked.survivors, &masked.sum);
        Ok(ServerStep::Done {
            sum: Some(masked.sum),
            survivors: masked.survivors,
            bodies: Bodies::Same(expected.into_iter().collect(), body),
            faults,
        })
    }
}

/// Applies all masks, tile by tile, on all cores.
fn remove(sum: &mut Words, masks: &[MaskStream]) {
    match sum.tile_mut(0..sum.len()) {
        TileMut::W32(lanes) => lanes
            .par_chunks_mut(TILE)
            .enumerate()
            .for_each(|(at, tile)| {
                apply_masks(masks, (at * TILE) as u64, TileMut::W32(tile));
            }),
        TileMut::W64(lanes) => lanes
            .par_chunks_mut(TILE)
            .enumerate()
            .for_each(|(at, tile)| {
                apply_masks(masks, (at * TILE) as u64, TileMut::W64(tile));
            }),
    }
}
