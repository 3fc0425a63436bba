//! The place of words in a polynomial.

/// Where in the polynomial the words sit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embedding {
    /// Words are the first l coefficients, random elements the other r (FSSA §VII).
    Coefficients,
    /// Words are the values at ω^bitrev(e), e < l, and random elements those at l ≤ e < k, with ω of order
    /// 2^⌈log2 k⌉ (PSS §IV). Products of shares are shares of products then.
    Evaluations,
}
