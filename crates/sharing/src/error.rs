//! The one error type of this crate.

/// Why a sharing, a share or a set of shares was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SharingError {
    /// With such a threshold no set of holders, or every set, could rebuild the secret.
    #[error("threshold: t = {threshold}, n = {holders} holders, but 1 <= t <= n must hold")]
    Threshold {
        /// The threshold t.
        threshold: usize,
        /// The number n of holders.
        holders: usize,
    },
    /// The share at point 0 would be the secret itself.
    #[error("point: x = 0, but x >= 1 must hold")]
    ZeroPoint,
    /// A rank with no point of its own.
    #[error("point: x = rank + 1, rank = {rank}, but x < 2^32 must hold")]
    Rank {
        /// The rank in the roster.
        rank: u32,
    },
    /// Two holders at the same point, who would have the same share.
    #[error("point: x = {point} is given twice, but points must be distinct")]
    DuplicatePoint {
        /// The repeated point.
        point: u32,
    },
    /// Too few shares to rebuild a secret.
    #[error("shares: m = {got}, but m >= t = {threshold} must hold")]
    TooFewShares {
        /// Shares, or points of their holders, given.
        got: usize,
        /// The threshold t.
        threshold: usize,
    },
    /// Shares that cannot be matched to the points they belong to.
    #[error("shares: m = {got}, but exactly one for each of {points} points is needed")]
    ShareCount {
        /// Shares given.
        got: usize,
        /// Points they were to belong to.
        points: usize,
    },
    /// Bytes of the wrong length.
    #[error("share: {got} bytes, but it takes exactly {need}")]
    ShareLength {
        /// Bytes given.
        got: usize,
        /// Bytes of an encoded share.
        need: usize,
    },
    /// An encoded share with an element that is not reduced.
    #[error("share: element {element} is not canonical, but value < 2^61 - 1 must hold")]
    NonCanonical {
        /// Index of the field element in the share.
        element: usize,
    },
    /// The shares rebuild something that is no 32-byte secret.
    #[error("shares: they reconstruct limbs out of range, but shares of one secret must be given")]
    NotASecret,
    /// More shares are wrong than can be corrected.
    #[error("shares: of m = {got}, t = {threshold}, more than (m - t)/2 = {correctable} are wrong")]
    Undecodable {
        /// The number m of shares.
        got: usize,
        /// The threshold t.
        threshold: usize,
        /// ⌊(m − t)/2⌋.
        correctable: usize,
    },
    /// There are more parties than a field here has points.
    #[error("parties: n = {parties} <= {most}, the evaluation points of the fields")]
    Points {
        /// Parties n.
        parties: usize,
        /// The most that there are points for.
        most: usize,
    },
    /// Sums too large for every field here.
    #[error("sum: the largest sum must stay below 2^94")]
    SumTooLarge,
    /// Columns that are not one for each party, or not of the right length.
    #[error(
        "share vectors: one for each of n = {parties} parties, of {need} bytes where it is wanted, must be given"
    )]
    Columns {
        /// Parties n.
        parties: usize,
        /// Bytes of a column.
        need: usize,
    },
    /// A packed column of the wrong length.
    #[error("share vector: {got} bytes, but it must have {need}")]
    ColumnLength {
        /// Bytes given.
        got: usize,
        /// Bytes of a column.
        need: usize,
    },
    /// A column with an element that is not reduced.
    #[error("share vector: an element is not canonical, but value < p must hold")]
    ColumnElement,
    /// Holders that are not at least k different parties, or columns that are not one for each holder.
    #[error(
        "holders: k = {threshold} or more different ranks below n = {parties}, with a share vector each, must \
         be given"
    )]
    Holders {
        /// Shares k that rebuild a sum.
        threshold: usize,
        /// Parties n.
        parties: usize,
    },
    /// A sum with another number of words than the vectors.
    #[error("sum: {got} words, but the vectors have {need}")]
    Words {
        /// Words given.
        got: usize,
        /// Words of a vector.
        need: usize,
    },
}
