//! What encryption, addition and decryption must give, whatever the shape and the number of threads.

use proptest::prelude::*;
use rayon::ThreadPoolBuilder;

use super::*;

/// E(m)_d from its definition.
fn encrypted_lane(key: u8, round: u64, rank: u32, shape: Shape, words: &Words, d: usize) -> u64 {
    let masks = |rank| mask(key, round, rank, shape, d as u64);
    let sum = words.get(d).wrapping_add(masks(rank));
    let sum = match shape.scheme() {
        Scheme::Double => sum.wrapping_sub(masks(rank + 1)),
        Scheme::Single => sum,
    };
    sum & shape.width().mask()
}

/// The words of a ciphertext or sum.
fn unpacked(shape: Shape, ciphertext: &[u8]) -> Words {
    let packed = &ciphertext[..shape.packed_len()];
    Words::unpack(shape.width(), shape.lanes(), packed).unwrap()
}

/// Whether lanes have no junk above bit b.
fn is_reduced(words: &Words) -> bool {
    let mask = words.width().mask();
    match words.tile(0..words.len()) {
        Tile::W32(lanes) => lanes.iter().all(|&lane| u64::from(lane) <= mask),
        Tile::W64(lanes) => lanes.iter().all(|&lane| lane <= mask),
    }
}

fn schemes() -> impl Strategy<Value = Scheme> {
    prop_oneof![Just(Scheme::Double), Just(Scheme::Single)]
}

proptest! {
    #[test]
    fn encryption_is_as_defined(
        scheme in schemes(),
        bits in 8..=64_u32,
        lanes in 0..70_usize,
        round in any::<u64>().prop_map(|round| round.min(u64::MAX - 1)),
        rank in prop_oneof![0..4_u32, Just(u32::MAX - 1), 0..u32::MAX],
    ) {
        let shape = shape(scheme, bits, lanes);
        let words = words(shape, 5);
        let ciphertext = encrypt(&job_key(9), round, rank, shape, &words);
        let got = unpacked(shape, ciphertext.as_bytes());
        for d in 0..lanes {
            prop_assert_eq!(got.get(d), encrypted_lane(9, round, rank, shape, &words, d));
        }
    }

    #[test]
    fn decrypts_the_sum_of_any_subset(
        scheme in schemes(),
        bits in 8..=64_u32,
        lanes in 0..70_usize,
        parties in 1..12_u32,
        set in 1..1_u32 << 11,
        round in 0..1000_u64,
    ) {
        let ranks: Vec<u32> = (0..parties).filter(|rank| set >> rank & 1 == 1).collect();
        prop_assume!(!ranks.is_empty());
        let shape = shape(scheme, bits, lanes);
        let key = job_key(2);
        let mut expected = Words::zeros(shape.width(), lanes);
        let ciphertexts: Vec<Ciphertext> = ranks.iter().map(|&rank| {
            let words = words(shape, rank.into());
            expected.add(&words).unwrap();
            encrypt(&key, round, rank, shape, &words)
        }).collect();
        let survivors = Survivors::new(parties, &ranks).unwrap();
        let added = added(shape, &ciphertexts);
        let words = key.round(round, &CONTEXT).decrypt(shape, &survivors, &added).unwrap();
        prop_assert_eq!(&words, &expected);
        prop_assert!(is_reduced(&words));

        // The same with the server's other way to add.
        let mut folded = EncryptedSum::new(shape);
        ciphertexts.iter().for_each(|one| folded.add(one.as_bytes()).unwrap());
        prop_assert_eq!(folded.to_bytes(), added);
    }
}

/// Vectors of several tiles and tasks, and of lanes at their borders.
const LONG: [usize; 5] = [4095, 4097, 8 * 4096, 8 * 4096 + 1, 20 * 4096 + 13];

#[test]
fn every_tile_and_task_is_as_defined() {
    for (bits, scheme) in [
        (20, Scheme::Double),
        (17, Scheme::Single),
        (41, Scheme::Double),
    ] {
        for lanes in LONG {
            let shape = shape(scheme, bits, lanes);
            let words = words(shape, 1);
            let ciphertext = encrypt(&job_key(9), 3, 7, shape, &words);
            let got = unpacked(shape, ciphertext.as_bytes());
            let borders = (4096..lanes).step_by(4096).flat_map(|d| [d - 1, d]);
            for d in borders.chain([0, 1, lanes - 2, lanes - 1]) {
                let expected = encrypted_lane(9, 3, 7, shape, &words, d);
                assert_eq!(got.get(d), expected, "lane {d} of {lanes}, {bits} bits");
            }
        }
    }
}

#[test]
fn threads_and_ways_to_call_change_no_byte() {
    let key = job_key(4);
    for (bits, scheme) in [(20, Scheme::Double), (33, Scheme::Single)] {
        for lanes in LONG {
            let shape = shape(scheme, bits, lanes);
            let survivors = Survivors::new(9, &[1, 2, 5]).unwrap();
            let round_key = key.round(8, &CONTEXT);
            let vectors = [1, 2, 5].map(|rank| words(shape, rank));
            let ciphertexts =
                [1, 2, 5].map(|j| encrypt(&key, 8, j, shape, &words(shape, j.into())));
            let mut results = Vec::new();
            for threads in [1, 3] {
                let pool = ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .build()
                    .unwrap();
                results.push(pool.install(|| {
                    let again = round_key.encrypt(ticket(&key, 8, 1), shape, reader(&vectors[0]));
                    assert_eq!(again.unwrap().as_bytes(), ciphertexts[0].as_bytes());
                    let added = added(shape, &ciphertexts);
                    let sum = round_key.decrypt(shape, &survivors, &added).unwrap();
                    (added, sum)
                }));
            }
            assert_eq!(&results[1], &results[0]);
            let mut expected = Words::zeros(shape.width(), lanes);
            vectors
                .iter()
                .for_each(|words| expected.add(words).unwrap());
            assert_eq!(results[0].1, expected);
        }
    }
}

#[test]
fn masks_within_a_run_cancel() {
    // The sum of a run has only its ends' masks, so decryption by the definition, with every survivor's
    // two masks, gives the same.
    let key = job_key(9);
    let shape = shape(Scheme::Double, 20, 33);
    let ranks = [0, 1, 2, 3, 6, 8, 9];
    let ciphertexts = ranks.map(|j| encrypt(&key, 1, j, shape, &words(shape, j.into())));
    let added = added(shape, &ciphertexts);
    let survivors = Survivors::new(10, &ranks).unwrap();
    let got = key
        .round(1, &CONTEXT)
        .decrypt(shape, &survivors, &added)
        .unwrap();
    let added = unpacked(shape, &added);
    for d in 0..33 {
        let masks = |j| mask(9, 1, j, shape, d as u64);
        let slow = ranks.iter().fold(added.get(d), |sum, &j| {
            sum.wrapping_add(masks(j + 1)).wrapping_sub(masks(j))
        });
        assert_eq!(got.get(d), slow & shape.width().mask());
    }
    assert_eq!(survivors.masks_to_decrypt(Scheme::Double), 6);
}

#[test]
fn shapes_are_checked() {
    let width = |bits| Width::new(bits).unwrap();
    let new = |bits, lanes| Shape::new(Scheme::Single, width(bits), lanes);
    for (bits, largest) in [(8, 1 << 34), (32, 1 << 34), (33, 1 << 33), (64, 1 << 33)] {
        assert_eq!(new(bits, largest).unwrap().lanes(), largest);
        let lanes = largest + 1;
        let largest = largest as u64;
        let refused = FlasheError::Lanes {
            lanes,
            largest,
            bits,
        };
        assert_eq!(new(bits, lanes), Err(refused));
    }
    let shape = new(20, 10).unwrap();
    assert_eq!((shape.packed_len(), shape.ciphertext_len()), (25, 41));
}

#[test]
fn what_a_reader_says_is_passed_on() {
    let key = job_key(1);
    let shape = shape(Scheme::Double, 20, 10_000);
    let round_key = key.round(0, &CONTEXT);
    let refuse = |first: usize, _: TileMut<'_>| match first {
        0 => Ok(()),
        _ => Err(FlasheError::NoSurvivors),
    };
    let refused = round_key.encrypt(ticket(&key, 0, 0), shape, refuse);
    assert_eq!(refused.err(), Some(FlasheError::NoSurvivors));
}

/// A header fits before the ciphertext without a second allocation.
#[test]
fn there_is_room_for_a_header() {
    let key = job_key(1);
    for lanes in [0, 1, 5000] {
        let shape = shape(Scheme::Double, 20, lanes);
        let (round_key, words) = (key.round(0, &CONTEXT), words(shape, 1));
        let ciphertext = round_key.encrypt(ticket(&key, 0, 0), shape, reader(&words));
        let bytes = ciphertext.unwrap().into_bytes();
        assert_eq!(bytes.len(), shape.ciphertext_len());
        assert!(bytes.capacity() >= bytes.len() + HEADER_ROOM);
    }
}

/// The check of a dense vector from its definition.
fn slow_check(key: u8, rank: u32, words: &Words) -> [u8; 16] {
    let entries = words.iter().enumerate().map(|(d, word)| (d, word, 0));
    check_from_definition(key, rank, words.width(), &entries.collect::<Vec<_>>())
}

#[test]
fn checks_are_as_defined() {
    for (bits, lanes) in [
        (8, 0),
        (20, 1),
        (20, 9001),
        (32, 64),
        (33, 4099),
        (64, 4097),
    ] {
        let shape = shape(Scheme::Double, bits, lanes);
        let words = words(shape, 3);
        let ciphertext = encrypt(&job_key(9), 3, 7, shape, &words).into_bytes();
        let check = &ciphertext[shape.packed_len()..];
        assert_eq!(
            check,
            slow_check(9, 7, &words),
            "{bits} bits, {lanes} lanes"
        );
    }
}
