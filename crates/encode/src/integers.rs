//! Integers as they are, for sums that must be exact.

use blindsum_crypto::Zeroizing;
use blindsum_math::words::{TileMut, Words};

use crate::kind::{Kind, LOW_BITS};
use crate::lanes::{self, Lane};
use crate::values::Real;
use crate::{EncodeError, Encoding, Integers, MetricLevels};

/// Integers below 2^q on their way into words, where q is the bits of the encoding. Word d is the integer at d times
/// the weight, so that the sum of the words is the exact weighted sum of the integers. Where integers are split, word d
/// is the low 32 bits of the integer at d times the weight, and word dim + d the high bits times the weight.
///
/// The encoding may also be a quantised one: its values have the same bounds, so that no sum wraps either.
pub struct IntegerWords<'a> {
    encoding: &'a Encoding,
    values: Integers<'a>,
    weight: u32,
    split: bool,
    /// The words behind the coordinates.
    tail: Zeroizing<Vec<u64>>,
}

impl<'a> IntegerWords<'a> {
    /// Checks `values` against the bits of `encoding`.
    ///
    /// # Errors
    /// [`EncodeError::Integers`] for fixed point, [`EncodeError::Weight`], [`EncodeError::Dim`] and
    /// [`EncodeError::Value`].
    pub fn new(
        encoding: &'a Encoding,
        values: impl Into<Integers<'a>>,
        weight: u32,
    ) -> Result<Self, EncodeError> {
        let (bits, _) = bits_and_split(encoding)?;
        lanes::check_weight(encoding, weight)?;
        let values = values.into();
        let (got, dim) = (values.len(), encoding.dim());
        if got != dim {
            return Err(EncodeError::Dim { got, dim });
        }
        if let Some(index) = values.position_above(u64::MAX >> (64 - bits)) {
            return Err(EncodeError::Value { index, bits });
        }
        Self::judged(encoding, values, weight)
    }

    /// The same of values and a weight that were checked.
    pub(crate) fn judged(
        encoding: &'a Encoding,
        values: Integers<'a>,
        weight: u32,
    ) -> Result<Self, EncodeError> {
        let (_, split) = bits_and_split(encoding)?;
        Ok(Self {
            encoding,
            values,
            weight,
            split,
            tail: encoding.tail(weight, &[], &MetricLevels::default()),
        })
    }

    /// The same with these metrics.
    pub(crate) fn with_metrics(mut self, metrics: &MetricLevels) -> Self {
        self.tail = self.encoding.tail(self.weight, &[], metrics);
        self
    }

    /// Words of the vector, [`Encoding::lanes`].
    pub fn lanes(&self) -> usize {
        self.encoding.lanes()
    }

    /// Writes words `first_lane..first_lane + tile.len()` over `tile`.
    ///
    /// # Errors
    /// [`EncodeError::Tile`] if they are not all in the vector or the lanes are not those of its width.
    pub fn encode_tile(&self, first_lane: usize, tile: TileMut<'_>) -> Result<(), EncodeError> {
        lanes::check_tile(self.encoding, first_lane, &tile)?;
        match tile {
            TileMut::W32(lanes) => self.write(first_lane, lanes),
            TileMut::W64(lanes) => self.write(first_lane, lanes),
        }
        Ok(())
    }

    fn write<L: Lane>(&self, first: usize, lanes: &mut [L]) {
        let (lanes, words) = lanes::split_tail(self.encoding, &self.tail, first, lanes);
        if !self.split {
            return self.write_parts(words.start, lanes, |value| value);
        }
        let dim = self.encoding.dim();
        let low_words = dim.clamp(words.start, words.end) - words.start;
        let (low, high) = lanes.split_at_mut(low_words);
        self.write_parts(words.start.min(dim), low, |value| value & LOW_MASK);
        self.write_parts(words.start.saturating_sub(dim), high, |value| {
            value >> LOW_BITS
        });
    }

    /// Writes a part of each integer from the one at `first` on, times the weight.
    fn write_parts<L: Lane>(&self, first: usize, lanes: &mut [L], part: impl Fn(u64) -> u64) {
        let (weight, end) = (u64::from(self.weight), first + lanes.len());
        match self.values {
            Integers::U32(values) => {
                for (lane, &value) in lanes.iter_mut().zip(&values[first..end]) {
                    *lane = L::truncate(part(value.into()) * weight);
                }
            }
            Integers::U64(values) => {
                for (lane, &value) in lanes.iter_mut().zip(&values[first..end]) {
                    *lane = L::truncate(part(value) * weight);
                }
            }
        }
    }
}

/// The bits of an integer, and whether it takes two words.
fn bits_and_split(encoding: &Encoding) -> Result<(u32, bool), EncodeError> {
    match encoding.kind() {
        Kind::Fixed64 | Kind::Noised { .. } => Err(EncodeError::Integers),
        Kind::Quantised { bits, .. } => Ok((bits, false)),
        Kind::Integers { bits, split } => Ok((bits, split)),
    }
}

/// The bits of an integer that its low word takes.
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;

impl Encoding {
    /// Whether every sum of integers that [`Encoding::decode_sums`] can give has at most 64 bits.
    pub fn sums_fit_64_bits(&self) -> bool {
        matches!(self.kind(), Kind::Integers { split: false, .. })
    }

    /// Decodes `sum`, the sum of the words of `survivors` parties: writes the exact weighted sums of their integers to
    /// `sums`, `[dim]`, and gives their total weight. A sum has at most 96 bits.
    ///
    /// # Errors
    /// [`EncodeError::Integers`] for encodings of real numbers, [`EncodeError::Dim`] if `sums` has another
    /// length than `dim`, [`EncodeError::SumShape`], [`EncodeError::Survivors`];
    /// [`EncodeError::TotalWeight`] and [`EncodeError::Sum`] for sums that no integers of so many parties add
    /// up to. What `sums` holds after an error is unspecified.
    pub fn decode_sums(
        &self,
        sum: &Words,
        survivors: usize,
        sums: &mut [u128],
    ) -> Result<u64, EncodeError> {
        self.each_sum(sum, survivors, sums, |_, exact| exact)
    }

    /// The means of integers: the sum as the nearest double by the total weight as one.
    pub(crate) fn integer_means<R: Real>(
        &self,
        sum: &Words,
        survivors: usize,
        means: &mut [R],
    ) -> Result<u64, EncodeError> {
        self.each_sum(sum, survivors, means, |total_weight, exact| {
            R::from_f64(exact as f64 / total_weight as f64)
        })
    }

    fn each_sum<T>(
        &self,
        sum: &Words,
        survivors: usize,
        out: &mut [T],
        of: impl Fn(u64, u128) -> T,
    ) -> Result<u64, EncodeError> {
        let Kind::Integers { bits, split } = self.kind() else {
            return Err(EncodeError::Integers);
        };
        let (got, dim) = (out.len(), self.dim());
        if got != dim {
            return Err(EncodeError::Dim { got, dim });
        }
        let total_weight = self.total_weight(sum, survivors)?;
        let largest = |bits: u32| u128::from(total_weight) * ((1 << bits) - 1);
        let word = |lane: usize, largest: u128| match u128::from(sum.get(lane)) {
            word if word > largest => Err(EncodeError::Sum { lane, total_weight }),
            word => Ok(word),
        };
        if !split {
            for (lane, out) in out.iter_mut().enumerate() {
                *out = of(total_weight, word(lane, largest(bits))?);
            }
            return Ok(total_weight);
        }
        let (largest_low, largest_high) = (largest(LOW_BITS), largest(bits - LOW_BITS));
        for (lane, out) in out.iter_mut().enumerate() {
            let (low, high) = (word(lane, largest_low)?, word(dim + lane, largest_high)?);
            *out = of(total_weight, low + (high << LOW_BITS));
        }
        Ok(total_weight)
    }
}
