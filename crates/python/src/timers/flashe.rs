//! How fast FLASHE encrypts, adds and decrypts, and how many masks it takes.

use std::time::{Duration, Instant};

use blindsum_crypto::kdf::Context;
use blindsum_crypto::secret::Secret;
use blindsum_he::flashe::FlasheError;
use blindsum_he::flashe::{self, Ciphertext, JobKey, KeyState, RoundKey, Scheme, Shape, Survivors};
use blindsum_math::words::{TileMut, Width};
use pyo3::prelude::*;
use rayon::ThreadPoolBuilder;

use crate::errors::{IntoPyErr, OrRaise, raise};
use crate::gil::released;

/// The one round in which everything is encrypted.
pub(crate) const ROUND: u64 = 1;

/// Bytes of a ciphertext, then milliseconds to encrypt a vector, to add those of the survivors and to
/// decrypt the sum.
type Times = (usize, f64, f64, f64);

/// Times one core with vectors of `dim` values below 2^16 in words of `bits`: the least of the runs that
/// fit into `seconds` for each operation. The sum is checked.
///
/// With `expected`, all masks to encrypt and to decrypt the sum of these are computed ahead of each run, and
/// that is not timed.
#[pyfunction]
#[pyo3(signature = (dim, bits, double, parties, survivors, seconds, expected = None))]
#[allow(clippy::too_many_arguments)]
pub fn flashe_times(
    py: Python<'_>,
    dim: usize,
    bits: u32,
    double: bool,
    parties: u32,
    survivors: Vec<u32>,
    seconds: f64,
    expected: Option<Vec<u32>>,
) -> PyResult<Times> {
    let seconds = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    released(py, || {
        let survivors = Survivors::new(parties, &survivors)?;
        let expected = expected.map(|ranks| Survivors::new(parties, &ranks));
        let expected = expected.transpose()?;
        let shape = Shape::new(scheme(double), Width::new(bits)?, dim)?;
        let vectors = Vectors::new(shape, expected);
        alone(|| vectors.times(&survivors, seconds))
    })
    .or_raise(py)
}

/// Masks a lane that a survivor computes in a round with these survivors, encryption and decryption
/// together: with double and with single masking.
#[pyfunction]
pub fn flashe_masks(py: Python<'_>, parties: u32, survivors: Vec<u32>) -> PyResult<(u64, u64)> {
    let survivors = Survivors::new(parties, &survivors).or_raise(py)?;
    let masks = [Scheme::Double, Scheme::Single]
        .map(|scheme| scheme.masks_to_encrypt() + survivors.masks_to_decrypt(scheme));
    Ok((masks[0], masks[1]))
}

/// The mean of [`flashe_masks`] over all sets of so many survivors (FLASHE Theorem 2).
#[pyfunction]
pub fn flashe_expected_masks(py: Python<'_>, parties: u32, survivors: u32) -> PyResult<(f64, f64)> {
    let masks = flashe::expected_masks(parties, survivors).or_raise(py)?;
    Ok((masks.double, masks.single))
}

/// Works on one thread, also where work is shared out among the threads of a pool.
pub(crate) fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    }
}

fn scheme(double: bool) -> Scheme {
    if double {
        Scheme::Double
    } else {
        Scheme::Single
    }
}

/// What is encrypted: the same values by every party.
struct Vectors {
    key: JobKey,
    round: RoundKey,
    shape: Shape,
    expected: Option<Survivors>,
}

impl Vectors {
    fn new(shape: Shape, expected: Option<Survivors>) -> Self {
        let key = JobKey::from(Secret::from([7; 32]));
        let round = key.round(ROUND, &Context([1; 32]));
        Self {
            key,
            round,
            shape,
            expected,
        }
    }

    fn times(&self, survivors: &Survivors, seconds: Duration) -> Result<Times, FlasheError> {
        let ciphertexts: Result<Vec<Ciphertext>, FlasheError> =
            survivors.ranks().map(|rank| self.encrypt(rank)).collect();
        let ciphertexts = ciphertexts?;
        let bytes: Vec<&[u8]> = ciphertexts.iter().map(Ciphertext::as_bytes).collect();
        let sum = flashe::sum(self.shape, &bytes)?;
        let rank = survivors.runs()[0].0;
        let encrypt = least(
            seconds,
            || self.prepare_encryption(rank),
            || self.encrypt(rank).map(drop),
        )?;
        let add = least(
            seconds,
            || Ok(()),
            || flashe::sum(self.shape, &bytes).map(drop),
        )?;
        let decrypt = least(
            seconds,
            || self.prepare_decryption(),
            || self.round.decrypt(self.shape, survivors, &sum).map(drop),
        )?;
        Ok((sum.len(), encrypt, add, decrypt))
    }

    fn prepare_encryption(&self, rank: u32) -> Result<(), FlasheError> {
        if self.expected.is_some() {
            self.round
                .prepare_encryption(rank, self.shape, usize::MAX)?;
        }
        Ok(())
    }

    fn prepare_decryption(&self) -> Result<(), FlasheError> {
        if let Some(expected) = &self.expected {
            self.round
                .prepare_decryption(expected, self.shape, usize::MAX);
        }
        Ok(())
    }

    /// Fills tiles with values, which is encoding without the arithmetic.
    fn encrypt(&self, rank: u32) -> Result<Ciphertext, FlasheError> {
        let mut state = KeyState::new(&self.key);
        let ticket = state.reserve(ROUND, rank, |_| Ok::<_, FlasheError>(()))?;
        let read = |first: usize, tile: TileMut<'_>| -> Result<(), FlasheError> {
            match tile {
                TileMut::W32(lanes) => fill(lanes, first, |d| d & 0xffff),
                TileMut::W64(lanes) => fill(lanes, first, |d| u64::from(d & 0xffff)),
            }
            Ok(())
        };
        self.round.encrypt(ticket, self.shape, read)
    }
}

fn fill<L>(lanes: &mut [L], first: usize, value: impl Fn(u32) -> L) {
    for (d, lane) in (first as u32..).zip(lanes) {
        *lane = value(d);
    }
}

/// Least milliseconds of the runs of `work` within `seconds`, each after a `prepare` that is not timed;
/// there is one at least.
pub(crate) fn least(
    seconds: Duration,
    mut prepare: impl FnMut() -> Result<(), FlasheError>,
    mut work: impl FnMut() -> Result<(), FlasheError>,
) -> Result<f64, FlasheError> {
    let until = Instant::now() + seconds;
    let mut best = f64::INFINITY;
    loop {
        prepare()?;
        let begin = Instant::now();
        work()?;
        best = best.min(begin.elapsed().as_secs_f64());
        if Instant::now() >= until {
            return Ok(1000.0 * best);
        }
    }
}

impl IntoPyErr for FlasheError {
    fn into_py_err(self, py: Python<'_>) -> PyErr {
        raise(py, "BlindsumError", (self.to_string(),))
    }
}
