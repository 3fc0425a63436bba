//! How fast masks are expanded.

use std::hint::black_box;
use std::time::{Duration, Instant};

use blindsum_crypto::mask::{MaskSeed, MaskStream, Sign, aes_rounds_alone, apply_masks, backend};
use blindsum_crypto::secret::Secret;
use blindsum_math::words::TileMut;
use pyo3::prelude::*;

use crate::gil::released;

/// Expands `keys` masks over a vector of `tile_bytes` again and again for so many seconds on this thread, in turns
/// with the rounds of AES alone. Gives the backend, the best rate of keystream, and the best one of the AES unit if it
/// can be measured, both in 10^9 bytes a second.
#[pyfunction]
pub fn mask_rate(
    py: Python<'_>,
    tile_bytes: usize,
    keys: u8,
    seconds: f64,
) -> (&'static str, f64, Option<f64>) {
    let (rate, limit) = released(py, || {
        let stream = |key| MaskStream::new(MaskSeed::from(Secret::from([key; 32])), Sign::Add);
        let streams: Vec<MaskStream> = (0..keys).map(stream).collect();
        let mut lanes = vec![0u32; tile_bytes / 4];
        let bytes = lanes.len() * 4 * streams.len();
        let until = Instant::now() + Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let (mut fastest, mut alone) = (f64::INFINITY, None);
        while Instant::now() < until {
            let begin = Instant::now();
            apply_masks(&streams, 0, TileMut::W32(&mut lanes));
            fastest = fastest.min(begin.elapsed().as_secs_f64());
            let begin = Instant::now();
            if black_box(aes_rounds_alone(black_box(bytes))).is_some() {
                let taken = begin.elapsed().as_secs_f64();
                alone = Some(alone.map_or(taken, |least: f64| least.min(taken)));
            }
        }
        let rate = |seconds: f64| bytes as f64 / seconds / 1e9;
        (rate(fastest), alone.map(rate))
    });
    (backend().name(), rate, limit)
}
