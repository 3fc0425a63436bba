//! Exact accounting of Gaussian mechanisms: many releases are one of μ² = Σ 1/z².

use super::normal::{density, mills, upper_tail};
use crate::{Adjacency, Multiplier, PrivacyError, ServerNoise, Sizes};

/// Relative error of the parts of δ: their own 2^-45, and that of rounding ε/μ.
const SLACK: f64 = 1.0 / (1_u64 << 42) as f64;

/// Halvings of an interval at most: more than the bits of a double.
const STEPS: u32 = 200;

/// μ² of some releases, in units of 2^-64, rounded up. Gaussian mechanisms with noise multipliers z are together
/// one with μ² = Σ 1/z², also if updates depend on earlier results (Dong, Roth and Su 2022).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SquaredMu(u128);

impl SquaredMu {
    /// k²/z² for one release, where z is the multiplier for [`Adjacency::ZeroOut`] and k is 2 for [`Adjacency::Replace`].
    pub fn of_multiplier(multiplier: Multiplier, adjacency: Adjacency) -> Self {
        let squared = u128::from(multiplier.units()).pow(2);
        Self((adjacency.squared_factor() << 96).div_ceil(squared))
    }

    /// One release of a job if only the noise of `honest` parties is sure: k²T / (honest · v − 8).
    ///
    /// # Errors
    /// [`PrivacyError::Hides`] if that noise hides nobody.
    pub fn of_sizes(sizes: &Sizes, honest: usize) -> Result<Self, PrivacyError> {
        let squared = sizes.squared_mu(honest);
        squared.map(Self).ok_or(PrivacyError::Hides { honest })
    }

    /// One release of a job whose servers add noise, for who does not know that of `components` components: T / (components ·
    /// v − 8).
    ///
    /// # Errors
    /// [`PrivacyError::Hides`] if that noise hides nobody.
    pub fn of_servers(noise: &ServerNoise, components: usize) -> Result<Self, PrivacyError> {
        let squared = noise.squared_mu(components);
        let honest = components;
        squared.map(Self).ok_or(PrivacyError::Hides { honest })
    }

    /// In units of 2^-64.
    pub fn of_units(units: u128) -> Self {
        Self(units)
    }

    /// In units of 2^-64.
    pub fn units(self) -> u128 {
        self.0
    }

    /// The releases of both. Sums above the largest number are the largest number.
    pub fn plus(self, other: Self) -> Self {
        // guard: releases-add-up
        Self(self.0.saturating_add(other.0))
    }

    /// So many times these releases. Products above the largest number are the largest number.
    pub fn times(self, releases: u64) -> Self {
        Self(self.0.saturating_mul(releases.into()))
    }

    /// μ, not below.
    fn root(self) -> f64 {
        // Each conversion and root is off by less than 2^-52.
        (self.0 as f64).sqrt() / f64::powi(2.0, 32) * (1.0 + f64::EPSILON * 4.0)
    }

    /// δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), not below (Balle and Wang 2018). `epsilon` is at least 0.
    pub fn delta(self, epsilon: f64) -> f64 {
        let mu = self.root();
        if mu == 0.0 {
            return 0.0;
        }
        let (near, far) = (epsilon / mu - mu / 2.0, epsilon / mu + mu / 2.0);
        // e^ε φ(far) = φ(near).
        let (first, second) = (upper_tail(near), density(near) * mills(far));
        // guard: epsilon-is-rounded-up
        (first - second + SLACK * (first + second)).min(1.0)
    }

    /// The ε for δ, not below, and above it by less than 10^-8 of it. Infinite if there is none that is a double.
    ///
    /// # Errors
    /// [`PrivacyError::Real`] unless 10^-30 <= δ <= 10^-2.
    pub fn epsilon(self, delta: f64) -> Result<f64, PrivacyError> {
        super::check_delta(delta)?;
        if self.delta(0.0) <= delta {
            return Ok(0.0);
        }
        let mut high = 1.0;
        while self.delta(high) > delta {
            high *= 2.0;
            if high > f64::MAX / 4.0 {
                return Ok(f64::INFINITY);
            }
        }
        let mut low = 0.0;
        for _ in 0..STEPS {
            let middle = low + (high - low) / 2.0;
            if middle <= low || middle >= high {
                break;
            }
            match self.delta(middle) > delta {
                true => low = middle,
                false => high = middle,
            }
        }
        Ok(high)
    }
}

/// The least multiplier with which so many releases have ε(δ) <= `epsilon`.
///
/// # Errors
/// [`PrivacyError::Real`] unless 0 < epsilon <= 100 and 10^-30 <= delta <= 10^-2, [`PrivacyError::Range`] unless there is a
/// release, and [`PrivacyError::Target`] if no multiplier reaches that.
pub fn least_multiplier(
    epsilon: f64,
    delta: f64,
    releases: u64,
    adjacency: Adjacency,
) -> Result<Multiplier, PrivacyError> {
    if !(epsilon > 0.0 && epsilon <= 100.0) {
        let rule = "0 < epsilon <= 100";
        let (name, value) = ("epsilon", epsilon);
        return Err(PrivacyError::Real { name, value, rule });
    }
    if releases == 0 {
        let rule = "1 <= releases";
        return Err(PrivacyError::range("releases", 0, rule));
    }
    let reached = |units: u32| {
        let multiplier = Multiplier::of_units(units)?;
        let squared = SquaredMu::of_multiplier(multiplier, adjacency).times(releases);
        Ok::<_, PrivacyError>(squared.epsilon(delta)? <= epsilon)
    };
    let (mut low, mut high) = (Multiplier::MIN.units(), Multiplier::MAX.units());
    if !reached(high)? {
        return Err(PrivacyError::Target { epsilon, releases });
    }
    while low < high {
        let middle = low + (high - low) / 2;
        match reached(middle)? {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    Multiplier::of_units(high)
}
