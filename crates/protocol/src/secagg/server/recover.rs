//! Rebuilds secrets from shares, and finds out who gave a wrong one.

use std::collections::BTreeMap;

use blindsum_crypto::kex::KeyPair;
use blindsum_crypto::secret::Secret;
use blindsum_sharing::{Point, Reconstructor, Share, robust_reconstruct};

use super::Common;
use super::masked_input::MaskedSum;
use crate::keys::suite_of;
use crate::secagg::keys::commit_seed;
use crate::secagg::point_of;
use crate::{Culprit, Fault, FaultKind, PartyId};

/// The secrets that stand between the masked sum and the sum.
#[derive(Default)]
pub(super) struct Secrets {
    /// b of every survivor.
    pub seeds: BTreeMap<PartyId, Secret<32>>,
    /// s of every party that shared but did not survive.
    pub mask_keys: BTreeMap<PartyId, KeyPair>,
}

/// A secret that passed its check.
enum Rebuilt {
    Seed(Secret<32>),
    MaskKey(KeyPair),
}

pub(super) struct Recovery<'a> {
    common: &'a Common,
    masked: &'a MaskedSum,
    /// Interpolation weights per set of holders: on a dense graph nearly all sets are the same.
    reconstructors: BTreeMap<Vec<PartyId>, Reconstructor>,
}

impl<'a> Recovery<'a> {
    pub fn new(common: &'a Common, masked: &'a MaskedSum) -> Self {
        Self {
            common,
            masked,
            reconstructors: BTreeMap::new(),
        }
    }

    /// Rebuilds and checks every secret; lists the holders that gave wrong shares.
    ///
    /// # Errors
    /// A secret with fewer than t shares, or one that even error correction cannot rebuild: the round
    /// ends rather than give a wrong sum.
    pub fn rebuild(
        mut self,
        shares: &BTreeMap<PartyId, BTreeMap<PartyId, Share>>,
    ) -> Result<(Secrets, Vec<Fault>), Fault> {
        let none = BTreeMap::new();
        let (mut secrets, mut faults) = (Secrets::default(), Vec::new());
        for &owner in &self.masked.shared {
            let held = shares.get(&owner).unwrap_or(&none);
            let need = self.common.graph.parameters().threshold();
            if held.len() < need {
                let kind = FaultKind::TooFewSurvivors {
                    have: held.len(),
                    need,
                };
                return Err(Fault::nobody(kind));
            }
            match self.rebuild_one(owner, held, &mut faults)? {
                Rebuilt::Seed(seed) => drop(secrets.seeds.insert(owner, seed)),
                Rebuilt::MaskKey(key) => drop(secrets.mask_keys.insert(owner, key)),
            }
        }
        Ok((secrets, faults))
    }

    fn rebuild_one(
        &mut self,
        owner: PartyId,
        held: &BTreeMap<PartyId, Share>,
        faults: &mut Vec<Fault>,
    ) -> Result<Rebuilt, Fault> {
        let bad = || Fault::nobody(FaultKind::BadShares { owner });
        let first = self.interpolate(held).map_err(Fault::nobody)?;
        if let Some(rebuilt) = first.and_then(|secret| self.verify(owner, secret)) {
            return Ok(rebuilt);
        }
        // Some holder lied. All shares together determine the secret as long as the liars are few.
        let threshold = self.common.graph.parameters().threshold();
        let points: Vec<(Point, &Share)> = held
            .iter()
            .map(|(&holder, share)| Ok((point_of(holder)?, share)))
            .collect::<Result<_, FaultKind>>()
            .map_err(Fault::nobody)?;
        let (secret, wrong) = robust_reconstruct(threshold, &points).map_err(|_| bad())?;
        let rebuilt = self.verify(owner, Secret::from(*secret)).ok_or_else(bad)?;
        for point in wrong {
            let liar = PartyId(point.get() - 1);
            // The owner may have dealt an honest holder a share that fits no other.
            let culprit = match liar == owner {
                true => Culprit::Party(owner),
                false => Culprit::OneOf(liar, owner),
            };
            let kind = FaultKind::WrongShare { owner };
            faults.push(Fault { culprit, kind });
        }
        Ok(rebuilt)
    }

    /// Interpolates the first t shares; `None` where they are no sharing of 32 bytes.
    fn interpolate(
        &mut self,
        held: &BTreeMap<PartyId, Share>,
    ) -> Result<Option<Secret<32>>, FaultKind> {
        let threshold = self.common.graph.parameters().threshold();
        let holders: Vec<PartyId> = held.keys().copied().take(threshold).collect();
        let shares: Vec<&Share> = held.values().take(threshold).collect();
        if !self.reconstructors.contains_key(&holders) {
            let points: Vec<Point> = holders
                .iter()
                .map(|&holder| point_of(holder))
                .collect::<Result<_, _>>()?;
            let weights = Reconstructor::new(threshold, &points)
                .map_err(|e| FaultKind::Parameters(e.to_string()))?;
            self.reconstructors.insert(holders.clone(), weights);
        }
        let weights = self.reconstructors.get(&holders);
        Ok(weights
            .and_then(|weights| weights.reconstruct(&shares).ok())
            .map(|secret| Secret::from(*secret)))
    }

    /// Checks a rebuilt secret against what its owner published.
    fn verify(&self, owner: PartyId, secret: Secret<32>) -> Option<Rebuilt> {
        let published = &self.masked.commitments;
        let round = &self.common.round;
        if self.masked.survivors.contains(owner) {
            let commitment = commit_seed(round.context(), owner, secret.expose());
            return (published.seeds.get(&owner) == Some(&commitment))
                .then_some(Rebuilt::Seed(secret));
        }
        let pair = KeyPair::from_secret(suite_of(round), secret).ok()?;
        (published.mask_keys.get(&owner) == Some(pair.public())).then_some(Rebuilt::MaskKey(pair))
    }
}
