//! How fast masks are expanded, for `blindsum bench`.

use std::time::{Duration, Instant};

use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign, apply_masks, backend};
use blindsum_crypto::secret::Secret;
use blindsum_math::words::TileMut;
use pyo3::prelude::*;

use crate::gil::released;

/// Expands `keys` masks over a vector of `tile_bytes` again and again for so many seconds on this thread.
/// Gives the backend and the best rate of keystream, in 10^9 bytes a second.
#[pyfunction]
pub fn mask_rate(py: Python<'_>, tile_bytes: usize, keys: u8, seconds: f64) -> (&'static str, f64) {
    let rate = released(py, || {
        let stream = |key| MaskStream::new(MaskSeed::from(Secret::from([key; 32])), Sign::Add);
        let streams: Vec<MaskStream> = (0..keys).map(stream).collect();
        let mut lanes = vec![0u32; tile_bytes / 4];
        let bytes = (lanes.len() * 4 * streams.len()) as f64;
        let until = Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let mut best = f64::INFINITY;
        while Instant::now() < until {
            let begin = Instant::now();
            apply_masks(&streams, 0, TileMut::W32(&mut lanes));
            best = best.min(begin.elapsed().as_secs_f64());
        }
        bytes / best / 1e9
    });
    (backend().name(), rate)
}
