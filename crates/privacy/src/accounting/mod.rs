//! ε for δ of some releases. Every ε is an upper bound, also in rounding.

mod gaussian;
mod normal;
mod renyi;
mod spent;

pub use gaussian::{SquaredMu, least_multiplier};
pub use renyi::{ORDERS, RenyiCurve, orders};
pub use spent::Spent;

use crate::PrivacyError;

/// −log2 of the total variation between a drawn number and its distribution, at least.
const DRAW_ERROR_BITS: i32 = 116;
/// −log2 of the part of δ that all of these may take together.
const ERROR_SHARE_BITS: i32 = 20;

/// Refuses a δ out of its range, from 10^-30 to 10^-2.
fn check_delta(delta: f64) -> Result<(), PrivacyError> {
    if (1e-30..=1e-2).contains(&delta) {
        return Ok(());
    }
    let (name, value, rule) = ("delta", delta, "1e-30 <= delta <= 0.01");
    Err(PrivacyError::Real { name, value, rule })
}

/// Checks that δ hides how far the draws of so many releases are off: releases · parties · dim · 2^-116 <= 2^-20 · δ.
///
/// # Errors
/// [`PrivacyError::Real`] unless 10^-30 <= δ <= 10^-2, and [`PrivacyError::Draws`].
pub fn check_draws(
    delta: f64,
    releases: u64,
    parties: usize,
    dim: usize,
) -> Result<(), PrivacyError> {
    check_delta(delta)?;
    let draws = releases as f64 * parties as f64 * dim as f64;
    // guard: draws-are-off-by-less-than-delta
    if draws * f64::powi(2.0, ERROR_SHARE_BITS - DRAW_ERROR_BITS) <= delta {
        return Ok(());
    }
    Err(PrivacyError::Draws { delta, draws })
}
