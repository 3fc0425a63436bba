//! Sets of coordinates as bytes, and their permutation.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn masks_have_one_form(lanes in 0..5000_usize, every in 1..200_u64, label in 0..1000_u64) {
        let mask = some_of(lanes, label, every);
        let bytes = mask.to_bytes();
        prop_assert!(bytes.len() <= 1 + lanes.div_ceil(8));
        prop_assert!(SparseMask::from_bytes(lanes, &bytes).unwrap() == mask);
        prop_assert!(SparseMask::from_bytes(lanes + 8, &bytes).is_err() || bytes[0] == 1);
    }
}

/// Every string of up to three bytes is refused or is the form of the set that it is read as.
#[test]
fn nothing_but_the_one_form_is_read() {
    for lanes in [0, 1, 7, 8, 9, 16, 17, 200] {
        let mut read = 0;
        let rest = |length: u32| (0..1_u32 << (8 * length)).map(move |number| (length, number));
        for (length, number) in rest(0).chain(rest(1)).chain(rest(2)) {
            for kind in 0..=2 {
                let bytes = [&[kind], &number.to_le_bytes()[..length as usize]].concat();
                if let Ok(mask) = SparseMask::from_bytes(lanes, &bytes) {
                    assert_eq!(mask.to_bytes(), bytes, "{lanes} lanes");
                    read += 1;
                }
            }
        }
        let all = [
            (0, 1),
            (1, 2),
            (7, 1 << 7),
            (8, 1 << 8),
            (9, 1 << 9),
            (16, 1 << 16),
        ];
        if let Some((_, sets)) = all.into_iter().find(|&(of, _)| of == lanes) {
            assert_eq!(read, sets, "sets of {lanes} lanes");
        }
    }
}

#[test]
fn malformed_masks_are_refused() {
    let refused = |lanes, bytes: &[u8]| SparseMask::from_bytes(lanes, bytes).err();
    let rule = |rule| Some(FlasheError::MaskEncoding { rule });
    assert_eq!(refused(8, &[]), rule("there must be a kind"));
    assert_eq!(refused(8, &[2, 0]), rule("the kind must be 0 or 1"));
    for bitmap in [&[0][..], &[0, 1, 1, 1]] {
        assert_eq!(
            refused(9, bitmap),
            rule("a bitmap must have a bit for each coordinate")
        );
    }
    let padding = rule("the bits behind the last coordinate must be zero");
    assert_eq!(refused(9, &[0, 0xff, 3]), padding);
    let shorter = rule("the shorter form must be used");
    assert_eq!(refused(9, &[0, 0, 0]), shorter);
    assert_eq!(refused(16, &[1, 0, 0]), shorter);
    let few = rule("a distance must take as few bytes as it can");
    assert_eq!(refused(1000, &[1, 0x80, 0]), few);
    let end = rule("a distance must end, after 5 bytes at most");
    assert_eq!(refused(1000, &[1, 0x80]), end);
    assert_eq!(refused(1000, &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 1]), end);
    let below = rule("a distance must be below 2^32");
    assert_eq!(refused(1000, &[1, 0xff, 0xff, 0xff, 0xff, 0x1f]), below);
    let largest = [1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0];
    assert_eq!(
        refused(1000, &largest),
        Some(FlasheError::Coordinate {
            coordinate: u32::MAX,
            lanes: 1000
        })
    );
    let coordinate = FlasheError::Coordinate {
        coordinate: 8,
        lanes: 8,
    };
    assert_eq!(SparseMask::new(8, &[8]).err(), Some(coordinate));
    for coordinates in [&[5, 5][..], &[5, 3]] {
        let (coordinate, previous) = (coordinates[1], 5);
        let refused = SparseMask::new(8, coordinates).err();
        assert_eq!(
            refused,
            Some(FlasheError::Coordinates {
                coordinate,
                previous
            })
        );
    }
    let (lanes, largest) = ((1 << 32) + 1, 1 << 32);
    let refused = SparseMask::new(lanes, &[]).err();
    assert_eq!(refused, Some(FlasheError::DenseLanes { lanes, largest }));
}

#[test]
fn permutations_are_drawn_from_the_key_of_the_round() {
    let key = job_key(3);
    let table = |round: &RoundKey, lanes: u32| -> Vec<u32> {
        let permutation = round.permutation(lanes as usize).unwrap();
        (0..lanes)
            .map(|place| permutation.coordinate(place))
            .collect()
    };
    for lanes in [0, 1, 2, 63, 64, 1000] {
        let mut all = table(&key.round(6, &CONTEXT), lanes);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..lanes));
    }
    let rounds = [
        table(&key.round(6, &CONTEXT), 1000),
        table(&key.round(6, &Context([2; 32])), 1000),
        table(&job_key(4).round(6, &CONTEXT), 1000),
    ];
    for (i, one) in rounds.iter().enumerate() {
        assert!(one.iter().copied().zip(0..).filter(|(a, b)| a == b).count() < 10);
        for other in &rounds[..i] {
            assert!(one.iter().zip(other).filter(|(a, b)| a == b).count() < 10);
        }
    }
}

/// Every order of four coordinates is as likely as any other.
#[test]
fn permutations_are_uniform() {
    let mut seen = std::collections::BTreeMap::new();
    for i in 0..2400_u16 {
        let mut context = [0; 32];
        context[..2].copy_from_slice(&i.to_be_bytes());
        let permutation = job_key(3)
            .round(6, &Context(context))
            .permutation(4)
            .unwrap();
        *seen
            .entry([0, 1, 2, 3].map(|place| permutation.coordinate(place)))
            .or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 24);
    // 100 each, with a standard deviation of 10.
    assert!(
        seen.values().all(|&count: &i32| count.abs_diff(100) < 50),
        "{seen:?}"
    );
}

#[test]
fn sets_are_permuted() {
    let permutation = job_key(3).round(6, &CONTEXT).permutation(1001).unwrap();
    let set = some_of(1001, 5, 3);
    let (places, numbers) = permutation.permute(&set).unwrap();
    assert!(places != set);
    let coordinates: Vec<u32> = set.coordinates().collect();
    let there: Vec<u32> = numbers.iter().map(|&k| coordinates[k as usize]).collect();
    let of_places = places.coordinates().map(|p| permutation.coordinate(p));
    assert!(of_places.eq(there.iter().copied()));
    let mut back = there;
    back.sort_unstable();
    assert_eq!(back, coordinates);
    let refused = Some(FlasheError::MaskLanes {
        got: 1000,
        expected: 1001,
    });
    assert_eq!(permutation.permute(&some_of(1000, 5, 3)).err(), refused);
}

#[test]
fn sums_are_restored() {
    let round = job_key(3).round(6, &CONTEXT);
    for bits in [20, 40] {
        let parties = Parties::new(shape(Scheme::Double, bits, 1001), &[2, 3], 3);
        let sum = parties.decrypt(0, &parties.sum_of_all()).unwrap();
        let permutation = round.permutation(1001).unwrap();
        let (words, contributors) = permutation.restore(&sum).unwrap();
        for place in 0..1001 {
            let d = permutation.coordinate(place) as usize;
            assert_eq!(words.get(d), sum.words().get(place as usize));
            assert_eq!(contributors[d], sum.contributors()[place as usize]);
        }
        let refused = Some(FlasheError::MaskLanes {
            got: 1001,
            expected: 1000,
        });
        assert_eq!(
            round.permutation(1000).unwrap().restore(&sum).err(),
            refused
        );
    }
}
