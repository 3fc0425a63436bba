//! What encryption, counting and decryption must give.

use proptest::prelude::*;
use rayon::ThreadPoolBuilder;

use super::*;

#[test]
fn encryption_is_as_defined() {
    for (bits, lanes) in [(8, 0), (20, 1), (20, 9000), (32, 130), (33, 4200), (64, 70)] {
        for (scheme, every) in [
            (Scheme::Double, 3),
            (Scheme::Single, 3),
            (Scheme::Double, 90),
        ] {
            let shape = shape(scheme, bits, lanes);
            let (mask, vector) = (some_of(lanes, 7, every), words(shape, 7));
            let ciphertext = encrypt(shape, 7, &mask);
            assert_eq!(ciphertext.len(), mask.ciphertext_len(shape.width()));
            let (packed, check) = ciphertext.split_last_chunk::<16>().unwrap();
            let got = Words::unpack(shape.width(), mask.count(), packed).unwrap();
            for (k, d) in mask.coordinates().enumerate() {
                let f = |rank| super::mask(3, 6, rank, shape, d.into());
                let after = if scheme == Scheme::Double { f(8) } else { 0 };
                let masked = vector
                    .get(d as usize)
                    .wrapping_add(f(7))
                    .wrapping_sub(after);
                assert_eq!(got.get(k), masked & shape.width().mask(), "coordinate {d}");
            }
            let entries = mask.coordinates().map(|d| d as usize);
            let entries: Vec<_> = entries.map(|d| (d, vector.get(d), 1)).collect();
            assert_eq!(*check, check_from_definition(3, 7, shape.width(), &entries));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn sums_are_those_of_who_has_the_coordinate(
        double in any::<bool>(),
        bits in 8..=64_u32,
        lanes in prop_oneof![0..200_usize, 4090..4100_usize, Just(9000_usize)],
        set in 1..1_u32 << 13,
        every in prop_oneof![1..5_u64, 20..200_u64],
        minimum in 0..4_u32,
    ) {
        let ranks: Vec<u32> = (0..13).filter(|rank| set >> rank & 1 == 1).collect();
        let scheme = if double { Scheme::Double } else { Scheme::Single };
        let parties = Parties::new(shape(scheme, bits, lanes), &ranks, every);
        let sum = parties.decrypt(minimum, &parties.sum_of_all()).unwrap();
        prop_assert_eq!(entries(&sum, minimum), parties.expected(minimum.into()));
        let reduced = match sum.words().tile(0..sum.words().len()) {
            Tile::W32(lanes) => lanes.iter().all(|&lane| u64::from(lane) <= parties.shape.width().mask()),
            Tile::W64(lanes) => lanes.iter().all(|&lane| lane <= parties.shape.width().mask()),
        };
        prop_assert!(reduced);
        let counts: Vec<u32> = (0..lanes as u32)
            .map(|d| parties.masks.iter().map(|mask| u32::from(mask.contains(d))).sum())
            .collect();
        prop_assert_eq!(sum.contributors(), counts);
    }

    /// Mask counts by looking at every coordinate.
    #[test]
    fn mask_counts_are_exact(
        ranks in prop::collection::btree_set(0..12_u32, 1..12),
        lanes in 0..300_usize,
        every in 1..6_u64,
    ) {
        let ranks: Vec<u32> = ranks.into_iter().collect();
        let masks: Vec<SparseMask> = ranks.iter().map(|&r| some_of(lanes, r.into(), every)).collect();
        let survivors = Survivors::new(12, &ranks).unwrap();
        let (mut runs, mut sent) = (0, 0);
        for d in 0..lanes as u32 {
            let having = ranks.iter().zip(&masks).filter(|(_, mask)| mask.contains(d));
            let having: Vec<u32> = having.map(|(&rank, _)| rank).collect();
            if let Ok(having) = Survivors::new(12, &having) {
                runs += having.runs().len() as u64;
                sent += u64::from(having.count());
            }
        }
        let counts = Participation::new(&survivors, &masks).unwrap().mask_counts();
        prop_assert_eq!((counts.double.encrypt, counts.double.decrypt), (2 * sent, 2 * runs));
        prop_assert_eq!((counts.single.encrypt, counts.single.decrypt), (sent, sent));
        let parties = ranks.len() as u64;
        let single_is_cheaper = sent + parties * sent < 2 * sent + parties * 2 * runs;
        prop_assert_eq!(counts.cheaper() == Scheme::Single, single_is_cheaper);
    }
}

#[test]
fn threads_change_no_byte() {
    for (bits, scheme) in [(20, Scheme::Double), (40, Scheme::Single)] {
        let parties = Parties::new(shape(scheme, bits, 20_000), &[0, 1, 2, 5, 6, 9], 4);
        let sum = parties.sum_of_all();
        let results = [1, 3].map(|threads| {
            let pool = ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            pool.install(|| entries(&parties.decrypt(2, &sum).unwrap(), 2))
        });
        assert_eq!(results[0], parties.expected(2));
        assert_eq!(results[1], results[0]);
    }
}

/// A round as the parties play it: permuted, the cheaper scheme, restored.
#[test]
fn a_round_with_the_permutation() {
    let round_key = job_key(3).round(6, &CONTEXT);
    let permutation = round_key.permutation(500).unwrap();
    let natural: Vec<SparseMask> = (0..4).map(|label| some_of(500, label, 5)).collect();
    let places: Vec<SparseMask> = natural
        .iter()
        .map(|mask| permutation.permute(mask).unwrap().0)
        .collect();
    let survivors = Survivors::new(20, &[0, 1, 2, 3]).unwrap();
    let participation = Participation::new(&survivors, &places).unwrap();
    let shape = shape(participation.mask_counts().cheaper(), 24, 500);
    let key = job_key(3);
    let mut sum = EncryptedSparseSum::new(shape.width(), 500).unwrap();
    for (rank, mask) in (0..).zip(&places) {
        let read = |places: &[u32], tile: TileMut<'_>| {
            let TileMut::W32(lanes) = tile else {
                panic!("24 bits")
            };
            let values = places
                .iter()
                .map(|&place| 1000 * rank + permutation.coordinate(place));
            lanes
                .iter_mut()
                .zip(values)
                .for_each(|(lane, value)| *lane = value);
            Ok::<_, FlasheError>(())
        };
        let sent = round_key.encrypt_sparse(ticket(&key, 6, rank), shape, mask, read);
        sum.add(mask, sent.unwrap().as_bytes()).unwrap();
    }
    let sum = round_key
        .decrypt_sparse(shape, participation, 2, &sum.to_bytes())
        .unwrap();
    let mut got: Vec<(u32, u64)> = entries(&sum, 2)
        .into_iter()
        .map(|(place, word, _)| (permutation.coordinate(place), word))
        .collect();
    got.sort_unstable();
    let expected = (0..500_u32).filter_map(|d| {
        let having = (0..4_u64).filter(|&rank| natural[rank as usize].contains(d));
        let values: Vec<u64> = having.map(|rank| 1000 * rank + u64::from(d)).collect();
        (values.len() >= 2).then(|| (d, values.into_iter().sum()))
    });
    assert_eq!(got, expected.collect::<Vec<(u32, u64)>>());
}
