//! All rules by one name, and the memory that they take.

use std::sync::Arc;

use super::{Bounds, Trusted, Weighed};
use crate::sort::network;
use crate::{Mpc, MpcError, Ring, Vectors};

/// A rule with its parameters.
#[derive(Clone, Copy, Debug)]
pub enum Rule<'a> {
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
        /// How many are kept.
        keep: usize,
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

    /// Bytes that a server holds at most for `n` vectors of `dim` numbers, the vectors among them: what grows with `dim`.
    /// A few megabytes for the numbers of each party come on top, whatever `dim` is.
    pub fn memory(self, n: usize, dim: usize, verifies: bool) -> u64 {
        let element = if verifies { 16 } else { 8 };
        let (n, dim) = (n as u64, dim as u64);
        let each = match self {
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
        };
        dim * (16 * n + each)
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
