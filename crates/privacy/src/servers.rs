//! Sizes of noise that servers add to a sum of vectors, in whole numbers.
//!
//! Each of three components of the sum gets noise of its own, in steps of 2^k: a discrete Gaussian number of steps, and
//! behind it k bits that are drawn evenly. One server knows two components, so that of the third one is all that hides a
//! vector from it. Who works with no server sees the noise of all three.
//!
//! With the even bits of a component fixed, what lies behind the last step of the sum is known and the sum is rounded to a
//! step, up or down, as a function of these bits and of the sum alone. So two sums that differ by a norm of S differ by S +
//! 2^k √D after it, in whole steps, and the even bits tell nothing. What is left is a discrete Gaussian on whole numbers.

use crate::sizes::{STEP, VARIANCE_UNITS, root, squared_mu, variance_units};
use crate::{Adjacency, Multiplier, PrivacyError, Variance};

/// Components of a sum: one for each pair of servers.
pub const COMPONENTS: usize = 3;

/// The numbers that the noise of servers follows from; [`ServerNoiseSpec::validate`] makes [`ServerNoise`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerNoiseSpec {
    /// D: coordinates of a vector.
    pub dim: usize,
    /// S: in units of the sum, no vector moves it by a larger norm.
    pub sensitivity: u64,
    /// Which two jobs must not be told apart.
    pub adjacency: Adjacency,
    /// z: the standard deviation of one component by the sensitivity.
    pub multiplier: Multiplier,
}

/// Noise that servers add to each component of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerNoise {
    spec: ServerNoiseSpec,
    /// k.
    shift: u32,
    /// T, in steps².
    squared_norm: u64,
    /// 1024 · v.
    variance_units: u64,
}

/// Bits of the largest number of steps of a sensitivity: v ≤ 2^40 and z ≥ 2^-6 leave it 26.
const MAX_NORM_BITS: u32 = 26;

impl ServerNoiseSpec {
    /// Checks every rule and computes the sizes, with the finest steps of which the sampler can draw as many as are needed.
    ///
    /// # Errors
    /// * [`PrivacyError::Range`]: 1 <= dim <= 2^32, 1 <= sensitivity <= 2^58;
    /// * [`PrivacyError::CoarseSteps`]: the variance of a component is below 16 steps²;
    /// * [`PrivacyError::StepsGrow`]: steps that can be drawn lift the sensitivity by more than a tenth.
    pub fn validate(self) -> Result<ServerNoise, PrivacyError> {
        let Self {
            dim, sensitivity, ..
        } = self;
        if !(1..=1 << 32).contains(&dim) {
            return Err(PrivacyError::range("dim", dim as u64, "1 <= dim <= 2^32"));
        }
        if !(1..=1 << 58).contains(&sensitivity) {
            let rule = "1 <= sensitivity <= 2^58";
            return Err(PrivacyError::range("bits", sensitivity, rule));
        }
        let noise = (0..=u64::BITS - 1).find_map(|shift| self.with_steps(shift));
        let noise = noise.ok_or(PrivacyError::StepsGrow { dim })?;
        // guard: noise-of-servers-has-fine-steps
        if noise.variance_units < 2 * STEP * VARIANCE_UNITS {
            return Err(PrivacyError::CoarseSteps {
                variance: noise.variance_units as f64 / VARIANCE_UNITS as f64,
            });
        }
        // guard: steps-lift-the-sensitivity-by-a-tenth-at-most
        if noise.step_growth() > 1.1 {
            return Err(PrivacyError::StepsGrow { dim });
        }
        Ok(noise)
    }

    /// What vectors may differ by.
    fn moved(self) -> u128 {
        self.adjacency.factor() * u128::from(self.sensitivity)
    }

    /// With steps of 2^shift; none if the sampler cannot draw so many.
    fn with_steps(self, shift: u32) -> Option<ServerNoise> {
        let norm = match shift {
            0 => self.moved(),
            // guard: rounding-to-steps-is-counted
            _ => self.moved().div_ceil(1 << shift) + root(self.dim as u128),
        };
        let squared_norm = (norm < 1 << (MAX_NORM_BITS + 1)).then(|| norm * norm)?;
        let units = variance_units(self.multiplier, squared_norm, STEP, 1);
        let variance_units = u64::try_from(units).ok()?;
        Variance::new(variance_units, VARIANCE_UNITS).ok()?;
        Some(ServerNoise {
            spec: self,
            shift,
            squared_norm: squared_norm as u64,
            variance_units,
        })
    }
}

impl ServerNoise {
    /// The numbers that the sizes follow from.
    pub fn spec(&self) -> ServerNoiseSpec {
        self.spec
    }

    /// k: a step is 2^k.
    pub fn shift(&self) -> u32 {
        self.shift
    }

    /// v: the variance of one component, in steps².
    pub fn variance(&self) -> Variance {
        Variance::of_units(self.variance_units)
    }

    /// T: the square of the largest norm that a sum of whole steps moves by, where two jobs must not be told apart.
    pub fn squared_norm(&self) -> u64 {
        self.squared_norm
    }

    /// By what factor steps lift the sensitivity.
    pub fn step_growth(&self) -> f64 {
        let steps = (self.squared_norm as f64).sqrt() * (1_u64 << self.shift) as f64;
        steps / self.spec.moved() as f64
    }

    /// The standard deviation of the noise of a number of the sum, of all three components, in units of the sum. In each
    /// component `even` bits besides are drawn evenly.
    pub fn deviation(&self, even: u32) -> f64 {
        let evenly = |bits: u32| (f64::powi(4.0, bits as i32) - 1.0) / 12.0;
        let steps = self.variance_units as f64 / VARIANCE_UNITS as f64;
        let one = steps * f64::powi(4.0, self.shift as i32) + evenly(self.shift) + evenly(even);
        (COMPONENTS as f64 * one).sqrt()
    }

    /// 2^64 times T / (components · v − 8), rounded up: the squared μ of one release for who does not know the noise of so many
    /// components, at least 1.
    pub(crate) fn squared_mu(&self, components: usize) -> Option<u128> {
        let units = components as u128 * u128::from(self.variance_units);
        // guard: eight-of-a-component-is-not-counted
        squared_mu(
            self.squared_norm.into(),
            units.checked_sub(u128::from(STEP * VARIANCE_UNITS))?,
        )
    }
}

#[cfg(test)]
#[path = "tests/servers.rs"]
mod tests;
