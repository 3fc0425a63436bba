use proptest::prelude::*;

use super::*;
use crate::twin_residue::PRIMES;
use crate::words::Words;

fn width(bits: u32) -> Width {
    Width::new(bits).unwrap()
}

/// Numbers that depend on the label, every third one all ones and every fifth one zero.
fn numbers(label: u64, count: usize) -> Vec<u64> {
    let number = |i: u64| match (i % 3, i % 5) {
        (0, _) => u64::MAX,
        (_, 0) => 0,
        _ => (i + 1 + (label << 20)).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    };
    (0..count as u64).map(number).collect()
}

/// Lanes with junk above bit b.
fn lanes(bits: u32, values: &[u64]) -> Words {
    let mut words = Words::zeros(width(bits), values.len());
    match words.tile_mut(0..values.len()) {
        TileMut::W32(lanes) => lanes
            .iter_mut()
            .zip(values)
            .for_each(|(l, v)| *l = *v as u32),
        TileMut::W64(lanes) => lanes.copy_from_slice(values),
    }
    words
}

/// Σ m_i ρ_i·2^k from the definition, modulo each prime by itself.
fn slow(bits: u32, values: &[u64], rho: &[u64]) -> [u8; 16] {
    let residues = PRIMES.map(u128::from).map(|p| {
        let terms = values.iter().enumerate().map(|(lane, &value)| {
            let value = u128::from(value & width(bits).mask());
            let (i, weight) = if bits <= 32 {
                (lane / 2, lane % 2 * 32)
            } else {
                (lane, 0)
            };
            let rho = u128::from(rho[i] % (1 << 60)) % p;
            (value << weight) % p * rho % p
        });
        terms.fold(0, |sum, term| (sum + term) % p)
    });
    (residues[0] | residues[1] << 64).to_le_bytes()
}

/// Checks all code paths against the definition, and that lanes come out reduced.
fn check(bits: u32, values: &[u64], rho: &[u64]) {
    let expected = slow(bits, values, rho);
    let reduced: Vec<u64> = values.iter().map(|v| v & width(bits).mask()).collect();
    let is_reduced = |words: &Words| match words.tile(0..values.len()) {
        crate::words::Tile::W32(lanes) => lanes
            .iter()
            .map(|&lane| u64::from(lane))
            .eq(reduced.iter().copied()),
        crate::words::Tile::W64(lanes) => lanes == reduced,
    };
    let coefficients = Coefficients::new(rho.to_vec());
    let mut words = lanes(bits, values);
    let product = coefficients.reduce_and_multiply(width(bits), words.tile_mut(0..values.len()));
    assert_eq!(
        product.to_bytes(),
        expected,
        "{bits} bits, {} lanes",
        values.len()
    );
    assert!(is_reduced(&words));

    let mut words = lanes(bits, values);
    let product = match words.tile_mut(0..values.len()) {
        TileMut::W32(lanes) => portable::multiply32(width(bits), lanes, &coefficients.0),
        TileMut::W64(lanes) => portable::multiply64(width(bits), lanes, &coefficients.0),
    };
    assert_eq!(
        product.to_bytes(),
        expected,
        "portable, {bits} bits, {} lanes",
        values.len()
    );
    assert!(is_reduced(&words));
}

#[test]
fn every_width_and_remainder() {
    for bits in 1..=64 {
        for len in (0..70).chain([255, 256, 257]) {
            check(bits, &numbers(1, len), &numbers(2, len));
        }
    }
}

/// The most and the largest terms: sums do not overflow.
#[test]
fn the_largest_tile_of_the_largest_words() {
    for bits in [20, 21, 32, 33, 52, 53, 64] {
        for rho in [u64::MAX, (1 << 52) - 1, 0xff << 52] {
            let len = if bits <= 32 {
                2 * Coefficients::MAX
            } else {
                Coefficients::MAX
            };
            check(
                bits,
                &vec![u64::MAX; len],
                &vec![rho; len.min(Coefficients::MAX)],
            );
        }
    }
}

#[test]
#[should_panic(expected = "at most 4096 coefficients")]
fn more_coefficients_than_sums_have_room_for() {
    Coefficients::new(vec![0; Coefficients::MAX + 1]);
}

#[test]
#[should_panic(expected = "3 words, 2 coefficients")]
fn a_tile_longer_than_the_coefficients() {
    Coefficients::new(vec![0; 2]).reduce_and_multiply(width(20), TileMut::W32(&mut [0; 5]));
}

#[test]
#[should_panic(expected = "lanes of another width")]
fn a_tile_of_another_lane_type() {
    Coefficients::new(vec![0; 2]).reduce_and_multiply(width(20), TileMut::W64(&mut [0; 2]));
}

proptest! {
    #[test]
    fn as_defined(bits in 1..=64_u32, values in prop::collection::vec(any::<u64>(), 0..200), seed in any::<u32>()) {
        check(bits, &values, &numbers(seed.into(), values.len()));
    }

    /// What the check of FLASHE is built on.
    #[test]
    fn linear_over_the_integers(bits in 2..=64_u32, len in 0..100_usize) {
        let [a, b] = [1, 2].map(|label| -> Vec<u64> {
            numbers(label, len).iter().map(|v| (v & width(bits).mask()) / 2).collect()
        });
        let sum: Vec<u64> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        let coefficients = Coefficients::new(numbers(3, len));
        let product = |values| {
            coefficients.reduce_and_multiply(width(bits), lanes(bits, values).tile_mut(0..len))
        };
        prop_assert_eq!(product(&a) + product(&b), product(&sum));
    }
}
