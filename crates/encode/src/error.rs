//! The one error type of this crate.

/// Why a specification, an input or a sum was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A field of the [`EncodingSpec`](crate::EncodingSpec) breaks a rule.
    #[error("{field}: {rule}")]
    Spec {
        /// The field.
        field: &'static str,
        /// The rule, with the numbers that break it.
        rule: String,
    },
    /// An input or output of another length.
    #[error("{got} coordinates, but the encoding has dim = {dim}")]
    Dim {
        /// Coordinates given.
        got: usize,
        /// Coordinates of the encoding.
        dim: usize,
    },
    /// A coordinate that is NaN or infinite.
    #[error("coordinate {index} is not a finite number")]
    NotFinite {
        /// Index of the first such coordinate.
        index: usize,
    },
    /// A vector whose L2 norm cannot be computed.
    #[error("the sum of the squared coordinates must be < 2^1024")]
    Norm,
    /// Vectors of singles and of doubles where both must be of one kind.
    #[error("one vector has single precision and the other double: a job has one precision")]
    Precision,
    /// A weight outside the range of the job.
    #[error("weight = {weight}, but 1 <= weight <= max_weight = {max_weight} must hold")]
    Weight {
        /// The weight given.
        weight: u32,
        /// Largest weight of the encoding.
        max_weight: u32,
    },
    /// An integer that does not fit the encoding's bits. The error does not show it: it belongs in no log.
    #[error("coordinate {index} must be < 2^{bits}")]
    Value {
        /// Index of the first such coordinate.
        index: usize,
        /// Bits of a value.
        bits: u32,
    },
    /// Integers given to an encoding of real numbers, or exact sums asked of one.
    #[error("the values are integers, and this job expects real numbers: use encoding = integers")]
    Integers,
    /// Floating-point numbers for an encoding of integers.
    #[error("the encoding integers takes unsigned integers, not floating-point numbers")]
    Reals,
    /// A tile that does not lie in the vector, or whose lanes are not those of the encoding's width.
    #[error(
        "{len} lanes of {tile_bits} bits from lane {first}, but the vector has {lanes} lanes of {bits} bits"
    )]
    Tile {
        /// First lane asked for.
        first: usize,
        /// Lanes asked for.
        len: usize,
        /// 32 or 64, the lane type given.
        tile_bits: u32,
        /// Lanes of the vector.
        lanes: usize,
        /// 32 or 64, the lane type of the encoding.
        bits: u32,
    },
    /// A sum of other shape than the encoding's vectors.
    #[error(
        "a sum of {got_lanes} words of {got_bits} bits, but the encoding has {lanes} of {bits} bits"
    )]
    SumShape {
        /// Words of the sum.
        got_lanes: usize,
        /// Width of the sum, in bits.
        got_bits: u32,
        /// Words of a vector.
        lanes: usize,
        /// Width of a vector, in bits.
        bits: u32,
    },
    /// A number of survivors that a round cannot have.
    #[error("survivors = {survivors}, but 1 <= survivors <= parties = {parties} must hold")]
    Survivors {
        /// Survivors given.
        survivors: usize,
        /// Largest number of parties.
        parties: usize,
    },
    /// A total weight that no such survivors have.
    #[error(
        "total weight = {total_weight}, but survivors = {survivors} <= total weight <= \
         survivors * max_weight = {largest} must hold"
    )]
    TotalWeight {
        /// The weight word of the sum.
        total_weight: u64,
        /// Number of survivors.
        survivors: usize,
        /// Largest possible total weight.
        largest: u64,
    },
    /// A word of the sum that no honest inputs add up to.
    #[error("word {lane} of the sum is outside the range of total weight {total_weight}")]
    Sum {
        /// Index of the first such word.
        lane: usize,
        /// Total weight of the sum.
        total_weight: u64,
    },
    /// More or fewer metrics than the encoding has.
    #[error("{got} metrics, but the encoding has {metrics}")]
    Metrics {
        /// Metrics given.
        got: usize,
        /// Metrics of the encoding.
        metrics: usize,
    },
    /// A model that would not be finite.
    #[error(
        "version {version} of the model is not finite at coordinate {index}: the model has grown beyond its precision; \
         begin a new job with a smaller clip, learning rate or initial model, or with model_update = replace"
    )]
    Model {
        /// The version of the model.
        version: u64,
        /// Index of the first coordinate that is NaN or infinite.
        index: usize,
    },
    /// A vector of an encoding with noise, without a seed for it.
    #[error(
        "the vectors of this job have noise, and no seed of noise is given: give one for each round"
    )]
    NoiseSeed,
    /// A seed of noise for a vector of an encoding without noise.
    #[error("a seed of noise is given, and the vectors of this job have no noise: give none")]
    NoNoise,
    /// Saved bytes that are damaged, or are of another job.
    #[error("{of}: {rule}")]
    State {
        /// What the bytes were to be, as in "sent coordinates".
        of: &'static str,
        /// The rule that the bytes break.
        rule: String,
    },
}

impl EncodeError {
    pub(crate) fn spec(field: &'static str, rule: impl Into<String>) -> Self {
        Self::Spec {
            field,
            rule: rule.into(),
        }
    }
}
