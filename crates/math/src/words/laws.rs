//! Laws of [`Words`] against a bit-by-bit model of the packed form.

use proptest::prelude::*;

use super::{TileMut, Width, Words, add_packed_tile, add_packed_tiles, pack_tile, pack_tile_into};
use crate::MathError;

/// The packed form from its definition, one bit at a time.
fn pack_bit_by_bit(bits: u32, values: &[u64]) -> Vec<u8> {
    let mut packed = vec![0; (values.len() * bits as usize).div_ceil(8)];
    let string = values
        .iter()
        .flat_map(|value| (0..bits).map(move |bit| value >> bit & 1));
    for (k, bit) in string.enumerate() {
        packed[k / 8] |= (bit as u8) << (k % 8);
    }
    packed
}

/// A width and vectors of one length, of arbitrary lanes (junk above bit b included).
fn vectors(count: usize) -> impl Strategy<Value = (Width, Vec<Vec<u64>>)> {
    (1..=64_u32, 0..150_usize).prop_flat_map(move |(bits, len)| {
        let width = Width::new(bits).unwrap();
        let lane = prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), Just(width.mask())];
        let vector = prop::collection::vec(lane, len);
        (Just(width), prop::collection::vec(vector, count))
    })
}

/// Words whose lanes are `lanes` unreduced.
fn with_junk(width: Width, lanes: &[u64]) -> Words {
    let mut words = Words::zeros(width, lanes.len());
    match words.tile_mut(0..lanes.len()) {
        TileMut::W32(tile) => tile.iter_mut().zip(lanes).for_each(|(t, &l)| *t = l as u32),
        TileMut::W64(tile) => tile.copy_from_slice(lanes),
    }
    words
}

fn reduced(width: Width, lanes: &[u64]) -> Vec<u64> {
    lanes.iter().map(|lane| lane & width.mask()).collect()
}

proptest! {
    #[test]
    fn packs_as_defined_and_unpacks_again((width, vectors) in vectors(1)) {
        let values = reduced(width, &vectors[0]);
        let words = with_junk(width, &vectors[0]);
        prop_assert_eq!(words.iter().collect::<Vec<_>>(), values.clone());
        let packed = words.pack();
        prop_assert_eq!(&packed, &pack_bit_by_bit(width.bits(), &values));
        let again = Words::unpack(width, values.len(), &packed).unwrap();
        prop_assert_eq!(&again, &words);
        prop_assert_eq!(&again, &Words::from_values(width, &values).unwrap());
    }

    #[test]
    fn adds_mod_2_to_the_b((width, vectors) in vectors(3)) {
        let mut sum = with_junk(width, &vectors[0]);
        sum.add_packed(&with_junk(width, &vectors[1]).pack()).unwrap();
        sum.add(&with_junk(width, &vectors[2])).unwrap();
        for i in 0..sum.len() {
            let wide: u128 = vectors.iter().map(|vector| u128::from(vector[i])).sum();
            prop_assert_eq!(u128::from(sum.get(i)), wide & u128::from(width.mask()));
        }
    }

    #[test]
    fn tiles_of_8_lanes_append_to_the_whole((width, vectors) in vectors(1), groups in 1..6_usize) {
        let words = with_junk(width, &vectors[0]);
        let mut packed = vec![0xa5];
        for first in (0..words.len()).step_by(8 * groups) {
            let tile = words.tile(first..words.len().min(first + 8 * groups));
            pack_tile(width, tile, &mut packed);
        }
        prop_assert_eq!(&packed[1..], &words.pack()[..]);
    }

    #[test]
    fn tiles_of_8_lanes_are_pieces_of_the_whole((width, vectors) in vectors(2), groups in 1..6_usize) {
        let [words, mut sum] = [0, 1].map(|i| with_junk(width, &vectors[i]));
        let mut packed = vec![0xa5; width.packed_len(words.len())];
        let mut expected = sum.clone();
        expected.add_packed(&words.pack()).unwrap();
        let piece = groups * width.bits() as usize;
        for (i, bytes) in packed.chunks_mut(piece).enumerate() {
            let lanes = 8 * groups * i..words.len().min(8 * groups * (i + 1));
            pack_tile_into(width, words.tile(lanes.clone()), bytes);
            add_packed_tile(width, sum.tile_mut(lanes), bytes).unwrap();
        }
        prop_assert_eq!(&packed, &words.pack());
        prop_assert_eq!(&sum, &expected);
    }

    #[test]
    fn many_add_up_like_one_by_one((width, vectors) in vectors(5), count in 0..5_usize) {
        let mut sum = with_junk(width, &vectors[4]);
        let mut expected = sum.clone();
        let packed: Vec<Vec<u8>> =
            vectors[..count].iter().map(|lanes| with_junk(width, lanes).pack()).collect();
        packed.iter().for_each(|packed| expected.add_packed(packed).unwrap());
        let packed: Vec<&[u8]> = packed.iter().map(Vec::as_slice).collect();
        let tile = sum.tile_mut(0..vectors[4].len());
        add_packed_tiles(width, tile, &packed).unwrap();
        prop_assert_eq!(&sum, &expected);
    }
}

#[test]
fn wrong_lengths_are_refused_and_change_nothing() {
    for bits in 1..=64 {
        let width = Width::new(bits).unwrap();
        for lanes in [0, 1, 7, 8, 9, 64, 67] {
            let mut words = Words::from_values(width, &vec![1; lanes]).unwrap();
            let right = words.pack();
            for wrong in [right.len() + 1, right.len().wrapping_sub(1)] {
                if wrong == usize::MAX {
                    continue;
                }
                let packed = vec![0; wrong];
                let refused = MathError::PackedLength {
                    got: wrong,
                    expected: right.len(),
                    lanes,
                    bits,
                };
                assert_eq!(Words::unpack(width, lanes, &packed), Err(refused));
                assert_eq!(words.add_packed(&packed), Err(refused));
                let tile = words.tile_mut(0..lanes);
                assert_eq!(add_packed_tile(width, tile, &packed), Err(refused));
                let tile = words.tile_mut(0..lanes);
                let many = add_packed_tiles(width, tile, &[&right, &packed]);
                assert_eq!(many, Err(refused));
                assert!(words.iter().all(|word| word == 1));
            }
        }
    }
    let widest = Width::new(64).unwrap();
    assert!(Words::unpack(widest, usize::MAX, &[]).is_err());
}

#[test]
fn every_set_padding_bit_is_refused_and_changes_nothing() {
    for bits in 1..=64_u32 {
        let width = Width::new(bits).unwrap();
        for lanes in 0..20 {
            let mut words = Words::zeros(width, lanes);
            for bit in lanes * bits as usize..8 * width.packed_len(lanes) {
                let mut packed = words.pack();
                packed[bit / 8] |= 1 << (bit % 8);
                let refused = MathError::Padding {
                    last: packed[bit / 8],
                };
                assert_eq!(Words::unpack(width, lanes, &packed), Err(refused));
                assert_eq!(words.add_packed(&packed), Err(refused));
                assert!(words.iter().all(|word| word == 0));
            }
        }
    }
}

#[test]
fn values_and_shapes_that_do_not_fit_are_refused() {
    let width = Width::new(23).unwrap();
    let refused = Words::from_values(width, &[0, 1 << 23]);
    let (lane, value, bits) = (1, 1 << 23, 23);
    assert_eq!(refused, Err(MathError::Value { lane, value, bits }));

    let mut words = Words::zeros(width, 3);
    let wider = Words::zeros(Width::new(24).unwrap(), 3);
    for other in [&wider, &Words::zeros(width, 4)] {
        assert!(matches!(words.add(other), Err(MathError::Shape { .. })));
        assert_ne!(&words, other);
    }
}

#[test]
fn debug_output_shows_no_word() {
    let words = Words::from_values(Width::new(32).unwrap(), &[987_654_321]).unwrap();
    assert_eq!(format!("{words:?}"), "Words { width: 32, len: 1, .. }");
}
