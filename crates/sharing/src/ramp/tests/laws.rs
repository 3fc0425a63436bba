//! Sharing, adding and rebuilding gives the sum, for all parameters.

use proptest::prelude::*;
use proptest::sample::subsequence;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::*;

/// Parameters, the number of words, and k holders.
fn cases() -> impl Strategy<Value = (RampParameters, usize, Vec<usize>)> {
    (2_usize..=70, 1_usize..=600, any::<bool>())
        .prop_flat_map(|(n, words, active)| (Just((n, words, active)), 0..n, 0..n, 0..=n, 0..=n))
        .prop_filter_map(
            "feasible",
            |((n, words, active), c, d, threshold, packing)| {
                let request = RampRequest {
                    active,
                    threshold,
                    packing,
                    ..request(n, c, d, words)
                };
                Some((RampParameters::choose(&request).ok()?, words))
            },
        )
        .prop_flat_map(|(parameters, words)| {
            let ranks: Vec<usize> = (0..parameters.parties()).collect();
            let holders = subsequence(ranks, parameters.threshold());
            (Just(parameters), Just(words), holders.prop_shuffle())
        })
}

/// Words up to the bound of the field over three vectors.
fn vectors(residues: Residues, words: usize, seed: u64) -> Vec<Vec<u64>> {
    let bound = match residues {
        Residues::Narrow => 0x7f00_0001 / 3,
        Residues::Wide => 0x7fff_e438_0001 / 3,
        Residues::Pair => u64::MAX,
    };
    let mut state = seed;
    let mut word = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        // The largest word comes often.
        if state >> 61 == 0 {
            bound
        } else {
            (state ^ state >> 31) % bound
        }
    };
    (0..3)
        .map(|_| (0..words).map(|_| word()).collect())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_k_holders_rebuild_the_sum((parameters, len, holders) in cases(), start in any::<u64>()) {
        for embedding in EMBEDDINGS {
            for residues in RESIDUES {
                let sharing = RampSharing::new(parameters, embedding, residues, len).unwrap();
                let vectors = vectors(residues, len, start);
                let sums = sums_of(&sharing, &vectors);
                let mut expected = vec![0_u64; len];
                for vector in &vectors {
                    expected.iter_mut().zip(vector).for_each(|(e, &w)| *e = e.wrapping_add(w));
                }
                prop_assert_eq!(&rebuilt(&sharing, &sums, &holders, len), &expected);
            }
        }
    }

    #[test]
    fn wrong_columns_are_found_up_to_half_the_surplus(
        (parameters, len, _) in cases(),
        wrong in any::<prop::sample::Index>(),
        start in any::<u64>(),
    ) {
        let (n, k) = (parameters.parties(), parameters.threshold());
        let wrong = wrong.index((n - k) / 2 + 1);
        let holders: Vec<usize> = (0..n).collect();
        for embedding in EMBEDDINGS {
            let sharing = RampSharing::new(parameters, embedding, Residues::Wide, len).unwrap();
            let mut sums = sums_of(&sharing, &vectors(Residues::Wide, len, start));
            for sum in sums.iter_mut().take(wrong) {
                let mut off = vec![0; sharing.column_len()];
                *off.last_mut().unwrap() = 1;
                sharing.add(sum, &off).unwrap();
            }
            let columns: Vec<&ColumnSum> = sums.iter().collect();
            let mut rng = ChaCha20Rng::seed_from_u64(start);
            let misfits = sharing.misfits(&holders, &columns, &mut rng).unwrap();
            prop_assert_eq!(misfits, (0..wrong).collect());
        }
    }
}

#[test]
fn packed_columns_come_back() {
    for residues in RESIDUES {
        let parameters = RampParameters::choose(&request(9, 2, 1, 100)).unwrap();
        let sharing = RampSharing::new(parameters, Embedding::Evaluations, residues, 100).unwrap();
        let vectors = vectors(residues, 100, 5);
        let column = columns_of(&sharing, &vectors[0], seed(9)).remove(4);
        let mut sum = sharing.zero_column();
        sharing.add(&mut sum, &column).unwrap();
        assert_eq!(sharing.pack(&sum), column);
    }
}

#[test]
fn columns_that_are_no_columns_are_refused() {
    let parameters = RampParameters::choose(&request(5, 1, 1, 20)).unwrap();
    for residues in RESIDUES {
        let sharing = RampSharing::new(parameters, Embedding::Coefficients, residues, 20).unwrap();
        let need = sharing.column_len();
        let mut sum = sharing.zero_column();
        for got in [0, need - 1, need + 1] {
            let refused = Err(SharingError::ColumnLength { got, need });
            assert_eq!(sharing.add(&mut sum, &vec![0; got]), refused);
        }
        assert_eq!(sharing.pack(&sum), vec![0; need], "nothing was added");
        // The last element of all, so that everything before it is fine.
        let mut column = vec![0; need];
        column[need - 4..].fill(0xff);
        if residues != Residues::Narrow {
            column[need - 6..].fill(0xff);
        }
        column[0] = 1;
        assert_eq!(
            sharing.add(&mut sum, &column),
            Err(SharingError::ColumnElement)
        );
    }
}

/// Case 23: the same holder twice, ranks from n on, too few.
#[test]
fn case_23_holders_that_are_not_k_parties() {
    let parameters = RampParameters::choose(&request(8, 1, 4, 20)).unwrap();
    let sharing = RampSharing::new(parameters, Embedding::Evaluations, Residues::Wide, 20).unwrap();
    let (threshold, parties) = (4, 8);
    let refused = SharingError::Holders { threshold, parties };
    for holders in [
        &[0, 1, 2, 2][..],
        &[0, 1, 2, 8],
        &[0, 1, 2],
        &[0, 1, 2, 3, 4],
        &[],
    ] {
        assert_eq!(sharing.reconstructor(holders).err(), Some(refused));
    }
    assert!(sharing.reconstructor(&[7, 0, 5, 2]).is_ok());
}
