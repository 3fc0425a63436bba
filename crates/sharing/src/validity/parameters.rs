//! How many words a row packs, and how many verifiers it takes.

use crate::ramp::{AnnouncedRamp, ParameterError, RampParameters, check_sizes, counted};

/// The inputs to the choice of a proof's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidityRequest {
    /// Parties n, each a prover and a verifier.
    pub parties: usize,
    /// Parties c that may lie, and pool what they see.
    pub corrupt: usize,
    /// Parties d that may be lost.
    pub dropouts: usize,
    /// Words L of a vector.
    pub words: usize,
    /// Words l in a row; 0 takes the fewest rows.
    pub packing: usize,
    /// Whether so many must confirm what all were told that no two things can be confirmed.
    pub active: bool,
}

/// The parameters of a proof; every inequality on which privacy and correctness rest holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidityParameters {
    ramp: RampParameters,
    corrupt: usize,
}

/// Coefficients k of a row that hide l words from c parties that pool their shares, or from one where there are none.
fn threshold(packing: usize, corrupt: usize) -> usize {
    packing + corrupt.max(1)
}

/// Answers with which c wrong ones are corrected: products of rows have 2k − 1 coefficients.
fn answers(threshold: usize, corrupt: usize) -> usize {
    2 * threshold - 1 + 2 * corrupt
}

impl ValidityParameters {
    /// Chooses k = l + max(c, 1), and the l with the fewest rows; among those the smallest.
    ///
    /// # Errors
    /// The inequality that fails, with its numbers: n ≥ 2, words ≥ 1, d < n, l ≥ 1, n − d ≥ 2k − 1 + 2c, or if active
    /// n − d − c ≥ ⌊(n + c)/2⌋ + 1.
    pub fn choose(request: &ValidityRequest) -> Result<Self, ParameterError> {
        let ValidityRequest {
            parties: n,
            corrupt: c,
            dropouts: d,
            words,
            packing,
            active,
        } = *request;
        let broken = |field, rule| Err(ParameterError { field, rule });
        check_sizes(n, d, words)?;
        // The most words: 2(l + r) − 1 + 2c ≤ n − d with r = max(c, 1).
        let room = (n - d + 1).saturating_sub(2 * c) / 2;
        let most = room.saturating_sub(c.max(1));
        let (field, chosen) = match packing {
            0 if most == 0 => ("parties", 1),
            0 => ("parties", words.div_ceil(words.div_ceil(most))),
            asked => ("packing", asked),
        };
        let k = threshold(chosen, c);
        let need = answers(k, c);
        if n - d < need {
            let packed = match packing {
                0 => String::new(),
                asked => format!(" where packing = {asked}"),
            };
            let rule = format!(
                "with {} and {d} that may drop out, at least {} parties are needed{packed}; there are {n}",
                counted(c, "corrupt"),
                need + d,
            );
            return broken(field, rule);
        }
        let found = Self::announced(n, c, k, chosen)?;
        let quorum = found.quorum();
        if active && n - d < quorum + c {
            let rule = format!(
                "of {n} parties {quorum} must confirm the survivors where adversary = active, and {} are left when {d} have \
                 dropped out and {} found",
                n.saturating_sub(d + c),
                if c == 1 {
                    "the corrupt one is".to_owned()
                } else {
                    format!("{c} corrupt ones are")
                },
            );
            return broken("dropout", rule);
        }
        Ok(found)
    }

    /// Accepts parameters chosen by another participant if they keep a party's privacy.
    ///
    /// # Errors
    /// The inequality that fails, with its numbers: n ≥ 2, k ≤ n, 1 ≤ l ≤ k − max(c, 1).
    pub fn announced(
        parties: usize,
        corrupt: usize,
        threshold: usize,
        packing: usize,
    ) -> Result<Self, ParameterError> {
        let ramp = RampParameters::announced(&AnnouncedRamp {
            parties,
            corrupt,
            active: false,
            threshold,
            packing,
        })?;
        Ok(Self { ramp, corrupt })
    }

    /// Parties n.
    pub fn parties(&self) -> usize {
        self.ramp.parties()
    }

    /// Parties c that may lie.
    pub fn corrupt(&self) -> usize {
        self.corrupt
    }

    /// Coefficients k of a row.
    pub fn threshold(&self) -> usize {
        self.ramp.threshold()
    }

    /// Words l in a row.
    pub fn packing(&self) -> usize {
        self.ramp.packing()
    }

    /// Answers that a verdict needs: 2k − 1 + 2c.
    pub fn answers(&self) -> usize {
        answers(self.threshold(), self.corrupt)
    }

    /// Signatures of which two sets cannot both have so many: ⌊(n + c)/2⌋ + 1.
    pub fn quorum(&self) -> usize {
        self.ramp.quorum()
    }

    /// The sharing of a row.
    pub(super) fn ramp(&self) -> RampParameters {
        self.ramp
    }
}
