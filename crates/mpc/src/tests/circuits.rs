//! Bits, comparisons, and bits as numbers.

use proptest::prelude::*;

use crate::testing::{opened, run, shared};
use crate::{Bits, MpcError, Ring};

/// The bits that three servers have shares of, as numbers: bit r of number i is in row r.
fn numbers(bits: &[Bits; 3]) -> Vec<u64> {
    for (server, of_server) in bits.iter().enumerate() {
        assert_eq!(
            of_server.next,
            bits[(server + 1) % 3].own,
            "component after {server}"
        );
    }
    let [zero, one, two] = bits;
    let words = zero.words();
    let bit = |row: usize, place: usize| {
        let at = row * words + place / 64;
        (zero.own[at] ^ one.own[at] ^ two.own[at]) >> (place % 64) & 1
    };
    let number = |place| (0..zero.rows()).fold(0, |sum, row| sum | bit(row, place) << row);
    (0..zero.width()).map(number).collect()
}

fn low(value: u64, bits: usize) -> u64 {
    value & (u64::MAX >> (64 - bits))
}

fn check_bits<R: Ring>(values: Vec<u64>, bits: usize) {
    let inputs: Vec<R> = values.iter().map(|value| R::of(*value)).collect();
    let outcome = run(move |mpc| {
        let x = shared(mpc.me(), &inputs);
        async move { crate::join(mpc.sign(&x, bits), mpc.to_bits(&x, bits)).await }
    });
    let outcome = outcome.unwrap();
    let levels = (bits as f64).log2().ceil() as u32;
    assert_eq!(outcome.rounds, 2 + levels);
    let [zero, one, two] = outcome.results;
    let signs = numbers(&[zero.0, one.0, two.0]);
    let all = numbers(&[zero.1, one.1, two.1]);
    let expected: Vec<u64> = values.iter().map(|value| low(*value, bits)).collect();
    assert_eq!(all, expected);
    let expected: Vec<u64> = expected.iter().map(|value| value >> (bits - 1)).collect();
    assert_eq!(signs, expected);
}

proptest! {
    #[test]
    fn numbers_are_taken_apart(
        values in prop::collection::vec(any::<u64>(), 1..150),
        bits in 2usize..=64,
    ) {
        check_bits::<u64>(values.clone(), bits);
        check_bits::<u128>(values, bits);
    }

    #[test]
    fn the_highest_bit_is_found(values in prop::collection::vec(0u64..300, 1..80)) {
        let inputs = values.clone();
        let outcome = run(move |mpc| {
            let x = shared::<u64>(mpc.me(), &inputs);
            async move {
                let bits = mpc.to_bits(&x, 9).await?;
                mpc.highest(&bits).await
            }
        });
        let found = numbers(&outcome.unwrap().results);
        let expected: Vec<u64> = values.iter().map(|it| it.checked_ilog2().map_or(0, |bit| 1 << bit)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn bits_become_numbers(values in prop::collection::vec(any::<u64>(), 1..70)) {
        let inputs: Vec<u128> = values.iter().map(|value| u128::from(*value)).collect();
        let outcome = run(move |mpc| {
            let x = shared(mpc.me(), &inputs);
            async move {
                let bits = mpc.to_bits(&x, 3).await?;
                mpc.to_numbers(&bits).await
            }
        });
        let expected: Vec<u128> = (0..3)
            .flat_map(|bit| values.iter().map(move |value| u128::from(value >> bit & 1)))
            .collect();
        prop_assert_eq!(opened(&outcome.unwrap().results), expected);
    }
}

#[test]
fn a_comparison_costs_what_it_must() {
    let outcome = run(|mpc| {
        let x = shared::<u64>(mpc.me(), &[u64::MAX; 8]);
        async move { mpc.sign(&x, 64).await }
    });
    let outcome = outcome.unwrap();
    // 251 ANDs of eight numbers side by side.
    assert_eq!((outcome.rounds, outcome.sent), (8, [251; 3]));
}

#[test]
fn not_turns_each_bit_round() {
    let outcome = run(|mpc| {
        let x = shared::<u64>(mpc.me(), &[5; 70]);
        async move { Ok(mpc.to_bits(&x, 4).await?.not(mpc.me())) }
    });
    assert_eq!(numbers(&outcome.unwrap().results), [10; 70]);
}

#[test]
fn a_number_of_bits_that_cannot_be_is_refused() {
    for bits in [0, 1, 65] {
        let outcome = run(move |mpc| {
            let x = shared::<u64>(mpc.me(), &[1]);
            async move { Ok([mpc.sign(&x, bits).await, mpc.to_bits(&x, bits).await]) }
        });
        let (name, value, rule) = ("bits", bits as u64, "2 <= bits <= 64");
        let [of_sign, of_bits] = outcome.unwrap().results[0].clone();
        assert_eq!(of_sign, Err(MpcError::Range { name, value, rule }));
        assert_eq!(of_bits, Err(MpcError::Range { name, value, rule }));
    }
}
