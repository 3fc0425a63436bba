//! What releases of several jobs cost together, whatever their noise.

use super::{ORDERS, RenyiCurve, SquaredMu};
use crate::noise::Mechanism;
use crate::{PrivacyError, ServerNoise, Sizes};

/// What some releases cost: μ² of those with Gaussian noise, and Rényi divergences of those with Skellam noise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    squared: SquaredMu,
    /// None where no release has Skellam noise: then ε is exact.
    curve: Option<RenyiCurve>,
}

impl Spent {
    /// One release of a job if only the noise of `honest` parties is sure.
    ///
    /// # Errors
    /// [`PrivacyError::Hides`] if that noise hides nobody.
    pub fn of_sizes(sizes: &Sizes, honest: usize) -> Result<Self, PrivacyError> {
        Ok(match sizes.spec().mechanism {
            Mechanism::DiscreteGaussian => Self {
                squared: SquaredMu::of_sizes(sizes, honest)?,
                curve: None,
            },
            Mechanism::Skellam => Self {
                squared: SquaredMu::default(),
                curve: Some(RenyiCurve::of_sizes(sizes, honest)?),
            },
        })
    }

    /// One release of a job whose servers add noise, for who lacks one component of it.
    ///
    /// # Errors
    /// [`PrivacyError::Hides`] if that noise hides nobody.
    pub fn of_servers(noise: &ServerNoise) -> Result<Self, PrivacyError> {
        Ok(Self {
            squared: SquaredMu::of_servers(noise, 1)?,
            curve: None,
        })
    }

    /// What was written down as [`squared`](Self::squared) and [`curve`](Self::curve); none for numbers that are no divergences.
    pub fn of_parts(squared: SquaredMu, curve: &[f64]) -> Option<Self> {
        let curve = match curve {
            [] => None,
            curve => Some(RenyiCurve::of_values(curve.try_into().ok()?)?),
        };
        Some(Self { squared, curve })
    }

    /// μ² of the releases with Gaussian noise.
    pub fn squared(&self) -> SquaredMu {
        self.squared
    }

    /// The Rényi divergences of the releases with Skellam noise; empty if there is none.
    pub fn curve(&self) -> &[f64] {
        self.curve.as_ref().map_or(&[], |curve| &curve.values()[..])
    }

    /// The releases of both.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            squared: self.squared.plus(other.squared),
            curve: match (&self.curve, &other.curve) {
                (Some(one), Some(other)) => Some(one.plus(other)),
                (one, other) => one.as_ref().or(other.as_ref()).cloned(),
            },
        }
    }

    /// The ε for δ, not below.
    ///
    /// # Errors
    /// [`PrivacyError::Real`] unless 10^-30 <= δ <= 10^-2.
    pub fn epsilon(&self, delta: f64) -> Result<f64, PrivacyError> {
        match &self.curve {
            None => self.squared.epsilon(delta),
            // guard: both-kinds-of-noise-are-counted
            Some(curve) => RenyiCurve::of_gaussian(self.squared)
                .plus(curve)
                .epsilon(delta),
        }
    }
}

impl RenyiCurve {
    /// Divergences that were written down, in the order of [`orders`](super::orders); none for numbers below 0 or that are none.
    pub fn of_values(values: [f64; ORDERS]) -> Option<Self> {
        values
            .iter()
            .all(|value| *value >= 0.0)
            .then_some(Self(values))
    }
}
