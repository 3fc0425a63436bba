//! The blocks of a vector that are shared at a time.

/// Blocks that are worked on at a time: their words and random elements stay in the second-level cache.
/// Part of the definition of the shares, because the random elements are drawn tile by tile.
pub const TILE_BLOCKS: usize = 256;

/// A tile of blocks on its way into shares.
pub(super) struct TileOfBlocks<'a> {
    /// Words e of the blocks at `words[e * TILE_BLOCKS..]`.
    pub words: &'a [u64],
    /// First block of the tile.
    pub first: usize,
    /// Blocks in the tile, at most [`TILE_BLOCKS`].
    pub len: usize,
    /// Region of the stream for this tile and field.
    pub region: u64,
}
