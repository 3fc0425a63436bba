//! The place of a block's words in its polynomial.

/// Where in the polynomial the words sit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Embedding {
    /// Words are the first l coefficients, random elements the other r (FSSA §VII).
    Coefficients,
    /// Words are the values at ω^bitrev(e), e < l, and random elements those at l ≤ e < k, with ω of order 2^⌈log2 k⌉
    /// (PSS §IV). With this embedding, products of shares are shares of products.
    Evaluations,
}
