//! What a caller gives to a round, and gets from it.

use blindsum_encode::{EncodeReport, Values};

use crate::Model;

/// An update to submit, `[dim]`: real numbers or, where the job's encoding is of integers, those.
pub enum Update {
    /// Single precision.
    F32(Vec<f32>),
    /// Double precision.
    F64(Vec<f64>),
    /// Unsigned integers of 32 bits.
    U32(Vec<u32>),
    /// Unsigned integers of 64 bits.
    U64(Vec<u64>),
}

impl From<Vec<f32>> for Update {
    fn from(values: Vec<f32>) -> Self {
        Self::F32(values)
    }
}

impl From<Vec<f64>> for Update {
    fn from(values: Vec<f64>) -> Self {
        Self::F64(values)
    }
}

impl From<Vec<u32>> for Update {
    fn from(values: Vec<u32>) -> Self {
        Self::U32(values)
    }
}

impl From<Vec<u64>> for Update {
    fn from(values: Vec<u64>) -> Self {
        Self::U64(values)
    }
}

impl Update {
    /// The values.
    pub fn values(&self) -> Values<'_> {
        match self {
            Self::F32(values) => Values::F32(values),
            Self::F64(values) => Values::F64(values),
            Self::U32(values) => Values::from(&values[..]),
            Self::U64(values) => Values::from(&values[..]),
        }
    }
}

/// What a round gave.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundResult {
    /// The weighted mean of the survivors' updates, `[dim]`.
    pub mean: Vec<f32>,
    /// What single precision is too coarse for, where the job's encoding is of integers.
    pub integers: Option<IntegerResult>,
    /// The survivors' weights together.
    pub total_weight: u64,
    /// Whose updates are in it.
    pub survivors: Vec<String>,
    /// How many survivors sent each coordinate, `[dim]`, where the round was sparse. Coordinates that too few
    /// sent have a mean of 0.
    pub contributors: Option<Vec<u32>>,
    /// The job's model after the round.
    pub model: Model,
    /// What clipping did to this party's own update, which nobody else learns. None where the update was sent before
    /// a crash.
    pub clipped: Option<Clipped>,
    /// The name of the result: parties with the same one, and a coordinator that reports it, were told the same.
    pub result: [u8; 32],
    /// What the round took of this party's time.
    pub timings: Timings,
}

/// Seconds that a party worked in a round, beside its training, its network and its disk.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    /// While it waited anyway: masks computed ahead, see [`Settings::mask_memory`](super::Settings::mask_memory).
    pub ahead: f64,
    /// From the update to the answer that carries it: encoding and protection.
    pub protect: f64,
    /// From the message that tells the result to the sum.
    pub open: f64,
}

/// What a round of integers gave.
#[derive(Clone, Debug, PartialEq)]
pub struct IntegerResult {
    /// The exact weighted sums of the survivors' integers, `[dim]`.
    pub sums: Vec<u128>,
    /// Their weighted mean, `[dim]`.
    pub mean: Vec<f64>,
}

/// What clipping did to a party's own update.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clipped {
    /// Coordinates outside their bound, which were moved to it.
    pub coordinates: u64,
    /// What the update was multiplied with, below 1, where its L2 norm was outside the bound.
    pub scaled_by: Option<f64>,
}

impl From<EncodeReport> for Clipped {
    fn from(report: EncodeReport) -> Self {
        Self {
            coordinates: report.clipped,
            scaled_by: report.scaled_by,
        }
    }
}

impl Clipped {
    /// Whether the update went into the sum as it was.
    pub fn is_nothing(&self) -> bool {
        self.coordinates == 0 && self.scaled_by.is_none()
    }
}
