//! The one error type of this crate.

/// Why noise, sizes or a target were refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PrivacyError {
    /// A number out of its range.
    #[error("{name} = {value}, but {rule} must hold")]
    Range {
        /// Which number.
        name: &'static str,
        /// Its value.
        value: u64,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// A real number out of its range.
    #[error("{name} = {value:e}, but {rule} must hold")]
    Real {
        /// Which number.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// Skellam noise that would be drawn in too many parts.
    #[error(
        "variance of a share = {numerator}/{denominator} <= 2^20 must hold for skellam: use fewer bits, or \
         discrete-gaussian"
    )]
    SkellamVariance {
        /// a, of a / b.
        numerator: u64,
        /// b.
        denominator: u64,
    },
    /// No party, or more than take part, that gives noise and keeps it secret.
    #[error(
        "min_parties - ceil(corrupt * parties) = m = {honest}, but 1 <= m <= parties = {parties} must hold: noise is \
         that of honest survivors; use a larger min_parties"
    )]
    Honest {
        /// m.
        honest: usize,
        /// n.
        parties: usize,
    },
    /// Steps that are too coarse for the norm.
    #[error("rounding lifts the norm by {growth:.3} > 1.1: {advice}")]
    Growth {
        /// √T / M.
        growth: f64,
        /// The number of bits that would do.
        advice: String,
    },
    /// A bound of squares that has too many bits.
    #[error("the sum of squares T < 2^62 must hold, and bits = {bits}: use fewer bits")]
    Norm {
        /// q.
        bits: u32,
    },
    /// Steps that are too coarse for shares of noise.
    #[error(
        "{needed} = v = {variance:.1} >= {least} must hold, and m = {honest}: steps are too coarse for shares of noise; \
         use more bits"
    )]
    SmallVariance {
        /// v.
        variance: f64,
        /// The least that it may be.
        least: u64,
        /// m.
        honest: usize,
        /// The formula of v.
        needed: &'static str,
    },
    /// Steps that are too coarse for the noise of servers.
    #[error(
        "z^2 T + 8 = v = {variance:.1} >= 16 must hold for the noise of a component: steps are too coarse; use more bits, \
         or a larger noise_multiplier"
    )]
    CoarseSteps {
        /// v.
        variance: f64,
    },
    /// Noise of servers in so many coordinates, and so wide, that its steps move the sum too far.
    #[error(
        "noise of servers in dim = {dim} coordinates is drawn in steps that lift the norm by more than a tenth: \
         noise_multiplier * sqrt(dim) < 2^15 is enough; use fewer rounds, a larger epsilon or a smaller noise_multiplier"
    )]
    StepsGrow {
        /// D.
        dim: usize,
    },
    /// A δ that is too small for what may fail in so many releases.
    #[error(
        "delta = {delta:e} is too small for {releases} releases: releases * 2^-44 < delta must hold, as in one of 2^44 \
         rounds a vector that is short enough may be taken for one that is too long"
    )]
    Failures {
        /// δ.
        delta: f64,
        /// Releases.
        releases: u64,
    },
    /// Noise that is too wide for the sampler.
    #[error("variance of a share v = {variance:e} <= 2^40 must hold: use fewer bits")]
    LargeVariance {
        /// v.
        variance: f64,
    },
    /// Noise of so few parties that it hides nobody.
    #[error(
        "this job's noise hides nobody: variance of the noise of {honest} honest parties is at most 8"
    )]
    Hides {
        /// Parties whose noise is counted.
        honest: usize,
    },
    /// A target that no noise reaches.
    #[error(
        "epsilon = {epsilon} cannot be reached with {releases} releases: noise_multiplier <= 2^10; use fewer rounds or a \
         larger epsilon"
    )]
    Target {
        /// The target.
        epsilon: f64,
        /// Releases.
        releases: u64,
    },
    /// A δ that is too small for so many numbers of noise.
    #[error(
        "delta = {delta:e} is too small for {draws:e} draws: releases * parties * dim * 2^-116 <= 2^-20 * delta must hold"
    )]
    Draws {
        /// δ.
        delta: f64,
        /// Numbers of noise in all releases.
        draws: f64,
    },
}

impl PrivacyError {
    /// The field of a job that an error is about.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Range { name, .. } | Self::Real { name, .. } => name,
            Self::Honest { .. } | Self::Hides { .. } | Self::StepsGrow { .. } => "privacy",
            Self::Target { .. } => "epsilon",
            Self::Draws { .. } | Self::Failures { .. } => "delta",
            Self::Growth { .. }
            | Self::Norm { .. }
            | Self::SmallVariance { .. }
            | Self::CoarseSteps { .. }
            | Self::LargeVariance { .. }
            | Self::SkellamVariance { .. } => "bits",
        }
    }

    pub(crate) fn range(name: &'static str, value: u64, rule: &'static str) -> Self {
        Self::Range { name, value, rule }
    }
}
