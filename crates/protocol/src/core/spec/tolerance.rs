//! How many parties of a job may be corrupt, how many of a round may be lost, how many must survive.
//!
//! The meaning is the same for every protocol and every roster that the coordinator chooses:
//!
//! * c = ⌈`corrupt` · `parties`⌉ parties, at least one, may work together with the server, also where the roster is
//!   smaller: all of them may be in it.
//! * a round of n parties may lose ⌊`dropout` · n⌋ of them, as long as `min_parties` are left.
//! * against an active adversary at least c + 2 parties survive, so that no sum is that of one honest party.

use blindsum_encode::Divisor;

use super::{JobSpec, SpecError};
use crate::Adversary;
use crate::core::sparsity::Sparsity;

impl JobSpec {
    /// The parameters of sparse rounds, if parties send only some of their coordinates.
    pub fn sparsity(&self) -> Option<Sparsity> {
        (self.info().sparsity)(self)
    }

    /// Whether parties send only some of their coordinates.
    pub fn is_sparse(&self) -> bool {
        self.sparsity().is_some()
    }

    /// How many parties must have sent a coordinate for its sum to be opened: 1 if parties send all coordinates.
    pub fn least_contributors(&self) -> u32 {
        self.sparsity()
            .map_or(1, |sparsity| sparsity.least_contributors)
    }

    /// What the sums of a sparse round with so many survivors are divided by.
    pub fn divisor(&self, survivors: usize) -> Divisor {
        match self.sparsity() {
            Some(sparsity) if sparsity.counts_senders => Divisor::Senders,
            _ => Divisor::Parties(u32::try_from(survivors).unwrap_or(u32::MAX)),
        }
    }

    /// The largest number c of parties that may work together with the server, whatever the roster: ⌈`corrupt` ·
    /// `parties`⌉, at least 1.
    pub fn corrupt_parties(&self) -> usize {
        // guard: one-corrupt-party-at-least
        ceiling_of_fraction(self.corrupt, self.parties as usize).max(1)
    }

    /// ⌊`dropout` · n⌋: how many of `n` parties are expected to drop out of a round at most.
    pub fn dropouts_among(&self, n: usize) -> usize {
        floor_of_fraction(self.dropout, n)
    }

    /// The most of a round's `n` parties that may be lost: ⌊`dropout` · n⌋, as long as
    /// [`min_parties`](crate::Job::min_parties) are left.
    pub fn losses_among(&self, n: usize) -> usize {
        self.dropouts_among(n)
            .min(n.saturating_sub(self.least_survivors()))
    }

    /// Smallest number of survivors whose sum may be opened: `min_parties`, or the protocol's own number if that is 0.
    pub fn least_survivors(&self) -> usize {
        match self.min_parties {
            0 => match (self.info().min_parties)(self) {
                // guard: noise-of-all-that-dropouts-leave
                usual
                    if self.privacy.noise().is_some()
                        && !(self.info().noise)(self).is_of_servers() =>
                {
                    let n = self.parties as usize;
                    usual.max(n.saturating_sub(self.dropouts_among(n)))
                }
                usual => usual,
            },
            chosen => chosen as usize,
        }
    }

    /// Smallest number of parties of a round: as many as must survive, or as its protocol needs where that is more.
    pub fn least_roster(&self) -> usize {
        let least = (self.info().least_roster)(self);
        self.least_survivors().max(least)
    }

    /// `usual` survivors, or as many as the expected dropouts leave where that is fewer; of these never fewer than
    /// leave the sum of one honest party.
    pub(crate) fn usual_survivors(&self, usual: usize) -> usize {
        let n = self.parties as usize;
        let left = n.saturating_sub(self.dropouts_among(n));
        usual.min(left).max(self.floor_of_survivors())
    }

    /// Fewer survivors than this are refused: c + 2 against an active adversary, else 2.
    pub(crate) fn floor_of_survivors(&self) -> usize {
        match self.adversary {
            Adversary::SemiHonest => 2,
            // guard: survivors-beyond-the-corrupt
            Adversary::Active => self.corrupt_parties() + 2,
        }
    }

    /// Enough survivors, and enough parties for them, where parties may work together with the server.
    pub(crate) fn check_survivors(&self) -> Result<(), SpecError> {
        let (n, c, least) = (
            self.parties as usize,
            self.corrupt_parties(),
            self.floor_of_survivors(),
        );
        let why = match self.adversary {
            Adversary::SemiHonest => "the sum of one party is its vector".into(),
            Adversary::Active => format!(
                "with {c} corrupt {} (corrupt = {} of parties = {n}, at least 1), a sum of fewer may have only one \
                 honest party in it",
                if c == 1 { "party" } else { "parties" },
                self.corrupt
            ),
        };
        if n < least {
            let way_out = match self.adversary {
                Adversary::Active if n == 2 => {
                    "; two parties can only sum with adversary = semi-honest"
                }
                _ => "",
            };
            let rule = format!("must be at least {least} (is {n}): {why}{way_out}");
            return Err(SpecError::new("parties", rule));
        }
        // guard: given-minimum-beyond-the-corrupt
        if self.min_parties != 0 && (self.min_parties as usize) < least {
            let chosen = self.min_parties;
            let rule = format!("must be at least {least} (is {chosen}): {why}");
            return Err(SpecError::new("min_parties", rule));
        }
        let lost = self.dropouts_among(n);
        if self.min_parties == 0 && n - lost < least {
            let rule = format!(
                "where {lost} of parties = {n} drop out, {} are left, and there must be at least {least}: {why}; lower \
                 dropout or corrupt, or raise parties",
                n - lost
            );
            return Err(SpecError::new("dropout", rule));
        }
        Ok(())
    }

    /// The rosters that a round may have, from the largest on: `parties` down to
    /// [`least_roster`](Self::least_roster).
    pub(crate) fn legal_rosters(&self) -> impl Iterator<Item = usize> + use<> {
        // guard: legal-rosters-are-all-looked-at
        (self.least_roster()..=self.parties as usize).rev()
    }

    /// What breaks a rule for a smaller roster than `parties`: more survivors mend it.
    pub(crate) fn infeasible_roster(&self, n: usize, broken: &str) -> SpecError {
        let rule = format!(
            "min_parties = {} allows a round of {n} parties, for which there are no parameters: {broken}; raise \
             min_parties",
            self.least_survivors()
        );
        SpecError::new("min_parties", rule)
    }
}

/// ⌈fraction · n⌉, where a product at most 1e-9 above an integer counts as that integer: most decimal fractions have no
/// exact double, and 0.07 · 100 comes out a little above 7.
pub fn ceiling_of_fraction(fraction: f64, n: usize) -> usize {
    let product = fraction * n as f64;
    let below = product.floor();
    below as usize + usize::from(product - below > 1e-9)
}

/// ⌊fraction · n⌋, where a product at most 1e-9 below an integer counts as that integer: how many of `n` parties
/// a job with this `dropout` may lose.
pub fn floor_of_fraction(fraction: f64, n: usize) -> usize {
    (fraction * n as f64 + 1e-9).floor() as usize
}
