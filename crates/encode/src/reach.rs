//! How large the coordinates of a party are, which it tells in words of its own where clipping bounds follow from
//! earlier rounds.
//!
//! Nobody sees from a sum how large its summands are: values of parties can cancel, one party can have a coordinate
//! alone, and what a bound has cut off is not there. So each party says of each tensor which of four marks its largest
//! coordinate is above. These words are summed with the others. Everybody learns how many parties were above a mark, and
//! nobody which of them.

use blindsum_crypto::Zeroizing;
use blindsum_math::words::Words;

use crate::clip::MARKS;
use crate::values::{Real, Values};
use crate::{EncodeError, Encoding, MetricLevels};
use blindsum_math::simd::{self, Kernel};

/// How far the coordinates of a tensor go: how many of the marks the largest is above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reach(u8);

impl Reach {
    /// Nothing is above a 32nd of the bound.
    pub const TINY: Self = Self(0);
    /// Something is above a 32nd of the bound.
    pub const SMALL: Self = Self(1);
    /// Something is above a quarter of the bound.
    pub const FITTING: Self = Self(2);
    /// Something is above half of the bound.
    pub const NEAR: Self = Self(3);
    /// Something is above the bound: it was cut off.
    pub const CUT: Self = Self(4);

    /// Of a coordinate with this absolute value.
    fn of(largest: f64, clip: f64) -> Self {
        let above = MARKS.iter().filter(|mark| largest > **mark * clip);
        Self(above.count() as u8)
    }

    /// The words of a tensor that goes so far: 1 for each mark that it is above.
    fn words(self) -> [u64; MARKS.len()] {
        std::array::from_fn(|mark| u64::from(mark < usize::from(self.0)))
    }

    /// From a saved number.
    pub(crate) fn from_u8(number: u8) -> Option<Self> {
        (usize::from(number) <= MARKS.len()).then_some(Self(number))
    }

    pub(crate) fn to_u8(self) -> u8 {
        self.0
    }
}

impl Encoding {
    /// How far the coordinates of any party went, tensor by tensor, from the sum of the words of a round, of which a sparse
    /// round opens those with `is_open`. [`Reach::FITTING`], with which a bound stays, where that was not opened; nothing where
    /// vectors do not tell it ([`EncodingSpec::tells_reach`](crate::EncodingSpec::tells_reach)).
    ///
    /// # Errors
    /// [`EncodeError::SumShape`], where vectors tell it.
    pub fn reached(
        &self,
        sum: &Words,
        is_open: impl Fn(usize) -> bool,
    ) -> Result<Vec<Reach>, EncodeError> {
        if self.reach_words() == 0 {
            return Ok(Vec::new());
        }
        self.check_sum_shape(sum)?;
        let first = self.coordinate_lanes() + usize::from(self.has_weight_word());
        let of_tensor = |tensor: usize| {
            let word = |mark: usize| first + tensor * MARKS.len() + mark;
            if !(0..MARKS.len()).all(|mark| is_open(word(mark))) {
                return Reach::FITTING;
            }
            let above = (0..MARKS.len())
                .rev()
                .find(|mark| sum.get(word(*mark)) != 0);
            Reach(above.map_or(0, |mark| mark as u8 + 1))
        };
        let tensors = self.reach_words() / MARKS.len();
        Ok((0..tensors).map(of_tensor).collect())
    }

    /// How far the coordinates of a vector go, tensor by tensor of the job; nothing where vectors do not tell it.
    pub(crate) fn reach_of(&self, values: Values<'_>) -> Vec<Reach> {
        match values {
            Values::F32(values) => self.reach_of_reals(values),
            Values::F64(values) => self.reach_of_reals(values),
            Values::Integers(_) => Vec::new(),
        }
    }

    fn reach_of_reals<R: Real>(&self, values: &[R]) -> Vec<Reach> {
        let mut reach = vec![Reach::TINY; self.reach_words() / MARKS.len()];
        if reach.is_empty() {
            return reach;
        }
        for (run, (range, clip)) in self.runs.iter().zip(self.tensors()) {
            reach[run.tensor] = Reach::of(simd::run(Largest(&values[range])), clip);
        }
        reach
    }

    /// The words behind the coordinates: the weight, where vectors have one, how far the tensors go, and the metrics.
    pub(crate) fn tail(
        &self,
        weight: u32,
        reach: &[Reach],
        metrics: &MetricLevels,
    ) -> Zeroizing<Vec<u64>> {
        let words = self.lanes() - self.coordinate_lanes();
        let mut tail = Zeroizing::new(Vec::with_capacity(words));
        if self.has_weight_word() {
            tail.push(weight.into());
        }
        tail.extend(reach.iter().flat_map(|reach| reach.words()));
        self.push_metrics(weight, metrics, &mut tail);
        tail
    }
}

/// The largest absolute value.
struct Largest<'a, R>(&'a [R]);

/// Numbers that are compared side by side.
const LANES: usize = 8;

impl<R: Real> Kernel for Largest<'_, R> {
    type Output = f64;

    #[inline(always)]
    fn run(self) -> f64 {
        let larger = |most: f64, value: R| {
            let size = value.to_f64().abs();
            if size > most { size } else { most }
        };
        let mut most = [0.0; LANES];
        let (pieces, rest) = self.0.as_chunks::<LANES>();
        for piece in pieces {
            for (most, &value) in most.iter_mut().zip(piece) {
                *most = larger(*most, value);
            }
        }
        let of_pieces = most.into_iter().fold(0.0, f64::max);
        rest.iter()
            .fold(of_pieces, |most, &value| larger(most, value))
    }
}
