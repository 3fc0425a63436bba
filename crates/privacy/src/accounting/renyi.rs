//! Accounting by Rényi divergences at fixed orders: looser than the exact formula for Gaussian noise, and the only bound for
//! Skellam noise in many dimensions.

use crate::noise::Mechanism;
use crate::{PrivacyError, Sizes, SquaredMu};

/// Orders: 1.1 to 10.9 in steps of a tenth, 11 to 63, and four more.
const TENTHS: usize = 99;
const WHOLE: usize = 53;
const LARGE: [f64; 4] = [128.0, 256.0, 512.0, 1024.0];
/// How many.
pub const ORDERS: usize = TENTHS + WHOLE + LARGE.len();

/// Each term is rounded up by this factor.
const UP: f64 = 1.0 + 1.0 / (1_u64 << 45) as f64;

/// The orders α of a [`RenyiCurve`].
pub fn orders() -> [f64; ORDERS] {
    std::array::from_fn(|i| match i {
        0..TENTHS => 1.0 + (i + 1) as f64 / 10.0,
        TENTHS..152 => (i - TENTHS + 11) as f64,
        _ => LARGE[i - TENTHS - WHOLE],
    })
}

/// Rényi divergences of some releases at [`orders`], not below.
#[derive(Clone, Debug, PartialEq)]
pub struct RenyiCurve(pub(super) [f64; ORDERS]);

impl Default for RenyiCurve {
    fn default() -> Self {
        Self([0.0; ORDERS])
    }
}

impl RenyiCurve {
    /// Of Gaussian mechanisms: α·μ²/2 (Mironov 2017).
    pub fn of_gaussian(squared: SquaredMu) -> Self {
        let squared = squared.units() as f64 / f64::powi(2.0, 64);
        Self(orders().map(|order| order * squared / 2.0 * UP))
    }

    /// One release of a job if only the noise of `honest` parties is sure. For Skellam noise of variance V
    /// by Agarwal, Kairouz and Liu 2021, for whole α: αS₂²/2V + min(((2α − 1)S₂² + 6S₁)/4V², 3S₁/2V), where S₁ = min(√D·S₂, S₂²).
    ///
    /// # Errors
    /// [`PrivacyError::Hides`] if that noise hides nobody.
    pub fn of_sizes(sizes: &Sizes, honest: usize) -> Result<Self, PrivacyError> {
        if sizes.spec().mechanism == Mechanism::DiscreteGaussian {
            return Ok(Self::of_gaussian(SquaredMu::of_sizes(sizes, honest)?));
        }
        let (sensitivity, variance) = sizes.sensitivity_and_variance(honest);
        if variance == 0 {
            return Err(PrivacyError::Hides { honest });
        }
        // Units of 2^-10; all of it is far below 2^128.
        let (squared, variance) = (sensitivity as f64, variance as f64 / 1024.0);
        let root = (sizes.spec().dim.isqrt() + 1) as f64;
        let sum = (root * squared.sqrt()).min(squared);
        Ok(Self(orders().map(|order| {
            // guard: skellam-has-whole-orders
            if order.fract() != 0.0 {
                return f64::INFINITY;
            }
            let by_square =
                ((2.0 * order - 1.0) * squared + 6.0 * sum) / (4.0 * variance * variance);
            let more = by_square.min(3.0 * sum / (2.0 * variance));
            (order * squared / (2.0 * variance) + more) * UP
        })))
    }

    /// The divergences, in the order of [`orders`].
    pub fn values(&self) -> &[f64; ORDERS] {
        &self.0
    }

    /// The releases of both.
    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|i| (self.0[i] + other.0[i]).next_up()))
    }

    /// So many times these releases.
    pub fn times(&self, releases: u64) -> Self {
        Self(self.0.map(|value| value * releases as f64 * UP))
    }

    /// The least ε for δ over all orders, not below: r + ln(1 − 1/α) − ln(δα)/(α − 1) (Canonne, Kamath and Steinke 2020,
    /// proposition 12).
    ///
    /// # Errors
    /// [`PrivacyError::Real`] unless 10^-30 <= δ <= 10^-2.
    pub fn epsilon(&self, delta: f64) -> Result<f64, PrivacyError> {
        super::check_delta(delta)?;
        let of_order = |(order, &divergence): (f64, &f64)| {
            let gained = (-1.0 / order).ln_1p();
            let spent = -(delta * order).ln() / (order - 1.0);
            let slack = (divergence + spent.abs() - gained) * (UP - 1.0);
            (divergence + gained + spent + slack).max(0.0)
        };
        let all = orders().into_iter().zip(&self.0).map(of_order);
        Ok(all.fold(f64::INFINITY, f64::min))
    }
}
