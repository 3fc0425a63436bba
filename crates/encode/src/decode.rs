//! From the sum of words back to the mean.

use blindsum_math::words::{Tile, Width, Words};

use crate::kind::Kind;
use crate::spec::FIXED64_UNIT;
use crate::values::Real;
use crate::whole::Sums;
use crate::{EncodeError, Encoding};
use blindsum_math::simd::{self, Kernel};

impl Encoding {
    /// Decodes `sum`, the sum of the words of `survivors` parties: writes the weighted mean of their vectors to `mean`,
    /// `[dim]`, and gives their total weight.
    ///
    /// The mean is within [`Encoding::max_error`] of the mean of the clipped vectors, but for their noise.
    ///
    /// # Errors
    /// [`EncodeError::Dim`] if `mean` has another length than `dim`, [`EncodeError::SumShape`],
    /// [`EncodeError::Survivors`]; [`EncodeError::TotalWeight`] and [`EncodeError::Sum`] for sums that no
    /// vectors of so many parties add up to. What `mean` holds after an error is unspecified.
    pub fn decode_mean<R: Real>(
        &self,
        sum: &Words,
        survivors: usize,
        mean: &mut [R],
    ) -> Result<u64, EncodeError> {
        let (got, dim) = (mean.len(), self.dim());
        if got != dim {
            return Err(EncodeError::Dim { got, dim });
        }
        if matches!(self.kind(), Kind::Integers { .. }) {
            return self.integer_means(sum, survivors, mean);
        }
        let total_weight = self.total_weight(sum, survivors)?;
        for (run, clip) in self.clip_runs(0..dim) {
            let lanes = sum.tile(run.clone());
            let mean = &mut mean[run.clone()];
            let mask = self.width().mask();
            let bad = match self.kind() {
                Kind::Quantised { bits, rounding, .. } => {
                    let top = total_weight * rounding.last_level(bits);
                    let levels = Levels::new(mask, top, clip);
                    simd::run(DecodeLevels {
                        lanes,
                        levels,
                        mean,
                    })
                }
                Kind::Noised { sizes, .. } => {
                    let sums = Sums {
                        bits: sizes.width(),
                        zero: (survivors as u64) << (sizes.width() - 1),
                        limit: sizes.limit(),
                        step: self.step_with_noise(sizes) / survivors as f64,
                    };
                    simd::run(DecodeNoised { lanes, sums, mean })
                }
                // Integers have no clipping bounds, hence no runs.
                Kind::Integers { .. } => None,
                Kind::Fixed64 => {
                    let unit = FIXED64_UNIT * total_weight as f64;
                    let limit = fixed64_limit(clip, unit, survivors as u64);
                    simd::run(DecodeFixed {
                        lanes,
                        limit,
                        unit,
                        mean,
                    })
                }
            };
            if let Some(at) = bad {
                let lane = run.start + at;
                return Err(EncodeError::Sum { lane, total_weight });
            }
        }
        Ok(total_weight)
    }
}

impl Encoding {
    /// Decodes signed whole numbers of 64 bits, such as weighted sums: coordinate d of `mean`, `[dim]`, becomes
    /// `clip · (factor · word d + offset)`. Words behind the first `dim` are not looked at.
    ///
    /// # Errors
    /// [`EncodeError::Dim`] if `mean` has another length than `dim`, [`EncodeError::SumShape`] if there are fewer words or
    /// narrower ones, or if the factor is no finite number.
    pub fn decode_signed<R: Real>(
        &self,
        words: &Words,
        (factor, offset): (f64, f64),
        mean: &mut [R],
    ) -> Result<(), EncodeError> {
        let (got, dim) = (mean.len(), self.dim());
        if got != dim {
            return Err(EncodeError::Dim { got, dim });
        }
        if words.len() < dim || words.width() != Width::WIDEST || !factor.is_finite() {
            return Err(EncodeError::SumShape {
                got_lanes: words.len(),
                got_bits: words.width().bits(),
                lanes: dim,
                bits: Width::WIDEST.bits(),
            });
        }
        for (run, clip) in self.clip_runs(0..dim) {
            if let Tile::W64(lanes) = words.tile(run.clone()) {
                for (mean, lane) in mean[run].iter_mut().zip(lanes) {
                    *mean = R::from_f64(clip * (lane.cast_signed() as f64 * factor + offset));
                }
            }
        }
        Ok(())
    }
}

/// The largest magnitude of a sum of `parties` fixed-point words, of which every one was rounded, by 1/2 at
/// most; `unit` is that of the whole sum.
pub(crate) fn fixed64_limit(clip: f64, unit: f64, parties: u64) -> u64 {
    ((clip * unit * (1.0 + f64::EPSILON)) as u64).saturating_add(parties)
}

/// The map from levels summed over weights back to coordinates: 0 to -c, `top` to c.
#[derive(Clone, Copy)]
pub(crate) struct Levels {
    mask: u64,
    /// total weight * last level of a coordinate, below 2^64.
    top: u64,
    clip: f64,
    slope: f64,
}

/// Decodes levels; gives the index of a word above the top, if there is one.
struct DecodeLevels<'a, R> {
    lanes: Tile<'a>,
    levels: Levels,
    mean: &'a mut [R],
}

impl<R: Real> Kernel for DecodeLevels<'_, R> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run(self) -> Option<usize> {
        let Self {
            lanes,
            levels,
            mean,
        } = self;
        match lanes {
            Tile::W32(lanes) => levels.decode(lanes, mean),
            Tile::W64(lanes) => levels.decode(lanes, mean),
        }
    }
}

impl Levels {
    #[inline(always)]
    pub(crate) fn new(mask: u64, top: u64, clip: f64) -> Self {
        let nearest = clip / top as f64;
        // Rounded up where it must be for the top to reach c. What lies above is clamped.
        let slope = if nearest * (top as f64) < clip {
            nearest.next_up()
        } else {
            nearest
        };
        Self {
            mask,
            top,
            clip,
            slope,
        }
    }

    #[inline(always)]
    fn decode<R: Real, L: Copy + Into<u64>>(self, lanes: &[L], mean: &mut [R]) -> Option<usize> {
        let Self { mask, top, .. } = self;
        let mut too_large = 0_u64;
        if top < 1 << 52 {
            for (mean, &lane) in mean.iter_mut().zip(lanes) {
                let word = lane.into() & mask;
                too_large |= u64::from(word > top);
                *mean = R::from_f64(self.coordinate_of_small(word));
            }
        } else {
            for (mean, &lane) in mean.iter_mut().zip(lanes) {
                let word = lane.into() & mask;
                too_large |= u64::from(word > top);
                let twice_above_half = 2 * i128::from(word) - i128::from(top);
                *mean = R::from_f64(self.coordinate(twice_above_half as f64));
            }
        }
        if too_large == 0 {
            return None;
        }
        lanes.iter().position(|&lane| lane.into() & mask > top)
    }

    /// Whether a level is not above the top.
    #[inline(always)]
    pub(crate) fn has(self, level: u64) -> bool {
        level <= self.top
    }

    /// The coordinate at a level that is not above the top, both below 2^52.
    #[inline(always)]
    pub(crate) fn coordinate_of_small(self, level: u64) -> f64 {
        self.coordinate(2.0 * below_2_52_to_f64(level) - self.top as f64)
    }

    /// The coordinate at a level that is not above the top.
    pub(crate) fn coordinate_of(self, level: u64) -> f64 {
        if self.top < 1 << 62 {
            let twice_above_half = (2 * level).cast_signed() - self.top.cast_signed();
            return self.coordinate(twice_above_half as f64);
        }
        let twice_above_half = 2 * i128::from(level) - i128::from(self.top);
        self.coordinate(twice_above_half as f64)
    }

    /// The coordinate at a level, given as 2 * level - top.
    #[inline(always)]
    fn coordinate(self, twice_above_half: f64) -> f64 {
        let coordinate = twice_above_half * self.slope;
        let coordinate = if coordinate > -self.clip {
            coordinate
        } else {
            -self.clip
        };
        if coordinate < self.clip {
            coordinate
        } else {
            self.clip
        }
    }
}

/// Decodes sums with noise; gives the index of one beyond the limit, if there is one.
struct DecodeNoised<'a, R> {
    lanes: Tile<'a>,
    sums: Sums,
    mean: &'a mut [R],
}

impl<R: Real> Kernel for DecodeNoised<'_, R> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run(self) -> Option<usize> {
        match self.lanes {
            Tile::W32(lanes) => self.sums.decode(lanes, self.mean),
            Tile::W64(lanes) => self.sums.decode(lanes, self.mean),
        }
    }
}

/// Decodes fixed point; gives the index of a word further than `limit` from 0, if there is one.
struct DecodeFixed<'a, R> {
    lanes: Tile<'a>,
    limit: u64,
    unit: f64,
    mean: &'a mut [R],
}

impl<R: Real> Kernel for DecodeFixed<'_, R> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run(self) -> Option<usize> {
        let Tile::W64(lanes) = self.lanes else {
            unreachable!("the words of fixed point are 64 bits wide");
        };
        let is_too_large = |lane: u64| lane.cast_signed().unsigned_abs() > self.limit;
        let mut too_large = 0_u64;
        for (mean, &lane) in self.mean.iter_mut().zip(lanes) {
            too_large |= u64::from(is_too_large(lane));
            *mean = R::from_f64(lane.cast_signed() as f64 / self.unit);
        }
        if too_large == 0 {
            return None;
        }
        lanes.iter().position(|&lane| is_too_large(lane))
    }
}

/// The same number, exactly; anything for 2^52 and more. Unlike a conversion, every instruction set can do it.
#[inline(always)]
fn below_2_52_to_f64(word: u64) -> f64 {
    const TWO_52: f64 = (1_u64 << 52) as f64;
    f64::from_bits(word | TWO_52.to_bits()) - TWO_52
}
