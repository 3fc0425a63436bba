//! The mean of each coordinate over all parties, or over those that sent it.

use blindsum_math::words::{Tile, Words};

use crate::decode::{Levels, fixed64_limit};
use crate::kind::Kind;
use crate::spec::FIXED64_UNIT;
use crate::values::Real;
use crate::{Divisor, EncodeError, Encoding};
use blindsum_math::simd::{self, Kernel};

/// How many coordinates of a sparse round have a mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SparseMean {
    /// Coordinates that enough parties sent.
    pub opened: u64,
    /// Coordinates that some parties sent, but fewer than the minimum. Their mean is given as 0.
    pub withheld: u64,
    /// Coordinates sent by no party. Their mean is given as 0.
    pub absent: u64,
}

impl Encoding {
    /// Whether sparse rounds can use this encoding.
    pub(super) fn check_sparse(&self) -> Result<(), EncodeError> {
        if matches!(self.kind(), Kind::Integers { .. }) {
            let rule = "sparse updates are real numbers";
            return Err(EncodeError::spec("encoding", rule));
        }
        if self.noise().is_some() {
            let rule = "sparse rounds tell which coordinates a party sends";
            return Err(EncodeError::spec("privacy", rule));
        }
        if self.has_weight_word() {
            let rule = format!(
                "max_weight = {} must be 1 for sparse updates: the weights behind a coordinate are hidden",
                self.max_weight()
            );
            return Err(EncodeError::spec("max_weight", rule));
        }
        if self.lanes() as u64 > 1 << 32 {
            let rule = format!(
                "dim = {} and {} words of tensors and metrics <= 2^32 for sparse updates",
                self.dim(),
                self.lanes() - self.dim()
            );
            return Err(EncodeError::spec("dim", rule));
        }
        Ok(())
    }

    /// Decodes the sum of a sparse round: writes the mean of each coordinate to `mean`, `[dim]`. Word d of `sum` is the
    /// sum of the words of `counts[d]` parties (`[lanes]`), and the mean is over these or over all, as the divisor says. Where
    /// fewer than `minimum` parties sent a coordinate, or nobody did, the mean is 0 and the word is not looked at.
    ///
    /// Where all counts are n, this is [`Encoding::decode_mean`] with n survivors. Over all n parties it is the mean over
    /// the senders times count / n.
    ///
    /// # Errors
    /// [`EncodeError::Spec`] as for [`Sparsifier::new`](crate::Sparsifier::new); [`EncodeError::Dim`] if `mean` has another length than
    /// `dim`, or `counts` than [`Encoding::lanes`], [`EncodeError::SumShape`], [`EncodeError::Survivors`] for a
    /// count above the number of parties, or above that of the divisor, [`EncodeError::Sum`]. What `mean` holds after an error is unspecified.
    pub fn decode_sparse_mean<R: Real>(
        &self,
        sum: &Words,
        counts: &[u32],
        (minimum, divisor): (u32, Divisor),
        mean: &mut [R],
    ) -> Result<SparseMean, EncodeError> {
        self.check_sparse()?;
        let dim = self.dim();
        for (got, dim) in [(mean.len(), dim), (counts.len(), self.lanes())] {
            if got != dim {
                return Err(EncodeError::Dim { got, dim });
            }
        }
        let counts = &counts[..dim];
        self.check_sum_shape(sum)?;
        let parties = match divisor {
            Divisor::Parties(all) => self.parties().min(all as usize),
            Divisor::Senders => self.parties(),
        };
        if let Some(&count) = counts.iter().find(|&&count| count as usize > parties) {
            let survivors = count as usize;
            return Err(EncodeError::Survivors { survivors, parties });
        }
        match sum.tile(0..dim) {
            Tile::W32(lanes) => self.decode_counted(lanes, counts, (minimum, divisor), mean),
            Tile::W64(lanes) => self.decode_counted(lanes, counts, (minimum, divisor), mean),
        }
    }

    fn decode_counted<R: Real, L: Copy + Into<u64>>(
        &self,
        lanes: &[L],
        counts: &[u32],
        (minimum, divisor): (u32, Divisor),
        mean: &mut [R],
    ) -> Result<SparseMean, EncodeError> {
        let least = minimum.max(1);
        for (run, clip) in self.tensors() {
            let sums = Sums {
                lanes: &lanes[run.clone()],
                counts: &counts[run.clone()],
                mask: self.width().mask(),
                least,
                divisor,
                clip,
            };
            let mean = &mut mean[run.clone()];
            let bad = match self.kind() {
                Kind::Quantised { bits, rounding, .. } => {
                    let top = rounding.last_level(bits);
                    simd::run(LevelMeans { sums, top, mean })
                }
                Kind::Fixed64 => simd::run(FixedMeans { sums, mean }),
                // Refused by the check above.
                Kind::Noised { .. } | Kind::Integers { .. } => None,
            };
            if let Some(at) = bad {
                let (lane, total_weight) = (run.start + at, counts[run.start + at].into());
                return Err(EncodeError::Sum { lane, total_weight });
            }
        }
        let having = |fewest| counts.iter().filter(|&&count| count >= fewest).count() as u64;
        let (present, opened) = (having(1), having(least));
        Ok(SparseMean {
            opened,
            withheld: present - opened,
            absent: counts.len() as u64 - present,
        })
    }
}

/// The sums of a tensor, each of as many parties' words as its count says.
struct Sums<'a, L> {
    lanes: &'a [L],
    counts: &'a [u32],
    mask: u64,
    /// Means are those of sums of at least so many words, which is at least one.
    least: u32,
    divisor: Divisor,
    clip: f64,
}

impl<L: Copy + Into<u64>> Sums<'_, L> {
    /// Writes the means over `mean`; gives the index of a word that no sum of so many can be, if there is one.
    /// `decode(word, count)` says the mean over the senders, and whether the word can be. Without branches, which would be hard to
    /// predict, so that compilers make vectors of it.
    #[inline(always)]
    fn decode<R: Real>(
        &self,
        mean: &mut [R],
        decode: impl Fn(u64, u64) -> (f64, bool),
    ) -> Option<usize> {
        let mut impossible = 0_u64;
        for ((mean, &lane), &count) in mean.iter_mut().zip(self.lanes).zip(self.counts) {
            let (value, possible) = decode(lane.into() & self.mask, count.into());
            let opened = count >= self.least;
            impossible |= u64::from(opened & !possible);
            let part = self.divisor.part(count.into());
            *mean = R::from_f64(if opened { value * part } else { 0.0 });
        }
        if impossible == 0 {
            return None;
        }
        self.lanes
            .iter()
            .zip(self.counts)
            .position(|(&lane, &count)| {
                let (_, possible) = decode(lane.into() & self.mask, count.into());
                count >= self.least && !possible
            })
    }
}

/// Decodes sums of levels, of which `top` is the largest.
struct LevelMeans<'a, R, L> {
    sums: Sums<'a, L>,
    top: u64,
    mean: &'a mut [R],
}

impl<R: Real, L: Copy + Into<u64>> Kernel for LevelMeans<'_, R, L> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run(self) -> Option<usize> {
        let Self { sums, top, mean } = self;
        let (mask, clip) = (sums.mask, sums.clip);
        // Sums do not wrap: no top and no word is above the mask.
        if mask < 1 << 52 {
            return sums.decode(mean, |word, count| {
                let levels = Levels::new(mask, count * top, clip);
                (levels.coordinate_of_small(word), levels.has(word))
            });
        }
        sums.decode(mean, |word, count| {
            let levels = Levels::new(mask, count * top, clip);
            (levels.coordinate_of(word), levels.has(word))
        })
    }
}

/// Decodes sums in fixed point.
struct FixedMeans<'a, R, L> {
    sums: Sums<'a, L>,
    mean: &'a mut [R],
}

impl<R: Real, L: Copy + Into<u64>> Kernel for FixedMeans<'_, R, L> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run(self) -> Option<usize> {
        let Self { sums, mean } = self;
        let clip = sums.clip;
        sums.decode(mean, |word, count| {
            let unit = FIXED64_UNIT * count as f64;
            let signed = word.cast_signed();
            let possible = signed.unsigned_abs() <= fixed64_limit(clip, unit, count);
            (signed as f64 / unit, possible)
        })
    }
}
