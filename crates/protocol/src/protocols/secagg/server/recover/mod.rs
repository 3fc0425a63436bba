//! Rebuilds secrets from shares, and finds out who gave a wrong one.

use std::collections::{BTreeMap, BTreeSet};

use blindsum_crypto::kex::KeyPair;
use blindsum_crypto::secret::Secret;
use blindsum_sharing::{Locator, Point, Reconstructor, Share};
use rayon::prelude::*;

use self::search::{MAX_TRIES, ways_to_leave_out};
use super::Common;
use super::masked_sum::MaskedSum;
use crate::kit::keys::suite_of;
use crate::protocols::secagg::keys::commit_seed;
use crate::protocols::secagg::point_of;
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

/// Rebuilds the secrets of one round.
///
/// Every secret is first interpolated from t shares and compared with what its owner published; all owners at
/// once. Only where that fails are all shares decoded, which finds the wrong ones; where they are too many for that,
/// as one of five of which four are needed, sets of holders are tried one by one. Who is found has been *accused*
/// by that owner: either it lied, or the owner dealt it a share that fits no other. From then on, the shares of
/// the least accused holders are taken, so that whoever lies about every owner costs one decoding and not one an
/// owner. As long as t holders are not accused at all, every decoding accuses one liar more or is due to a lying
/// owner, and there are no more decodings than corrupt parties.
///
/// An owner that deals wrong shares to honest holders gains little: the accused lose nothing, since any t right
/// shares give the same secret, and they are taken again as soon as too few others are left.
pub(super) struct Recovery<'a> {
    common: &'a Common,
    masked: &'a MaskedSum,
    /// By owner of the secret, then by holder.
    shares: &'a BTreeMap<PartyId, HeldShares>,
    /// Interpolation weights per set of holders: on a dense graph nearly all sets are the same.
    reconstructors: BTreeMap<Vec<PartyId>, Reconstructor>,
    locators: BTreeMap<Vec<PartyId>, Locator>,
    /// By whom holders were accused, in the order of the decodings.
    accused: BTreeMap<PartyId, Vec<PartyId>>,
}

/// The shares of one secret, by holder.
pub(super) type HeldShares = BTreeMap<PartyId, Share>;

impl<'a> Recovery<'a> {
    pub fn new(
        common: &'a Common,
        masked: &'a MaskedSum,
        shares: &'a BTreeMap<PartyId, HeldShares>,
    ) -> Self {
        Self {
            common,
            masked,
            shares,
            reconstructors: BTreeMap::new(),
            locators: BTreeMap::new(),
            accused: BTreeMap::new(),
        }
    }

    /// Rebuilds and checks every secret. The result does not depend on how many threads there are.
    ///
    /// # Errors
    /// A secret with fewer than t shares, or one that even error correction cannot rebuild: the round
    /// ends rather than give a wrong sum.
    pub fn rebuild(&mut self) -> Result<Secrets, Fault> {
        let held = self.held()?;
        let sets: BTreeSet<Vec<PartyId>> = held
            .par_iter()
            .map(|(_, held)| self.least_accused(held.keys().copied()))
            .collect();
        self.reconstructors = sets
            .into_par_iter()
            .map(|holders| Ok((holders.clone(), self.weights(&holders)?)))
            .collect::<Result<_, FaultKind>>()
            .map_err(Fault::nobody)?;
        let first_try: Vec<Option<Rebuilt>> = held
            .par_iter()
            .map(|&(owner, held)| {
                self.interpolate(owner, held, &self.least_accused(held.keys().copied()))
            })
            .collect();
        let mut secrets = Secrets::default();
        for ((owner, held), rebuilt) in held.into_iter().zip(first_try) {
            // One after the other: each decoding spares later ones.
            let rebuilt = match rebuilt {
                Some(rebuilt) => rebuilt,
                None => self.rebuild_despite_liars(owner, held)?,
            };
            match rebuilt {
                Rebuilt::Seed(seed) => drop(secrets.seeds.insert(owner, seed)),
                Rebuilt::MaskKey(key) => drop(secrets.mask_keys.insert(owner, key)),
            }
        }
        Ok(secrets)
    }

    /// Each accused holder once, in rank order: it, or the first owner that accused it.
    pub fn faults(&self) -> Vec<Fault> {
        let fault = |(&holder, owners): (&PartyId, &Vec<PartyId>)| {
            let first = owners.first().copied().unwrap_or(holder);
            // What a party dealt to itself only itself can have got wrong.
            // guard: one-of-two-is-named
            let (culprit, owner) = match owners.contains(&holder) {
                true => (Culprit::Party(holder), holder),
                false => (Culprit::OneOf(holder, first), first),
            };
            let kind = FaultKind::WrongShare { owner };
            Fault::new(culprit, kind)
        };
        self.accused.iter().map(fault).collect()
    }

    fn threshold(&self) -> usize {
        self.common.graph.parameters().threshold()
    }

    /// The shares of every secret that is needed, in rank order of the owners.
    fn held(&self) -> Result<Vec<(PartyId, &'a HeldShares)>, Fault> {
        let need = self.threshold();
        let enough = |&owner: &PartyId| match self.shares.get(&owner) {
            Some(held) if held.len() >= need => Ok((owner, held)),
            held => {
                let have = held.map_or(0, BTreeMap::len);
                Err(Fault::nobody(FaultKind::TooFewSurvivors { have, need }))
            }
        };
        self.masked.shared.iter().map(enough).collect()
    }

    /// The t holders that were accused by the fewest owners, of equal ones those of lowest rank; in rank order.
    fn least_accused(&self, holders: impl Iterator<Item = PartyId>) -> Vec<PartyId> {
        let times = |holder: &PartyId| self.accused.get(holder).map_or(0, Vec::len);
        let (mut accused, mut chosen): (Vec<PartyId>, Vec<PartyId>) =
            // guard: the-accused-come-last
            holders.partition(|holder| times(holder) > 0);
        // guard: the-least-accused-come-first
        accused.sort_by_key(times);
        chosen.extend(accused);
        chosen.truncate(self.threshold());
        chosen.sort_unstable();
        chosen
    }

    /// Rebuilds a secret of which the first t shares gave nothing.
    fn rebuild_despite_liars(
        &mut self,
        owner: PartyId,
        held: &HeldShares,
    ) -> Result<Rebuilt, Fault> {
        let trusted = self.least_accused(held.keys().copied());
        self.prepare(&trusted).map_err(Fault::nobody)?;
        // guard: owners-after-a-liar-are-not-decoded
        if let Some(rebuilt) = self.interpolate(owner, held, &trusted) {
            return Ok(rebuilt);
        }
        let bad = || Fault::nobody(FaultKind::BadShares { owner });
        let wrong = match self.locate(held) {
            // guard: liars-are-found
            Ok(wrong) => wrong,
            Err(_) => self.search(owner, held).map_err(Fault::nobody)?,
        };
        if wrong.is_empty() {
            return Err(bad());
        }
        for &liar in &wrong {
            self.accused.entry(liar).or_default().push(owner);
        }
        // Nearly always those that are trusted next too, so that their weights are computed once.
        // guard: wrong-shares-are-left-out
        let others = held.keys().filter(|holder| !wrong.contains(holder));
        let right = self.least_accused(others.copied());
        self.prepare(&right).map_err(Fault::nobody)?;
        self.interpolate(owner, held, &right).ok_or_else(bad)
    }

    /// The holders whose shares do not fit the others'.
    fn locate(&mut self, held: &HeldShares) -> Result<BTreeSet<PartyId>, FaultKind> {
        let holders: Vec<PartyId> = held.keys().copied().collect();
        if !self.locators.contains_key(&holders) {
            let locator = Locator::new(self.threshold(), &points_of(&holders)?)
                .map_err(|e| FaultKind::Parameters(e.to_string()))?;
            self.locators.insert(holders.clone(), locator);
        }
        let shares: Vec<&Share> = held.values().collect();
        let located = self.locators.get(&holders).map(|l| l.locate(&shares));
        let wrong = located
            .transpose()
            .map_err(|e| FaultKind::Parameters(e.to_string()))?
            .unwrap_or_default();
        Ok(wrong
            .into_iter()
            .filter_map(|at| holders.get(at).copied())
            .collect())
    }

    /// The same where too many are wrong for decoding: the t holders are found whose shares give what the owner
    /// published, and of the others those that do not fit. Nobody where none are found within [`MAX_TRIES`].
    fn search(
        &mut self,
        owner: PartyId,
        held: &HeldShares,
    ) -> Result<BTreeSet<PartyId>, FaultKind> {
        let holders: Vec<PartyId> = held.keys().copied().collect();
        let spare = holders.len().saturating_sub(self.threshold());
        for out in ways_to_leave_out(holders.len(), spare).take(MAX_TRIES) {
            let out: BTreeSet<PartyId> = out
                .iter()
                .filter_map(|&at| holders.get(at))
                .copied()
                .collect();
            let taken = holders.iter().filter(|holder| !out.contains(holder));
            let taken: Vec<PartyId> = taken.copied().collect();
            // guard: a-liar-beyond-decoding-is-searched-for
            if !self.gives(owner, held, &taken)? {
                continue;
            }
            let mut wrong = BTreeSet::new();
            for holder in out {
                let rest = taken.iter().skip(1);
                let swapped: Vec<PartyId> = rest.copied().chain([holder]).collect();
                if !self.gives(owner, held, &swapped)? {
                    wrong.insert(holder);
                }
            }
            return Ok(wrong);
        }
        Ok(BTreeSet::new())
    }

    /// Whether the shares of these t holders give what the owner published.
    fn gives(
        &self,
        owner: PartyId,
        held: &HeldShares,
        holders: &[PartyId],
    ) -> Result<bool, FaultKind> {
        let shares: Vec<&Share> = holders
            .iter()
            .filter_map(|holder| held.get(holder))
            .collect();
        let secret = self.weights(holders)?.reconstruct(&shares);
        Ok(secret.is_ok_and(|secret| self.verify(owner, Secret::from(&*secret)).is_some()))
    }

    /// Computes the weights of t holders, unless they are known.
    fn prepare(&mut self, holders: &[PartyId]) -> Result<(), FaultKind> {
        if !self.reconstructors.contains_key(holders) {
            let weights = self.weights(holders)?;
            self.reconstructors.insert(holders.to_vec(), weights);
        }
        Ok(())
    }

    fn weights(&self, holders: &[PartyId]) -> Result<Reconstructor, FaultKind> {
        Reconstructor::new(self.threshold(), &points_of(holders)?)
            .map_err(|e| FaultKind::Parameters(e.to_string()))
    }

    /// Interpolates the shares of t holders, in rank order, whose weights are known; `None` where they are no
    /// sharing of what the owner published.
    fn interpolate(
        &self,
        owner: PartyId,
        held: &HeldShares,
        holders: &[PartyId],
    ) -> Option<Rebuilt> {
        let mut wanted = holders.iter().peekable();
        let of_holders = held
            .iter()
            .filter(|(holder, _)| wanted.next_if_eq(holder).is_some());
        let shares: Vec<&Share> = of_holders.map(|(_, share)| share).collect();
        let secret = self
            .reconstructors
            .get(holders)?
            .reconstruct(&shares)
            .ok()?;
        self.verify(owner, Secret::from(&*secret))
    }

    /// Checks a rebuilt secret against what its owner published.
    fn verify(&self, owner: PartyId, secret: Secret<32>) -> Option<Rebuilt> {
        let published = &self.masked.commitments;
        let round = &self.common.round;
        if self.masked.survivors.contains(owner) {
            let commitment = commit_seed(round.context(), owner, secret.expose());
            // guard: seeds-are-committed-to
            return (published.seeds.get(&owner) == Some(&commitment))
                .then_some(Rebuilt::Seed(secret));
        }
        let pair = KeyPair::from_secret(suite_of(round), secret).ok()?;
        (published.mask_keys.get(&owner) == Some(pair.public())).then_some(Rebuilt::MaskKey(pair))
    }
}

fn points_of(holders: &[PartyId]) -> Result<Vec<Point>, FaultKind> {
    holders.iter().map(|&holder| point_of(holder)).collect()
}

mod search;
#[cfg(test)]
mod tests;
