//! All rules by one name, and the memory that they take.

use std::sync::Arc;

use super::{Bounds, Trusted, Weighed, cosine, fltrust, krum, norm, sorting};
use crate::project::ROWS;
use crate::sort::network;
use crate::{Gate, Mpc, MpcError, Ring, Vectors};

/// A rule with its parameters.
#[derive(Clone, Copy, Debug)]
pub enum Rule<'a> {
    /// The mean of all.
    Mean,
    /// [`Mpc::clipped_mean`].
    Clipped {
        /// The norm that longer vectors are shortened to.
        clip: u64,
    },
    /// [`Mpc::fltrust`].
    FlTrust {
        /// The vector that others are compared with.
        trusted: Trusted<'a>,
        /// Whether the sum of weights is hidden.
        hide_total: bool,
    },
    /// [`Mpc::krum`].
    Krum {
        /// How many vectors may be bad.
        bad: usize,
        /// How many are kept; none for all but the bad ones.
        keep: Option<usize>,
    },
    /// [`Mpc::unlike`].
    Unlike,
    /// [`Mpc::median`].
    Median {
        /// Bits of a coordinate.
        bits: usize,
    },
    /// [`Mpc::trimmed_mean`].
    Trimmed {
        /// Bits of a coordinate.
        bits: usize,
        /// Values that are left out at each end.
        trim: usize,
    },
}

/// Bytes of a double bit with what it was made from, where servers do not verify and where they do.
const DOUBLE_BIT: [u64; 2] = [70, 270];

/// ANDs of a comparison of 64 bits, with room for what else is done with its result.
const ANDS: u64 = 300;

/// Bytes that are said in a round of the numbers of one party, and of two.
const OF_ONE: u64 = 1 << 16;
const OF_TWO: u64 = 1 << 13;

/// Bytes of an AND in the ledger, and of what verification opens for it. As all that is said here, counted in a test.
const AND: u64 = 18;

impl Rule<'_> {
    /// Computes it, for one server.
    ///
    /// # Errors
    /// As the rule itself.
    pub async fn compute<R: Ring>(
        self,
        mpc: &Mpc<R>,
        vectors: &Arc<Vectors>,
        bounds: Bounds,
    ) -> Result<Weighed<R>, MpcError> {
        match self {
            Self::Mean => Ok(Weighed {
                sum: vectors.sum(),
                total: None,
                divisor: vectors.count().max(1) as f64,
                even: 0,
                passed: vec![true; vectors.count()],
                no_direction: None,
            }),
            Self::Clipped { clip } => mpc.clipped_mean(vectors, bounds, clip).await,
            Self::FlTrust {
                trusted,
                hide_total,
            } => mpc.fltrust(vectors, bounds, trusted, hide_total).await,
            Self::Krum { bad, keep } => mpc.krum(vectors, bounds, bad, keep).await,
            Self::Unlike => mpc.unlike(vectors, bounds).await,
            Self::Median { bits } => mpc.median(vectors, bits).await,
            Self::Trimmed { bits, trim } => mpc.trimmed_mean(vectors, bits, trim).await,
        }
    }

    /// Whether it can be computed for `n` vectors of `dim` numbers.
    ///
    /// # Errors
    /// [`MpcError::Range`] as the rule itself, before anything is computed. The trusted vector is not looked at.
    pub fn check(
        self,
        (n, dim): (usize, usize),
        bounds: Bounds,
        verifies: bool,
    ) -> Result<(), MpcError> {
        match self {
            Self::Mean => return Ok(()),
            Self::Clipped { clip } => norm::check(clip, bounds, n)?,
            Self::FlTrust { .. } => fltrust::check(bounds, n)?,
            Self::Krum { bad, keep } => {
                let keep = krum::kept_of(n, bad, keep);
                krum::check((bad, keep), bounds, n, verifies)?;
            }
            Self::Unlike => cosine::check(bounds, n)?,
            Self::Median { bits } => return sorting::check(bits, sorting::halves(n)?, n),
            Self::Trimmed { bits, trim } => return sorting::check(bits, trim, n),
        }
        let has_direction = matches!(self, Self::FlTrust { .. });
        let check = |gate: Gate| gate.check(dim, has_direction);
        // guard: vectors-are-not-too-long-for-the-gate
        bounds.gate.map_or(Ok(()), check)
    }

    /// Bytes that a server holds at most for `n` vectors of `dim` numbers, the vectors among them: what grows with `dim`.
    /// A few megabytes for the numbers of each party come on top, whatever `dim` is.
    pub fn memory(self, n: usize, dim: usize, verifies: bool) -> u64 {
        (dim as u64).saturating_mul(16 * n as u64 + self.for_each_number(n, verifies))
    }

    /// No letter of a server to another one is longer, for `n` vectors of `dim` numbers.
    pub fn largest_letter(self, n: usize, dim: usize, verifies: bool) -> u64 {
        let (parties, rows) = (n as u64, ROWS as u64);
        let pairs = parties * parties.saturating_sub(1) / 2;
        let compared = match self {
            Self::Krum { .. } => {
                (2 * rows * parties).saturating_add(pairs.saturating_mul(parties + 1))
            }
            // The direction goes through the gate as well.
            Self::FlTrust { .. } => 2 * rows * (parties + 1) + 2 * pairs,
            Self::Clipped { .. } | Self::Unlike => 2 * rows * parties + 2 * pairs,
            Self::Mean | Self::Median { .. } | Self::Trimmed { .. } => 0,
        };
        // Verification opens a word of 64 bits for each AND, all at once; before it, two bits are said of each.
        let each = ANDS * if verifies { 8 } else { 1 };
        let of_bits = each.saturating_mul(compared.saturating_add(8 * parties));
        let of_numbers = (dim as u64).saturating_mul(self.for_each_number(n, verifies));
        let scalars = OF_ONE * parties + OF_TWO * pairs;
        of_numbers.saturating_add(of_bits).saturating_add(scalars)
    }

    /// Bytes that are held for each number of a vector, but for those of the vectors themselves.
    fn for_each_number(self, n: usize, verifies: bool) -> u64 {
        let element = if verifies { 16 } else { 8 };
        let n = n as u64;
        match self {
            // The sum in both components, shown to one and heard of another.
            Self::Mean => 4 * element,
            // A weighted sum is held in both components; a part of it was said and one was heard. What verification says,
            // knows and hears is as much and a half.
            Self::Clipped { .. } | Self::FlTrust { .. } | Self::Krum { .. } | Self::Unlike => {
                if verifies {
                    5 * element
                } else {
                    4 * element
                }
            }
            Self::Median { bits } => sorted(n, bits, (n.saturating_sub(1)) / 2, verifies),
            Self::Trimmed { bits, trim } => sorted(n, bits, trim as u64, verifies),
        }
    }
}

/// Bytes for each coordinate where all are sorted.
fn sorted(n: u64, bits: usize, trim: u64, verifies: bool) -> u64 {
    let kept = n.saturating_sub(2 * trim);
    let bits = bits as u64;
    let [not_verified, verified] = DOUBLE_BIT;
    if !verifies {
        // The numbers above 0, which are taken apart, and their bits.
        return 16 * n + 3 * n * bits + kept * bits * not_verified;
    }
    let levels = u64::from(bits.next_power_of_two().ilog2());
    let apart = n * bits * (2 + 2 * levels);
    let pairs: usize = network(n as usize).iter().map(Vec::len).sum();
    32 * n + kept * bits * verified + AND * (apart + 4 * bits * pairs as u64)
}
