//! How many words a polynomial packs, and how many shares rebuild it.

/// What is known before the parameters of a sharing are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RampRequest {
    /// Parties n that hold shares.
    pub parties: usize,
    /// Parties c that may pool their shares.
    pub corrupt: usize,
    /// Parties d whose shares may be missing.
    pub dropouts: usize,
    /// Whether holders must confirm to each other for which survivors they give their shares:
    /// [`RampParameters::quorum`] of them, so many that no second set of survivors can be confirmed as well.
    pub active: bool,
    /// Words L of a vector.
    pub words: usize,
    /// Shares k that rebuild a sum; 0 takes n − d.
    pub threshold: usize,
    /// Words l in a polynomial; 0 lets [`RampParameters::choose`] choose.
    pub packing: usize,
}

/// Parameters chosen by another participant, and what is needed to check them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnnouncedRamp {
    /// Parties n that hold shares.
    pub parties: usize,
    /// Parties c that may pool their shares.
    pub corrupt: usize,
    /// As in [`RampRequest`].
    pub active: bool,
    /// Shares k that rebuild a sum.
    pub threshold: usize,
    /// Words l in a polynomial.
    pub packing: usize,
}

/// The parameters of a ramp sharing; every inequality on which privacy rests holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RampParameters {
    parties: usize,
    corrupt: usize,
    threshold: usize,
    packing: usize,
}

/// The inequality that a request breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}")]
pub struct ParameterError {
    /// The field of the request.
    pub field: &'static str,
    /// The rule with the numbers that break it.
    pub rule: String,
}

fn least_random(corrupt: usize) -> usize {
    // guard: ramp-randomness-for-all-corrupt
    corrupt.max(1)
}

/// Against an active adversary no two sets may be confirmed: `2k > n + c`.
fn check_quorum(
    field: &'static str,
    threshold: usize,
    n: usize,
    c: usize,
) -> Result<(), ParameterError> {
    // guard: ramp-quorums-meet
    match 2 * threshold > n + c {
        true => Ok(()),
        false => broken(
            field,
            format!(
                "{} of {n} parties must give their shares where adversary = active, with {}; the threshold is {threshold}",
                (n + c) / 2 + 1,
                counted(c, "corrupt")
            ),
        ),
    }
}

/// Sizes that any sharing needs.
pub(crate) fn check_sizes(n: usize, d: usize, words: usize) -> Result<(), ParameterError> {
    if n < 2 {
        return broken("parties", format!("parties is {n} and must be at least 2"));
    }
    if words < 1 {
        return broken("dim", format!("dim is {words} and must be at least 1"));
    }
    if d >= n {
        let rule = format!("of {n} parties {d} may drop out; at least one must be left");
        return broken("dropout", rule);
    }
    Ok(())
}

/// So many parties of a kind, in words.
pub(crate) fn counted(parties: usize, kind: &str) -> String {
    format!(
        "{parties} {kind} {}",
        if parties == 1 { "party" } else { "parties" }
    )
}

fn broken<T>(field: &'static str, rule: String) -> Result<T, ParameterError> {
    Err(ParameterError { field, rule })
}

impl RampRequest {
    /// The fewest random coefficients r that a polynomial may have. An adversary with at most r shares learns
    /// nothing, so r is the number c of corrupt parties, or 1 if there are none: a single party must learn nothing
    /// from its share.
    pub fn least_random(&self) -> usize {
        least_random(self.corrupt)
    }
}

impl RampParameters {
    /// Chooses what the request leaves open: k = n − d, and the l with the fewest blocks; among those the
    /// smallest l, which leaves the most random coefficients.
    ///
    /// # Errors
    /// The inequality that fails, with its numbers: `n >= 2`, `words >= 1`, `d < n`,
    /// `1 <= k <= n - d`, `k >= 1 + r` and `1 <= l <= k - r` with the least r of
    /// [`RampRequest::least_random`], and if active `2k > n + c`.
    pub fn choose(request: &RampRequest) -> Result<Self, ParameterError> {
        let RampRequest {
            parties: n,
            corrupt: c,
            dropouts: d,
            words,
            ..
        } = *request;
        check_sizes(n, d, words)?;
        let threshold = request.threshold()?;
        let random = request.least_random();
        let field = if request.threshold == 0 {
            "dropout"
        } else {
            "threshold"
        };
        if threshold <= random {
            let rule = format!(
                "the threshold is {threshold} and must be at least {} with {}, so that they learn nothing (a round of {n} \
                 parties, of whom {d} may drop out)",
                random + 1,
                counted(c, "corrupt")
            );
            return broken(field, rule);
        }
        if request.active {
            check_quorum(field, threshold, n, c)?;
        }
        let most = threshold - random;
        let packing = match request.packing {
            0 => words.div_ceil(words.div_ceil(most)),
            // guard: ramp-packing-leaves-randomness
            chosen if chosen <= most => chosen,
            chosen => {
                let rule = format!(
                    "packing is {chosen} and must be at most {most}: the threshold {threshold} less {random} for {}",
                    counted(c, "corrupt")
                );
                return broken("packing", rule);
            }
        };
        Ok(Self {
            parties: n,
            corrupt: c,
            threshold,
            packing,
        })
    }

    /// Accepts parameters chosen by another participant if they keep a party's privacy. Whether enough shares will
    /// come together to rebuild a sum is not checked: if not, the sum is not revealed.
    ///
    /// # Errors
    /// The inequality that fails, with its numbers: `n >= 2`, `k <= n`, `1 <= l <= k - r` with r = max(c, 1), and if
    /// active `2k > n + c`.
    pub fn announced(announced: &AnnouncedRamp) -> Result<Self, ParameterError> {
        let AnnouncedRamp {
            parties: n,
            corrupt: c,
            threshold,
            packing,
            ..
        } = *announced;
        if n < 2 || threshold > n {
            let rule =
                format!("threshold k = {threshold} <= parties n = {n}, which are at least 2");
            return broken("threshold", rule);
        }
        if announced.active {
            check_quorum("threshold", threshold, n, c)?;
        }
        let random = least_random(c);
        if !(1..=threshold.saturating_sub(random)).contains(&packing) {
            let rule = format!(
                "1 <= packing l = {packing} <= threshold - r = {threshold} - {random}, r = max(c, 1)"
            );
            return broken("packing", rule);
        }
        Ok(Self {
            parties: n,
            corrupt: c,
            threshold,
            packing,
        })
    }

    /// Parties n.
    pub fn parties(&self) -> usize {
        self.parties
    }

    /// Shares k that rebuild a sum.
    pub fn threshold(&self) -> usize {
        self.threshold
    }

    /// Parties that must confirm a set of survivors, if active: ⌊(n + c)/2⌋ + 1, which is at most k. Two sets cannot
    /// both have so many confirmations: even if the c corrupt parties confirm both, there are not enough honest
    /// parties.
    pub fn quorum(&self) -> usize {
        (self.parties + self.corrupt) / 2 + 1
    }

    /// Words l in a polynomial.
    pub fn packing(&self) -> usize {
        self.packing
    }

    /// Uniform coefficients r = k − l of a polynomial: any r shares reveal nothing.
    pub fn random(&self) -> usize {
        self.threshold - self.packing
    }

    /// Blocks B = ⌈L/l⌉ of a vector.
    pub fn blocks(&self, words: usize) -> usize {
        words.div_ceil(self.packing)
    }
}

impl RampRequest {
    fn threshold(&self) -> Result<usize, ParameterError> {
        let most = self.parties - self.dropouts;
        match self.threshold {
            0 => Ok(most),
            chosen if chosen <= most => Ok(chosen),
            chosen => {
                let (n, d) = (self.parties, self.dropouts);
                broken(
                    "threshold",
                    format!(
                        "the threshold is {chosen} and must be at most {most}: {n} parties less {d} that may drop out"
                    ),
                )
            }
        }
    }
}
