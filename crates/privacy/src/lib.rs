//! Noise of distributed differential privacy.
//!
//! Each party adds a share of noise to its vector of whole numbers before it is masked, so that the sum has noise that hides
//! each party even from those that work together.
//!
//! | module | what it is for |
//! |---|---|
//! | [`noise`] | numbers of a discrete Gaussian distribution or of Skellam's, in constant time and exact to 2^-116 |
//! | [`SizesSpec`], [`Sizes`] | how much noise a share has, and how wide the words of a sum are |
//! | [`ServerNoiseSpec`], [`ServerNoise`] | the same of noise that servers add to a sum |
//! | [`accounting`] | ε for δ of many releases |

#![deny(unsafe_code)]

pub mod accounting;
mod error;
pub mod noise;
mod servers;
mod sizes;
#[cfg(test)]
mod tests;

pub use accounting::{RenyiCurve, Spent, SquaredMu, least_multiplier};
pub use error::PrivacyError;
pub use noise::{Mechanism, Sampler, Variance};
pub use servers::{COMPONENTS, ServerNoise, ServerNoiseSpec};
pub use sizes::{Adjacency, Multiplier, Rounding, Sizes, SizesSpec};
