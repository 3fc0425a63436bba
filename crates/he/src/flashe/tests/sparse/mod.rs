//! Sparse vectors: agreement with the definitions, and what must not pass.

mod abuse;
mod laws;
mod sets;

use super::*;
use crate::flashe::sparse::{EncryptedSparseSum, Participation, SparseMask, SparseSum};

/// The coordinates of a party: about one of `every`.
fn some_of(lanes: usize, label: u64, every: u64) -> SparseMask {
    let chosen = |d: &u32| {
        let mixed = (u64::from(*d) + 1 + (label << 33)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 40).is_multiple_of(every)
    };
    let coordinates: Vec<u32> = (0..lanes as u32).filter(chosen).collect();
    SparseMask::new(lanes, &coordinates).unwrap()
}

/// Writes the words at the coordinates.
fn reader(words: &Words) -> impl FnMut(&[u32], TileMut<'_>) -> Result<(), FlasheError> {
    |coordinates, tile| {
        assert_eq!(coordinates.len(), tile.len());
        let at = coordinates.iter().map(|&d| d as usize);
        match (words.tile(0..words.len()), tile) {
            (Tile::W32(from), TileMut::W32(to)) => at.zip(to).for_each(|(d, to)| *to = from[d]),
            (Tile::W64(from), TileMut::W64(to)) => at.zip(to).for_each(|(d, to)| *to = from[d]),
            _ => panic!("tiles of another lane type"),
        }
        Ok(())
    }
}

fn encrypt(shape: Shape, rank: u32, mask: &SparseMask) -> Vec<u8> {
    let key = job_key(3);
    let words = words(shape, rank.into());
    let encrypted =
        key.round(6, &CONTEXT)
            .encrypt_sparse(ticket(&key, 6, rank), shape, mask, reader(&words));
    encrypted.unwrap().into_bytes()
}

/// Parties with vectors of their own.
struct Parties {
    shape: Shape,
    survivors: Survivors,
    masks: Vec<SparseMask>,
    ciphertexts: Vec<Vec<u8>>,
}

impl Parties {
    fn new(shape: Shape, ranks: &[u32], every: u64) -> Self {
        let masks = ranks
            .iter()
            .map(|&rank| some_of(shape.lanes(), rank.into(), every));
        Self::with_masks(shape, ranks, masks.collect())
    }

    fn with_masks(shape: Shape, ranks: &[u32], masks: Vec<SparseMask>) -> Self {
        let pairs = ranks.iter().zip(&masks);
        Self {
            shape,
            survivors: Survivors::new(20, ranks).unwrap(),
            ciphertexts: pairs
                .map(|(&rank, mask)| encrypt(shape, rank, mask))
                .collect(),
            masks,
        }
    }

    /// The sum of the ciphertexts with these numbers.
    fn sum(&self, numbers: &[usize]) -> Vec<u8> {
        let mut sum = EncryptedSparseSum::new(self.shape.width(), self.shape.lanes()).unwrap();
        numbers
            .iter()
            .for_each(|&k| sum.add(&self.masks[k], &self.ciphertexts[k]).unwrap());
        sum.to_bytes()
    }

    fn sum_of_all(&self) -> Vec<u8> {
        self.sum(&(0..self.masks.len()).collect::<Vec<_>>())
    }

    fn decrypt(&self, minimum: u32, sum: &[u8]) -> Result<SparseSum, FlasheError> {
        decrypt(self.shape, &self.survivors, &self.masks, minimum, sum)
    }

    /// Coordinate, word and number of contributors, from the definition.
    fn expected(&self, minimum: u64) -> Vec<(u32, u64, u32)> {
        let mut entries = vec![(0, 0); self.shape.lanes()];
        for (rank, mask) in self.survivors.ranks().zip(&self.masks) {
            let vector = words(self.shape, rank.into());
            for d in mask.coordinates().map(|d| d as usize) {
                entries[d] = (entries[d].0 + vector.get(d), entries[d].1 + 1);
            }
        }
        let entries = (0..).zip(entries).map(|(d, (sum, count))| (d, sum, count));
        let chosen = entries.filter(|&(_, _, count)| count > 0 && u64::from(count) >= minimum);
        chosen.collect()
    }
}

fn decrypt(
    shape: Shape,
    survivors: &Survivors,
    masks: &[SparseMask],
    minimum: u32,
    sum: &[u8],
) -> Result<SparseSum, FlasheError> {
    let participation = Participation::new(survivors, masks)?;
    job_key(3)
        .round(6, &CONTEXT)
        .decrypt_sparse(shape, participation, minimum, sum)
}

/// Coordinate, word and number of contributors where there are so many; elsewhere words are zero.
fn entries(sum: &SparseSum, minimum: u32) -> Vec<(u32, u64, u32)> {
    assert_eq!(sum.contributors().len(), sum.words().len());
    let all = (0..).zip(sum.words().iter().zip(sum.contributors()));
    let all = all.map(|(d, (word, &count))| (d, word, count));
    let (opened, others): (Vec<_>, Vec<_>) =
        all.partition(|&(_, _, count)| count > 0 && count >= minimum);
    assert!(others.iter().all(|&(_, word, _)| word == 0));
    opened
}
