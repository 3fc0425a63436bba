//! What FLASHE takes with sparse vectors.

use std::time::Duration;

use blindsum_crypto::kdf::Context;
use blindsum_crypto::secret::Secret;
use blindsum_he::flashe::FlasheError;
use blindsum_he::flashe::sparse::{EncryptedSparseSum, MaskCount, Participation, SparseMask};
use blindsum_he::flashe::{Ciphertext, JobKey, KeyState, RoundKey, Shape, Survivors};
use blindsum_math::words::{TileMut, Width};
use pyo3::prelude::*;

use super::flashe::{ROUND, alone, least};
use crate::errors::OrRaise;
use crate::gil::released;

/// Bytes of the first party's set of coordinates, of its ciphertext and of the sum.
type Bytes = (usize, usize, usize);

/// Masks of single words that a party computes with double and with single masking, mean of all.
type Masks = (f64, f64);

/// Milliseconds to permute a set of coordinates, to encrypt, to add all ciphertexts and to decrypt.
type Times = (f64, f64, f64, f64);

/// Times one core with vectors of values below 2^16 in words of `bits`, of which party j has those of
/// `dim` coordinates that `coordinates[j]` names, with the scheme that takes fewer masks: the least of the
/// runs that fit into `seconds` for each operation. The sum is checked.
#[pyfunction]
pub fn flashe_sparse(
    py: Python<'_>,
    dim: usize,
    bits: u32,
    coordinates: Vec<Vec<u32>>,
    seconds: f64,
) -> PyResult<(Bytes, Masks, Times)> {
    let seconds = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    released(py, || {
        alone(|| Cohort::new(dim, bits, &coordinates)?.measure(seconds))
    })
    .or_raise(py)
}

/// Parties that all survive.
struct Cohort {
    key: JobKey,
    round: RoundKey,
    shape: Shape,
    survivors: Survivors,
    sets: Vec<SparseMask>,
    masks: Masks,
}

impl Cohort {
    fn new(dim: usize, bits: u32, coordinates: &[Vec<u32>]) -> Result<Self, FlasheError> {
        let parties = coordinates.len() as u32;
        let ranks: Vec<u32> = (0..parties).collect();
        let survivors = Survivors::new(parties, &ranks)?;
        let sets = coordinates.iter().map(|set| SparseMask::new(dim, set));
        let sets: Vec<SparseMask> = sets.collect::<Result<_, _>>()?;
        let counts = Participation::new(&survivors, &sets)?.mask_counts();
        let each =
            |count: MaskCount| count.encrypt as f64 / f64::from(parties) + count.decrypt as f64;
        let key = JobKey::from(Secret::from([7; 32]));
        Ok(Self {
            round: key.round(ROUND, &Context([1; 32])),
            key,
            shape: Shape::new(counts.cheaper(), Width::new(bits)?, dim)?,
            masks: (each(counts.double), each(counts.single)),
            survivors,
            sets,
        })
    }

    fn measure(&self, seconds: Duration) -> Result<(Bytes, Masks, Times), FlasheError> {
        let ranks = self.survivors.ranks();
        let ciphertexts = ranks.map(|rank| self.encrypt(rank));
        let ciphertexts: Vec<Ciphertext> = ciphertexts.collect::<Result<_, _>>()?;
        let sum = self.add(&ciphertexts)?;
        let (first, nothing) = (&self.sets[0], || Ok(()));
        let permute = || {
            self.round
                .permutation(first.lanes())?
                .permute(first)
                .map(drop)
        };
        let participation = Participation::new(&self.survivors, &self.sets)?;
        let decrypt = || {
            let opened = self
                .round
                .decrypt_sparse(self.shape, participation, 1, &sum);
            opened.map(drop)
        };
        let times = (
            least(seconds, nothing, permute)?,
            least(seconds, nothing, || self.encrypt(0).map(drop))?,
            least(seconds, nothing, || self.add(&ciphertexts).map(drop))?,
            least(seconds, nothing, decrypt)?,
        );
        let one = ciphertexts[0].as_bytes().len();
        Ok(((first.to_bytes().len(), one, sum.len()), self.masks, times))
    }

    fn encrypt(&self, rank: u32) -> Result<Ciphertext, FlasheError> {
        let mut state = KeyState::new(&self.key);
        let ticket = state.reserve(ROUND, rank, |_| Ok::<_, FlasheError>(()))?;
        let read = |coordinates: &[u32], tile: TileMut<'_>| -> Result<(), FlasheError> {
            let values = coordinates.iter().map(|d| d & 0xffff);
            match tile {
                TileMut::W32(lanes) => lanes.iter_mut().zip(values).for_each(|(l, v)| *l = v),
                TileMut::W64(lanes) => lanes
                    .iter_mut()
                    .zip(values)
                    .for_each(|(l, v)| *l = v.into()),
            }
            Ok(())
        };
        let set = &self.sets[rank as usize];
        self.round.encrypt_sparse(ticket, self.shape, set, read)
    }

    fn add(&self, ciphertexts: &[Ciphertext]) -> Result<Vec<u8>, FlasheError> {
        let mut sum = EncryptedSparseSum::new(self.shape.width(), self.shape.lanes())?;
        for (set, ciphertext) in self.sets.iter().zip(ciphertexts) {
            sum.add(set, ciphertext.as_bytes())?;
        }
        Ok(sum.to_bytes())
    }
}
