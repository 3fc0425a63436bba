//! How a job bounds the L2 norm of vectors.

/// How the L2 norm of a vector is bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum NormRule {
    /// It is not.
    Free,
    /// The clip is the bound, before rounding.
    Clip,
    /// This is the bound of what is sent, after rounding.
    Sent(f64),
}
