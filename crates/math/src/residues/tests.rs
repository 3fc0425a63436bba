use proptest::prelude::*;

use super::*;
use crate::field::Field;
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
    assert_eq!(unpack::<F>(&packed[1..]).expect("canonical"), values);
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
        let refusal = Err(MathError::NonCanonical {
            modulus: F::MODULUS,
        });
        for bad in 0..elements {
            for value in [F::MODULUS, u64::MAX] {
                let mut packed = vec![0; elements * length];
                packed[bad * length..][..length].copy_from_slice(&value.to_le_bytes()[..length]);
                assert_eq!(add_packed::<F>(&mut sum, &packed), refusal);
            }
        }
        assert_eq!(sum, vec![3; elements]);
    }
    assert!(matches!(
        unpack::<F>(&vec![0; 3 * length + 1]),
        Err(MathError::PackedElements { .. })
    ));
}

#[test]
fn bad_encodings_are_refused_and_change_nothing() {
    check_refusals::<Field31>();
    check_refusals::<Field47>();
    check_refusals::<Field48>();
}

fn check_rows<F: NttField>(rows: &[Row], count: usize) {
    let stride = count * F::ENCODED_LEN + 5;
    let mut packed = vec![9; rows.len() * stride];
    pack_rows::<F>(rows, count, &mut packed, stride);
    for (row, bytes) in rows.iter().zip(packed.chunks(stride)) {
        let (bytes, rest) = bytes.split_at(stride - 5);
        let mut expected = Vec::new();
        pack::<F>(&row.0[..count], &mut expected);
        assert_eq!(bytes, expected);
        assert_eq!(rest, [9; 5]);
        let mut alone = vec![0; bytes.len()];
        pack_row::<F>(row, count, &mut alone);
        assert_eq!(bytes, alone);
    }
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
    fn rows_are_packed_alike(values in prop::collection::vec(any::<[u64; 8]>(), 0..9), count in 0_usize..=8) {
        let rows = |modulus| values.iter().map(|v| Row(v.map(|v| v % modulus))).collect::<Vec<Row>>();
        check_rows::<Field31>(&rows(Field31::MODULUS), count);
        check_rows::<Field47>(&rows(Field47::MODULUS), count);
        check_rows::<Field48>(&rows(Field48::MODULUS), count);
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
