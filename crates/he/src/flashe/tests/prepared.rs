//! Masks computed ahead change no byte, whatever was expected.

use proptest::prelude::*;
use rayon::ThreadPoolBuilder;

use super::*;

const LANES: usize = 3 * 4096 + 5;

/// What a party encrypts and `survivors` decrypt, after `prepare`.
fn round_trip(
    shape: Shape,
    survivors: &[u32],
    prepare: impl Fn(&RoundKey),
) -> ([Vec<u8>; 2], Words) {
    let key = job_key(5);
    let round_key = key.round(2, &CONTEXT);
    let words = words(shape, 4);
    prepare(&round_key);
    let parallel = round_key.encrypt(ticket(&key, 2, 4), shape, reader(&words));
    prepare(&round_key);
    let pool = ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let serial = pool.install(|| round_key.encrypt(ticket(&key, 2, 4), shape, reader(&words)));
    let ciphertexts = [serial, parallel].map(|one| one.unwrap().into_bytes());
    let of_all: Vec<Ciphertext> = survivors
        .iter()
        .map(|&rank| encrypt(&key, 2, rank, shape, &words))
        .collect();
    let survivors = Survivors::new(8, survivors).unwrap();
    let sum = round_key
        .decrypt(shape, &survivors, &added(shape, &of_all))
        .unwrap();
    (ciphertexts, sum)
}

fn check(scheme: Scheme, bits: u32, memory: usize, rank: u32, expected: &[u32], survivors: &[u32]) {
    let shape = shape(scheme, bits, LANES);
    let plain = round_trip(shape, survivors, |_| {});
    let prepared = round_trip(shape, survivors, |key| {
        let expected = Survivors::new(8, expected).unwrap();
        let lane = if bits <= 32 { 4 } else { 8 };
        let tile = 4096 * lane;
        let bytes = (memory / tile).min(LANES.div_ceil(4096)) * tile;
        assert_eq!(key.prepare_encryption(rank, shape, memory), Ok(bytes));
        assert_eq!(key.prepare_decryption(&expected, shape, memory), bytes);
    });
    assert!(plain == prepared, "{scheme:?}, {bits} bits, {memory} bytes");
}

#[test]
fn under_every_cap() {
    for (bits, lane) in [(20, 4), (33, 8)] {
        for scheme in [Scheme::Double, Scheme::Single] {
            for lanes in [
                0,
                1,
                4095,
                4096,
                2 * 4096 + 7,
                LANES - 1,
                LANES,
                usize::MAX / 8,
            ] {
                check(scheme, bits, lane * lanes, 4, &[0, 2, 4], &[0, 2, 4]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn whoever_was_expected(rank in 0..8_u32, expected in 1..256_u32, survivors in 1..256_u32, tiles in 1..4_usize) {
        let ranks = |set: u32| (0..8).filter(|rank| set >> rank & 1 == 1).collect::<Vec<u32>>();
        for scheme in [Scheme::Double, Scheme::Single] {
            check(scheme, 20, 4 * 4096 * tiles, rank, &ranks(expected), &ranks(survivors));
        }
    }
}

#[test]
fn for_another_shape() {
    let plain = round_trip(shape(Scheme::Double, 20, 5000), &[1, 4], |_| {});
    let others = [
        shape(Scheme::Single, 20, 5000),
        shape(Scheme::Double, 21, 5000),
        shape(Scheme::Double, 40, 5000),
        shape(Scheme::Double, 20, 1),
        shape(Scheme::Double, 20, 4096),
        shape(Scheme::Double, 20, 9000),
    ];
    for other in others {
        let prepared = round_trip(shape(Scheme::Double, 20, 5000), &[1, 4], |key| {
            key.prepare_encryption(4, other, usize::MAX).unwrap();
            key.prepare_decryption(&Survivors::new(8, &[1, 4]).unwrap(), other, usize::MAX);
        });
        assert!(prepared == plain, "{other:?}");
    }
}

#[test]
fn the_last_rank_is_refused() {
    let (rank, parties) = (u32::MAX, u32::MAX);
    let key = job_key(5).round(2, &CONTEXT);
    let refused = key.prepare_encryption(rank, shape(Scheme::Double, 20, 1), 4);
    assert_eq!(refused, Err(FlasheError::Rank { rank, parties }));
}
