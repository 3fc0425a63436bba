//! What shares say: enumerated over a field of 17 elements, counted over the real ones.

use std::collections::BTreeMap;

use blindsum_math::field::Field;
use blindsum_math::prime_field::{Field17, Field31, Field47, NttField};
use blindsum_math::transform::{CosetTransform, Interpolation, Row};
use blindsum_paper::PaperSharing;

use super::*;

/// Shares of the polynomial with these words and random elements, as [`super::super::limb`] makes them.
fn shares_of<F: NttField>(embedding: Embedding, n: usize, inside: &[u64]) -> Vec<u64> {
    let transform = CosetTransform::<F>::new(inside.len(), n).unwrap();
    let mut rows = vec![Row([0; 8]); transform.scratch_rows()];
    for (row, &value) in rows.iter_mut().zip(inside) {
        row.0 = [value; 8];
    }
    if embedding == Embedding::Evaluations {
        Interpolation::<F>::new(inside.len())
            .unwrap()
            .interpolate(&mut rows);
    }
    transform.evaluate(&mut rows);
    rows[..n].iter().map(|row| row.0[0]).collect()
}

/// All vectors of `len` elements of the field of 17.
fn all(len: usize) -> impl Iterator<Item = Vec<u64>> {
    (0..17_usize.pow(len as u32)).map(move |number| {
        (0..len as u32)
            .map(|i| (number / 17_usize.pow(i) % 17) as u64)
            .collect()
    })
}

/// How often every combination of these holders' shares comes, over all random elements.
fn distribution(
    embedding: Embedding,
    n: usize,
    words: &[u64],
    random: usize,
    holders: &[usize],
) -> BTreeMap<Vec<u64>, usize> {
    let mut counts = BTreeMap::new();
    for random in all(random) {
        let shares = shares_of::<Field17>(embedding, n, &[words, &random].concat());
        let seen = holders.iter().map(|&j| shares[j]).collect();
        *counts.entry(seen).or_default() += 1;
    }
    counts
}

fn pairs(n: usize) -> impl Iterator<Item = [usize; 2]> {
    (0..n).flat_map(move |i| (0..i).map(move |j| [i, j]))
}

/// Case 25: the shares of any r holders are uniform whatever the words are; those of r + 1 are not, which
/// is what a ramp gives up.
#[test]
fn case_25_any_r_columns_are_uniform() {
    for embedding in EMBEDDINGS {
        for n in [3, 4, 5, 8] {
            for words in [[0, 0], [16, 3]] {
                for l in [1, 2] {
                    for j in 0..n {
                        let counts = distribution(embedding, n, &words[..l], 1, &[j]);
                        assert!(counts.len() == 17 && counts.values().all(|&count| count == 1));
                    }
                }
                for holders in pairs(n) {
                    let counts = distribution(embedding, n, &words[..1], 2, &holders);
                    assert!(counts.len() == 289 && counts.values().all(|&count| count == 1));
                    let counts = distribution(embedding, n, &words[..1], 1, &holders);
                    assert_eq!(counts.len(), 17, "two shares and one random element");
                }
            }
        }
    }
}

/// Case 25: the real fields, by χ² over 16 classes: with 15 degrees of freedom 60 is exceeded with probability
/// 2·10^-7.
#[test]
fn case_25_columns_of_a_constant_look_uniform() {
    let parameters = RampParameters::choose(&request(20, 4, 2, 20_000)).unwrap();
    for embedding in EMBEDDINGS {
        for (residues, modulus) in [
            (Residues::Narrow, Field31::MODULUS),
            (Residues::Wide, Field47::MODULUS),
        ] {
            let sharing = RampSharing::new(parameters, embedding, residues, 20_000).unwrap();
            let len = residues.share_len();
            for column in columns_of(&sharing, &vec![7; 20_000], seed(3)) {
                let mut classes = [0_f64; 16];
                for share in column.chunks_exact(len) {
                    let value = share
                        .iter()
                        .rev()
                        .fold(0, |v, &byte| v << 8 | u64::from(byte));
                    classes[(u128::from(value) * 16 / u128::from(modulus)) as usize] += 1.0;
                }
                let expected = sharing.blocks() as f64 / 16.0;
                let chi: f64 = classes
                    .iter()
                    .map(|c| (c - expected).powi(2) / expected)
                    .sum();
                assert!(chi < 60.0, "{chi}");
            }
        }
    }
}

/// Case 23: no share is a word or a random element, whatever n and k; the two sets of points never meet.
#[test]
fn case_23_no_share_point_is_a_word_point() {
    for n in 2..=100 {
        for k in 1..=n {
            let transform = CosetTransform::<Field47>::new(k, n).unwrap();
            let inside = Interpolation::<Field47>::new(k).unwrap();
            let mut points: Vec<u64> = (0..n)
                .map(|j| transform.point(j))
                .chain((0..k).map(|e| inside.point(e)))
                .map(Field::to_canonical)
                .collect();
            points.sort_unstable();
            points.dedup();
            assert_eq!(points.len(), n + k, "n = {n}, k = {k}");
            assert_ne!(points[0], 0);
        }
    }
}

/// Case 23: a column never equals a row of words, for sizes where subgroups meet: powers of two and of three. The
/// construction of the thesis, whose first share is its first word, would fail here.
#[test]
fn case_23_no_column_equals_a_secret() {
    for n in [2, 3, 4, 8, 9, 27, 64, 81] {
        let parameters = RampParameters::choose(&request(n, 1, 0, 500)).unwrap();
        for embedding in EMBEDDINGS {
            let sharing = RampSharing::new(parameters, embedding, Residues::Wide, 500).unwrap();
            let words: Vec<u64> = (0..500).map(|i| i * i + 1).collect();
            let rows = words.chunks_exact(sharing.blocks());
            let packed: Vec<Vec<u8>> = rows
                .map(|row| {
                    row.iter()
                        .flat_map(|w| w.to_le_bytes()[..6].to_vec())
                        .collect()
                })
                .collect();
            for column in columns_of(&sharing, &words, seed(1)) {
                assert!(!packed.contains(&column), "n = {n}");
            }
        }
    }
    let thesis = PaperSharing::<Field47>::new(3, 2).unwrap();
    let element = |i: u64| Field47::from_canonical(i * i + 5).unwrap();
    let mut block: Vec<Field47> = (0..9).map(element).collect();
    thesis.share(&mut block);
    assert_eq!(block[0], element(0), "what must not be is noticed");
}
