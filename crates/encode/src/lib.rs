//! Floating-point vectors to words of Z_2^b and back.
//!
//! Secure aggregation adds words modulo 2^b. An [`Encoding`] says how the coordinates of a vector become such
//! words, so that their sum is known to fit and gives back the mean:
//!
//! ```text
//! word  =  round(weight * (clip(x) + c) * t / 2c)        one rounding, after the weight
//! mean  =  c * (2 * sum of words / (total weight * t) - 1)
//! b     =  q + ⌈log2(parties * max_weight)⌉              so that no sum wraps
//! ```
//!
//! t is the last level of a coordinate, 2^q - 1 with stochastic rounding and 2^q - 2 with rounding to nearest
//! ([`Rounding::last_level`]).
//!
//! Unsigned integers become words as they are ([`EncodingKind::Integers`]), and [`Encoding::decode_sums`] gives their
//! exact sums.
//!
//! Vectors with noise for differential privacy ([`EncodingSpec::noise`]) have levels about 0 instead: whole numbers from
//! -2^(q-1) + 1 to 2^(q-1) - 1, to each of which a number of noise is added.
//!
//! [`EncodingSpec::validate`] checks the numbers once. An [`Encoder`] checks one vector and then writes its words tile
//! by tile, so that encoding, masking and packing are one pass through the cache. [`Encoding::decode_mean`] turns the
//! sum back into a mean. Both compute in `f64` with a fixed order of operations: the words are the same on every
//! machine.

#![deny(unsafe_code)]

mod aciq;
mod bounds;
mod clip;
mod decode;
mod encoder;
mod error;
mod integers;
mod kind;
mod lanes;
mod levels;
mod max_error;
mod metric_range;
mod metric_words;
mod metrics;
mod noise;
mod noised;
mod norm;
mod norm_rule;
mod quantise;
mod reach;
mod reals;
mod sparse;
mod spec;
mod step;
#[cfg(test)]
mod tests;
mod update;
mod values;
mod verdict;
mod weight;
mod whole;

pub use aciq::UpdateHistory;
pub use blindsum_privacy::noise::NoiseSeed;
pub use clip::ClipSpec;
pub use encoder::Encoder;
pub use error::EncodeError;
pub use integers::IntegerWords;
pub use kind::EncodingKind;
pub use levels::Rounding;
pub use metric_range::MetricRange;
pub use metric_words::MAX_METRICS;
pub use metrics::{MetricLevels, MetricNote, MetricSum, VoidMetric};
pub use noise::{NoiseShare, measured_by_norm};
pub use noised::Seeds;
pub use norm::SquaredNorm;
pub use reach::Reach;
pub use reals::{Precision, Reals};
pub use sparse::{DensitySchedule, Divisor, LeftoverSize, Selection, Sent, SparseMean, Sparsifier};
pub use spec::{Encoding, EncodingSpec, TensorSpec, largest_fixed64_clip};
pub use step::{Direction, SecondMoment, ServerStep, StepState};
pub use update::{Judged, Update};
pub use values::{EncodeReport, Integers, Real, Values};
