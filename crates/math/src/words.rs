//! Vectors of words modulo 2^b, and the borrowed pieces (tiles) of them that kernels work on.

/// A contiguous run of lanes to read.
///
/// Lanes of words up to 32 bits wide are `u32`, wider ones `u64`; a lane may hold junk above bit b.
#[derive(Clone, Copy)]
pub enum Tile<'a> {
    /// Lanes of a vector at most 32 bits wide.
    W32(&'a [u32]),
    /// Lanes of a vector 33 to 64 bits wide.
    W64(&'a [u64]),
}

/// A contiguous run of lanes to change in place; see [`Tile`].
pub enum TileMut<'a> {
    /// Lanes of a vector at most 32 bits wide.
    W32(&'a mut [u32]),
    /// Lanes of a vector 33 to 64 bits wide.
    W64(&'a mut [u64]),
}
