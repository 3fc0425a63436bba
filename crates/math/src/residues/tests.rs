use proptest::prelude::*;

use super::*;
use crate::prime_field::{Field31, Field47, Field48};

fn check_packing<F: NttField>(values: &[u64]) {
    let values: Vec<u64> = values.iter().map(|v| v % F::MODULUS).collect();
    let mut packed = vec![7];
    pack::<F>(&values, &mut packed);
    let mut expected = vec![7];
    for &value in &values {
        let mut bytes = vec![0; F::ENCODED_LEN];
        F::from_canonical(value)
            .expect("reduced")
            .write_to(&mut bytes);
        expected.extend(bytes);
    }
    assert_eq!(packed, expected);
    let mut unpacked = vec![0; values.len()];
    add_packed::<F>(&mut unpacked, &packed[1..]).expect("canonical");
    assert_eq!(unpacked, values);
    let mut sum: Vec<u64> = values.iter().map(|v| F::MODULUS - 1 - v / 2).collect();
    let expected: Vec<u64> = sum
        .iter()
        .zip(&values)
        .map(|(a, b)| (a + b) % F::MODULUS)
        .collect();
    add_packed::<F>(&mut sum, &packed[1..]).expect("canonical");
    assert_eq!(sum, expected);
}

fn check_refusals<F: NttField>() {
    let length = F::ENCODED_LEN;
    for elements in [1, 7, 8, 9, 40] {
        let mut sum = vec![3; elements];
        for got in [elements * length - 1, elements * length + 1, 0] {
            let refusal = MathError::PackedElements {
                got,
                elements,
                element_len: length,
            };
            assert_eq!(add_packed::<F>(&mut sum, &vec![0; got]), Err(refusal));
        }
        assert_eq!(sum, vec![3; elements]);
        let refusal = Err(MathError::NonCanonical {
            modulus: F::MODULUS,
        });
        for bad in 0..elements {
            for value in [F::MODULUS, u64::MAX] {
                let mut packed = vec![0; elements * length];
                packed[bad * length..][..length].copy_from_slice(&value.to_le_bytes()[..length]);
                assert_eq!(add_packed::<F>(&mut vec![3; elements], &packed), refusal);
            }
        }
    }
}

#[test]
fn bad_encodings_are_refused() {
    check_refusals::<Field31>();
    check_refusals::<Field47>();
    check_refusals::<Field48>();
}

fn check_columns<F: NttField>(rows: &[[u64; 8]], columns: usize, count: usize) {
    let rows: Vec<Row> = rows
        .iter()
        .map(|row| Row(row.map(|v| v % F::MODULUS)))
        .collect();
    let tiles: Vec<&[Row]> = rows.chunks_exact(columns).collect();
    let len = count * F::ENCODED_LEN;
    let mut packed = vec![9; columns * (len + 5)];
    let mut places: Vec<Option<&mut [u8]>> = packed.chunks_mut(len + 5).map(Some).collect();
    places[columns / 2] = None;
    pack_columns::<F>(&tiles, count, 3, &mut places);
    for (j, bytes) in packed.chunks(len + 5).enumerate() {
        let mut expected = vec![9; 3];
        if j == columns / 2 {
            expected.resize(3 + len, 9);
        } else {
            let residues = tiles.iter().flat_map(|tile| tile[j].0);
            pack::<F>(&residues.take(count).collect::<Vec<u64>>(), &mut expected);
        }
        expected.extend([9; 2]);
        assert_eq!(bytes, expected);
    }
}

#[test]
#[should_panic(expected = "tiles of 17 residues")]
fn tiles_that_are_too_few_are_a_bug() {
    let tile = [Row::default()];
    pack_columns::<Field31>(&[&tile, &tile], 17, 0, &mut [Some(&mut [0; 68])]);
}

/// Draws with any bits above those that count; low and high ones, accepted and not.
fn check_draws<F: NttField>(seeds: &[u64], room: usize) {
    let draws: Vec<u64> = seeds
        .iter()
        .map(|&seed| match seed % 4 {
            0 => F::MODULUS + seed % 3,
            1 => F::MODULUS - 1 - seed % 3,
            _ => seed,
        })
        .collect();
    let bytes: Vec<u8> = draws
        .iter()
        .flat_map(|draw| draw.to_le_bytes()[..F::DRAW_BYTES].to_vec())
        .collect();
    let (mut expected, mut expected_used) = (Vec::new(), 0);
    for draw in &draws {
        if expected.len() == room {
            break;
        }
        expected_used += 1;
        let value = draw & ((1 << F::BITS) - 1);
        if value < F::MODULUS {
            expected.push(value);
        }
    }
    let mut out = vec![0; room];
    let (used, written) = accept::<F>(&bytes, &mut out);
    assert_eq!((used, &out[..written]), (expected_used, &expected[..]));
}

#[test]
fn draws_are_accepted_in_order() {
    // The low 31 bits are 0x7f000000 (p - 1), p, 0, and 5; then the output is full.
    let draws = [0xff00_0000_u32, 0x7f00_0001, 0x8000_0000, 5, 6];
    let bytes: Vec<u8> = draws.iter().flat_map(|draw| draw.to_le_bytes()).collect();
    let mut out = [1; 3];
    assert_eq!(accept::<Field31>(&bytes, &mut out), (4, 3));
    assert_eq!(out, [0x7f00_0000, 0, 5]);
    assert_eq!(accept::<Field31>(&bytes[..7], &mut out), (1, 1));
    assert_eq!(
        (
            Field31::DRAW_BYTES,
            Field47::DRAW_BYTES,
            Field48::DRAW_BYTES
        ),
        (4, 8, 8)
    );
}

proptest! {
    #[test]
    fn packing_is_the_encoding_of_each(values in prop::collection::vec(any::<u64>(), 0..70)) {
        check_packing::<Field31>(&values);
        check_packing::<Field47>(&values);
        check_packing::<Field48>(&values);
    }

    #[test]
    fn columns_are_packed_alike(
        rows in prop::collection::vec(any::<[u64; 8]>(), 60),
        columns in 1_usize..30,
        missing in 0_usize..9,
    ) {
        let count = 8 * (60 / columns) - missing.saturating_sub(1);
        check_columns::<Field31>(&rows, columns, count);
        check_columns::<Field47>(&rows, columns, count);
        check_columns::<Field48>(&rows, columns, count);
    }

    #[test]
    fn draws_are_accepted_as_one_by_one(
        seeds in prop::collection::vec(any::<u64>(), 0..100),
        room in 0_usize..80,
    ) {
        check_draws::<Field31>(&seeds, room);
        check_draws::<Field47>(&seeds, room);
        check_draws::<Field48>(&seeds, room);
    }
}
