//! Sizes of a job's noise, in whole numbers: every party derives the same ones.

use crypto_bigint::{NonZero, U256};

use crate::PrivacyError;
use crate::noise::{Mechanism, Variance};

/// How a scaled coordinate becomes a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Up with a probability equal to the fraction, down otherwise.
    Stochastic,
    /// To the nearest whole number.
    Nearest,
}

/// Which two jobs must not be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adjacency {
    /// One party's vector is another one or 0. The party takes part in both.
    ZeroOut,
    /// One party's vector is any other one: twice as far from it.
    Replace,
}

impl Adjacency {
    /// The factor k of the sensitivity.
    pub(crate) fn factor(self) -> u128 {
        match self {
            Self::ZeroOut => 1,
            Self::Replace => 2,
        }
    }

    /// k²: the factor of squared sensitivities.
    pub(crate) fn squared_factor(self) -> u128 {
        self.factor().pow(2)
    }
}

/// A noise multiplier z: the standard deviation of the noise of all honest survivors by the sensitivity. A multiple of
/// 2^-16 from 2^-6 to 2^10.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Multiplier(u32);

impl Multiplier {
    /// The least, 2^-6.
    pub const MIN: Self = Self(1 << 10);
    /// The largest, 2^10.
    pub const MAX: Self = Self(1 << 26);
    /// 2^16.
    const UNITS: f64 = 65536.0;

    /// z = `units` / 2^16.
    ///
    /// # Errors
    /// [`PrivacyError::Range`] unless 2^10 <= units <= 2^26.
    pub fn of_units(units: u32) -> Result<Self, PrivacyError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&units) {
            return Ok(Self(units));
        }
        let rule = "2^-6 <= noise_multiplier <= 2^10";
        Err(PrivacyError::range(
            "noise_multiplier * 2^16",
            units.into(),
            rule,
        ))
    }

    /// The least multiple of 2^-16 that is not below `z`.
    ///
    /// # Errors
    /// [`PrivacyError::Real`] unless 2^-6 <= z <= 2^10.
    pub fn at_least(z: f64) -> Result<Self, PrivacyError> {
        let (least, most) = (f64::powi(2.0, -6), f64::powi(2.0, 10));
        if (least..=most).contains(&z) {
            // The product is exact.
            return Ok(Self((z * Self::UNITS).ceil() as u32));
        }
        let rule = "2^-6 <= noise_multiplier <= 2^10";
        let name = "noise_multiplier";
        Err(PrivacyError::Real {
            name,
            value: z,
            rule,
        })
    }

    /// Z, of z = Z / 2^16.
    pub fn units(self) -> u32 {
        self.0
    }

    /// z, exactly.
    pub fn value(self) -> f64 {
        f64::from(self.0) / Self::UNITS
    }
}

/// The numbers that sizes follow from; [`SizesSpec::validate`] makes [`Sizes`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizesSpec {
    /// n: the largest number of parties in a sum.
    pub parties: usize,
    /// D: coordinates of a vector.
    pub dim: usize,
    /// m: parties that give noise in every sum and keep it secret, `min_parties` less corrupt ones.
    pub honest: usize,
    /// q: bits of a coordinate, 2 to 32.
    pub bits: u32,
    /// How coordinates are rounded.
    pub rounding: Rounding,
    /// The distribution of noise.
    pub mechanism: Mechanism,
    /// Which two jobs must not be told apart.
    pub adjacency: Adjacency,
    /// z.
    pub multiplier: Multiplier,
}

/// Sizes of a job with noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    spec: SizesSpec,
    largest: u64,
    squared_norm: u64,
    /// 1024 · v.
    variance_units: u64,
    reach: u64,
    limit: u64,
    width: u32,
}

/// ⌊√n⌋ + 1 ≥ √n.
pub(crate) fn root(n: u128) -> u128 {
    n.isqrt() + 1
}

/// 1024·v for the least v with z²T = shares · v − step. T is below 2^64.
pub(crate) fn variance_units(
    multiplier: Multiplier,
    squared_norm: u128,
    step: u64,
    shares: u128,
) -> u128 {
    let squared_multiplier = u128::from(multiplier.units()).pow(2);
    // Below 2^(2·26 + 64 + 10), and 2^45 more.
    let of_all = (squared_multiplier * squared_norm + (u128::from(step) << SQUARED_UNITS_BITS))
        * u128::from(VARIANCE_UNITS);
    of_all.div_ceil(shares << SQUARED_UNITS_BITS)
}

/// 2^64 times T / hidden, rounded up, where `hidden` is a variance in 2^-10 that is counted; none if it is 0 or the number too
/// large. T is below 2^64.
pub(crate) fn squared_mu(squared_norm: u128, hidden: u128) -> Option<u128> {
    let numerator = U256::from_u128(squared_norm * u128::from(VARIANCE_UNITS)).shl_vartime(64);
    let (whole, rest) =
        numerator.div_rem_vartime(&NonZero::new(U256::from_u128(hidden)).into_option()?);
    let words = whole.to_words();
    let up = u128::from(rest != U256::ZERO);
    let value = u128::from(words[1]) << 64 | u128::from(words[0]);
    if words[2..] != [0, 0] {
        return None;
    }
    value.checked_add(up)
}

/// Units of a variance.
pub(crate) const VARIANCE_UNITS: u64 = 1 << 10;
/// 2^40.
const MAX_VARIANCE_UNITS: u64 = VARIANCE_UNITS << 40;
/// Variance of the honest noise that the proof does not count: it makes whole numbers of continuous noise.
pub(crate) const STEP: u64 = 8;
/// 2^16 squared: units of a squared multiplier.
const SQUARED_UNITS_BITS: u32 = 32;

impl SizesSpec {
    /// Checks every rule and computes the sizes.
    ///
    /// # Errors
    /// * [`PrivacyError::Range`]: 1 <= parties <= 2^32, 1 <= dim <= 2^32, 2 <= bits <= 32;
    /// * [`PrivacyError::Honest`]: 1 <= honest <= parties;
    /// * [`PrivacyError::Growth`]: rounding lifts the norm by more than a tenth;
    /// * [`PrivacyError::Norm`]: T is 2^62 or more;
    /// * [`PrivacyError::SmallVariance`]: the variance of a share is below 16 (1 for Skellam): steps are too coarse;
    /// * [`PrivacyError::LargeVariance`]: it is above 2^40, [`PrivacyError::SkellamVariance`]: above 2^20 for Skellam.
    pub fn validate(self) -> Result<Sizes, PrivacyError> {
        for (name, value, rule) in [
            ("parties", self.parties, "1 <= parties <= 2^32"),
            ("dim", self.dim, "1 <= dim <= 2^32"),
        ] {
            if !(1..=1 << 32).contains(&value) {
                return Err(PrivacyError::range(name, value as u64, rule));
            }
        }
        if !(2..=32).contains(&self.bits) {
            let rule = "2 <= bits <= 32";
            return Err(PrivacyError::range("bits", self.bits.into(), rule));
        }
        // guard: somebody-honest-gives-noise
        if !(1..=self.parties).contains(&self.honest) {
            let (honest, parties) = (self.honest, self.parties);
            return Err(PrivacyError::Honest { honest, parties });
        }
        let squared_norm = self.squared_norm()?;
        let variance_units = self.variance(squared_norm)?;
        let (reach, limit, width) = self.width(variance_units);
        Ok(Sizes {
            spec: self,
            largest: self.largest() as u64,
            squared_norm,
            variance_units,
            reach,
            limit,
            width,
        })
    }

    /// M = 2^(q−1) − 1.
    fn largest(self) -> u128 {
        (1 << (self.bits - 1)) - 1
    }

    /// T for `bits`: with stochastic rounding longer in one of 2^40 cases, and never with rounding to nearest.
    fn bound_of(self) -> u128 {
        let (largest, dim) = (self.largest(), self.dim as u128);
        let root = root(dim);
        match self.rounding {
            Rounding::Nearest => (largest + root / 2 + 1).pow(2),
            // 15/2 ≥ √(2 ln 2^40).
            Rounding::Stochastic => {
                let likely = largest.pow(2) + dim / 4 + 1 + (15 * (2 * largest + root)).div_ceil(4);
                likely.min((largest + root).pow(2))
            }
        }
    }

    /// Whether rounding lifts the norm by no more than a tenth.
    fn grows_little(self) -> bool {
        100 * self.bound_of() <= 121 * self.largest().pow(2)
    }

    fn squared_norm(self) -> Result<u64, PrivacyError> {
        let bound = self.bound_of();
        // guard: rounding-lifts-a-norm-by-a-tenth-at-most
        if !self.grows_little() {
            let enough = (self.bits..=32).find(|&bits| Self { bits, ..self }.grows_little());
            return Err(PrivacyError::Growth {
                growth: (bound as f64).sqrt() / self.largest() as f64,
                advice: match enough {
                    Some(bits) => format!("bits >= {bits} would do"),
                    None => "dim is too large for any bits".to_string(),
                },
            });
        }
        match u64::try_from(bound) {
            Ok(bound) if bound < 1 << 62 => Ok(bound),
            _ => Err(PrivacyError::Norm { bits: self.bits }),
        }
    }

    /// 1024·v: z²T = m·v − 8, so that the noise of m honest shares is a Gaussian mechanism of multiplier z; without the 8 for
    /// Skellam, whose accounting is of its own.
    fn variance(self, squared_norm: u64) -> Result<u64, PrivacyError> {
        // guard: replacing-a-vector-moves-the-sum-twice-as-far
        let sensitivity = self.adjacency.squared_factor() * u128::from(squared_norm);
        let (least, step) = match self.mechanism {
            Mechanism::DiscreteGaussian => (16, STEP),
            Mechanism::Skellam => (1, 0),
        };
        // guard: honest-noise-alone-is-enough
        let honest = self.honest as u128;
        let units = variance_units(self.multiplier, sensitivity, step, honest);
        let variance = units as f64 / VARIANCE_UNITS as f64;
        let (mechanism, honest) = (self.mechanism, self.honest);
        // guard: shares-of-noise-have-fine-steps
        if units < least * u128::from(VARIANCE_UNITS) {
            return Err(PrivacyError::SmallVariance {
                variance,
                least: least as u64,
                honest,
                needed: match mechanism {
                    Mechanism::DiscreteGaussian => "(z^2 T + 8) / m",
                    Mechanism::Skellam => "z^2 T / m",
                },
            });
        }
        let units = u64::try_from(units)
            .ok()
            .filter(|&units| units <= MAX_VARIANCE_UNITS);
        let units = units.ok_or(PrivacyError::LargeVariance { variance })?;
        if mechanism == Mechanism::Skellam {
            Variance::new(units, VARIANCE_UNITS)?.check_skellam()?;
        }
        Ok(units)
    }

    /// How far noise reaches, the largest sum, and the bits of a word: at most 64, since M < 2^31 by T < 2^62, and reach <
    /// 2^41.
    fn width(self, variance_units: u64) -> (u64, u64, u32) {
        // logs ≥ ln(2D · 2^40), and ln 2 < 710/1024.
        let dim_bits = u64::BITS - (self.dim as u64 - 1).leading_zeros();
        let logs = u128::from((710 * (41 + dim_bits)).div_ceil(1024)) + 1;
        let parties = self.parties as u128;
        // Below 2^(1 + 6 + 32 + 50).
        let square = 2 * logs * parties * u128::from(variance_units) / u128::from(VARIANCE_UNITS);
        let heavier = match self.mechanism {
            Mechanism::DiscreteGaussian => 0,
            // Bernstein's bound of a difference of Poisson variables.
            Mechanism::Skellam => 2 * logs,
        };
        let reach = root(square) + heavier;
        // guard: words-hold-sums-with-noise
        let limit = parties * self.largest() + reach;
        let width = u128::BITS - (2 * limit).leading_zeros();
        (reach as u64, limit as u64, width)
    }
}

impl Sizes {
    /// The numbers that the sizes follow from.
    pub fn spec(&self) -> SizesSpec {
        self.spec
    }

    /// M: coordinates without noise are whole numbers from −M to M, and M stands for the clipping bound.
    pub fn largest(&self) -> u64 {
        self.largest
    }

    /// T: no vector without noise has a larger sum of squares.
    pub fn squared_norm(&self) -> u64 {
        self.squared_norm
    }

    /// √T / M: the growth of the sensitivity by rounding.
    pub fn growth(&self) -> f64 {
        (self.squared_norm as f64).sqrt() / self.largest as f64
    }

    /// v: the variance of one share, in steps².
    pub fn variance(&self) -> Variance {
        Variance::of_units(self.variance_units)
    }

    /// How far the noise of all parties reaches, but with a chance of 2^-40 in a round.
    pub fn reach(&self) -> u64 {
        self.reach
    }

    /// The largest size of a sum.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// b: bits of a word.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// 2^64 times k²T / (m·v − 8), rounded up: the squared μ of one release if only `honest` shares of noise are sure; none
    /// if these hide nobody. For [`Mechanism::DiscreteGaussian`].
    pub(crate) fn squared_mu(&self, honest: usize) -> Option<u128> {
        let shares = honest as u128 * u128::from(self.variance_units);
        // guard: eight-of-the-variance-is-not-counted
        let hidden = shares.checked_sub(u128::from(STEP * VARIANCE_UNITS))?;
        let sensitivity = self.spec.adjacency.squared_factor() * u128::from(self.squared_norm);
        squared_mu(sensitivity, hidden)
    }

    /// k²T, and the variance of all noise in 2^-10, for Skellam.
    pub(crate) fn sensitivity_and_variance(&self, honest: usize) -> (u128, u128) {
        let sensitivity = self.spec.adjacency.squared_factor() * u128::from(self.squared_norm);
        (
            sensitivity,
            honest as u128 * u128::from(self.variance_units),
        )
    }
}
