//! Laws of ramp sharing: sums come back exactly, few shares say nothing, and no parameters slip through.

mod laws;
mod parameters;
mod privacy;
mod vectors;

use blindsum_crypto::mask::MaskSeed;
use blindsum_crypto::secret::Secret;
use blindsum_math::words::{Width, Words};

use super::*;
use crate::SharingError;

const EMBEDDINGS: [Embedding; 2] = [Embedding::Coefficients, Embedding::Evaluations];
const RESIDUES: [Residues; 3] = [Residues::Narrow, Residues::Wide, Residues::Pair];

fn request(parties: usize, corrupt: usize, dropouts: usize, words: usize) -> RampRequest {
    RampRequest {
        parties,
        corrupt,
        dropouts,
        active: false,
        words,
        threshold: 0,
        packing: 0,
    }
}

fn seed(byte: u8) -> MaskSeed {
    MaskSeed::from(Secret::from([byte; 32]))
}

/// Every party's packed column of a vector.
fn columns_of(sharing: &RampSharing, words: &[u64], seed: MaskSeed) -> Vec<Vec<u8>> {
    let mut columns = vec![vec![0; sharing.column_len()]; sharing.parameters().parties()];
    let mut places: Vec<Option<&mut [u8]>> = columns
        .iter_mut()
        .map(|column| Some(&mut column[..]))
        .collect();
    let read = |first: usize, out: &mut [u64]| {
        out.copy_from_slice(&words[first..first + out.len()]);
        Ok::<_, SharingError>(())
    };
    sharing.share(seed, read, &mut places).unwrap();
    columns
}

/// The sums of columns that every party holds.
fn sums_of(sharing: &RampSharing, vectors: &[Vec<u64>]) -> Vec<ColumnSum> {
    let parties = sharing.parameters().parties();
    let mut sums: Vec<ColumnSum> = (0..parties).map(|_| sharing.zero_column()).collect();
    for (i, vector) in vectors.iter().enumerate() {
        for (sum, column) in sums
            .iter_mut()
            .zip(columns_of(sharing, vector, seed(i as u8)))
        {
            sharing.add(sum, &column).unwrap();
        }
    }
    sums
}

/// The words of the sum, rebuilt from these holders' sums of columns.
fn rebuilt(sharing: &RampSharing, sums: &[ColumnSum], holders: &[usize], len: usize) -> Vec<u64> {
    let mut words = Words::zeros(Width::new(64).unwrap(), len);
    let columns: Vec<&ColumnSum> = holders.iter().map(|&j| &sums[j]).collect();
    let reconstructor = sharing.reconstructor(holders).unwrap();
    reconstructor.reconstruct(&columns, &mut words).unwrap();
    words.iter().collect()
}
