//! Truncation, inverse square roots and inverses, against floating-point numbers.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::testing::{carry, opened_signed, run, shared_signed, verifying};
use crate::{FRACTION, MpcError, Ring};

/// Truncates both ways; gives the results as signed numbers.
fn truncated<R: Ring>(values: &[i64], f: u32) -> Vec<i64> {
    let inputs = values.to_vec();
    let outcome = run(move |mpc| {
        let x = shared_signed::<R>(mpc.me(), &inputs);
        async move { mpc.truncate(&x, f).await }
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.rounds, 3);
    opened_signed(&outcome.results)
}

proptest! {
    #[test]
    fn a_truncated_number_is_one_of_two(
        values in prop::collection::vec(-(1i64 << 62)..1 << 62, 1..40),
        f in 1u32..=61,
    ) {
        for results in [truncated::<u64>(&values, f), truncated::<u128>(&values, f)] {
            for (value, result) in values.iter().zip(results) {
                let floor = value >> f;
                prop_assert!(result == floor || result == floor + 1, "{value} / 2^{f} = {result}");
            }
        }
    }

    #[test]
    fn a_product_can_be_truncated_at_once(
        pairs in prop::collection::vec((-(1i64 << 31)..1 << 31, -(1i64 << 31)..1 << 31), 1..40),
        f in 1u32..=40,
    ) {
        let inputs = pairs.clone();
        let outcome = run(move |mpc| {
            let (x, y): (Vec<i64>, Vec<i64>) = inputs.iter().copied().unzip();
            let (x, y) = (shared_signed::<u128>(mpc.me(), &x), shared_signed(mpc.me(), &y));
            async move { mpc.multiply_truncate(&x, &y, f).await }
        });
        let outcome = outcome.unwrap();
        prop_assert_eq!(outcome.rounds, 3);
        for ((x, y), result) in pairs.iter().zip(opened_signed(&outcome.results)) {
            let floor = (x * y) >> f;
            prop_assert!(result == floor || result == floor + 1, "{x} * {y} / 2^{f} = {result}");
        }
    }
}

proptest! {
    #[test]
    fn exact_truncation_rounds_down(
        values in prop::collection::vec(-(1i64 << 62)..1 << 62, 1..70),
        f in 1u32..=61,
    ) {
        let outcome = run(|mpc| {
            let x = shared_signed::<u64>(mpc.me(), &values);
            let mpc = mpc.exact();
            async move { mpc.truncate(&x, f).await }
        });
        let outcome = outcome.unwrap();
        let expected: Vec<i64> = values.iter().map(|value| value >> f).collect();
        prop_assert_eq!(opened_signed(&outcome.results), expected);
        // Two of them are those of random bits, which can be made ahead.
        prop_assert_eq!(outcome.rounds, 3 + f.next_power_of_two().ilog2() + 1 + 2);
    }

    #[test]
    fn so_does_that_of_a_product(
        pairs in prop::collection::vec((-(1i64 << 31)..1 << 31, -(1i64 << 31)..1 << 31), 1..20),
        f in 1u32..=40,
    ) {
        let (x, y): (Vec<i64>, Vec<i64>) = pairs.iter().copied().unzip();
        let outcome = carry(
            |me, line| {
                let mpc = verifying(me, line).exact();
                let (x, y) = (shared_signed(me, &x), shared_signed(me, &y));
                async move {
                    mpc.make_ahead([(x.len(), 64)]).await?;
                    let z = mpc.multiply_truncate(&x, &y, f).await?;
                    mpc.verify().await?;
                    Ok(z)
                }
            },
            |_| {},
        );
        let outcome = outcome.unwrap();
        let expected: Vec<i64> = pairs.iter().map(|(x, y)| (x * y) >> f).collect();
        prop_assert_eq!(opened_signed(&outcome.results), expected);
        prop_assert_eq!(outcome.rounds, 2 + 1 + f.next_power_of_two().ilog2() + 1 + 7);
    }
}

#[test]
fn rounding_is_right_on_average() {
    // A quarter above a whole number: one in four is rounded up.
    let values = vec![(5 << 20) + (1 << 18); 4000];
    let up = truncated::<u64>(&values, 20)
        .iter()
        .filter(|result| **result == 6)
        .count();
    assert!((880..1120).contains(&up), "{up} of 4000");
}

#[test]
fn inverse_roots() {
    let exponent = 30;
    let numbers: Vec<i64> = [0, 1, 2, 3, 4, 5, 63, 64, 1000, 123_456_789]
        .into_iter()
        .chain((1..100).map(|i| i * i * 0xffff_ffff_ffff))
        .chain([(1 << 61) - 1, 1 << 61])
        .collect();
    let inputs = numbers.clone();
    let outcome = run(move |mpc| {
        let n = shared_signed::<u64>(mpc.me(), &inputs);
        async move {
            let inverse = mpc.inverse_root(&n, exponent).await?;
            Ok((inverse.root, inverse.scale))
        }
    });
    let [zero, one, two] = outcome.unwrap().results;
    let roots = opened_signed(&[zero.0, one.0, two.0]);
    let scales = opened_signed(&[zero.1, one.1, two.1]);
    for ((number, root), scale) in numbers.iter().zip(roots).zip(scales) {
        if *number == 0 {
            assert_eq!(scale, 0);
            continue;
        }
        assert!(scale.count_ones() == 1, "{scale} is a power of two");
        let found = root as f64 * scale as f64 / 2f64.powi((exponent + FRACTION) as i32);
        let error = (found * (*number as f64).sqrt() - 1.0).abs();
        assert!(
            error < 2f64.powi(-20),
            "1/sqrt({number}) is {found}, relative error {error}"
        );
    }
}

#[test]
fn inverses() {
    let bits = 40;
    let numbers: Vec<i64> = [0, 1, 2, 3, 7, 1000, (1 << 40) - 1, 1 << 39]
        .into_iter()
        .chain((1..60).map(|i| i * i * i * 987_654))
        .collect();
    let inputs = numbers.clone();
    let outcome = run(move |mpc| {
        let v = shared_signed::<u128>(mpc.me(), &inputs);
        async move {
            let found = mpc.inverse(&v, bits, 0).await?;
            Ok((found.inverse, found.scale))
        }
    });
    let [zero, one, two] = outcome.unwrap().results;
    let inverses = opened_signed(&[zero.0, one.0, two.0]);
    let scales = opened_signed(&[zero.1, one.1, two.1]);
    for ((number, inverse), scale) in numbers.iter().zip(inverses).zip(scales) {
        if *number == 0 {
            assert_eq!(scale, 0);
            continue;
        }
        let found = inverse as f64 * scale as f64 / 2f64.powi((bits - 1 + FRACTION) as i32);
        let error = (found * *number as f64 - 1.0).abs();
        assert!(
            error < 2f64.powi(-25),
            "1/{number} is {found}, relative error {error}"
        );
    }
}

#[test]
fn numbers_of_bits_that_cannot_be_are_refused() {
    let outcome = run(|mpc| async move {
        let x = shared_signed::<u64>(mpc.me(), &[1]);
        let root = |it| mpc.inverse_root(&x, it);
        Ok([
            mpc.truncate(&x, 0).await.err(),
            mpc.multiply_truncate(&x, &x, 62).await.err(),
            root(14).await.err(),
            root(31).await.err(),
            mpc.inverse(&x, 29, 0).await.err(),
            mpc.inverse(&x, 62, 0).await.err(),
        ])
    });
    let range = |name, value, rule| Some(MpcError::Range { name, value, rule });
    let (of_f, of_root, of_inverse) = ("1 <= f <= 61", "15 <= I <= 30", "30 <= bits <= 61");
    let expected = [
        range("f", 0, of_f),
        range("f", 62, of_f),
        range("I", 14, of_root),
        range("I", 31, of_root),
        range("bits", 29, of_inverse),
        range("bits", 62, of_inverse),
    ];
    assert_eq!(outcome.unwrap().results[0], expected);
}

/// Abuse case 38: a ring of 128 bits has bits above the 64 of a value, in which components leave what they carried. What is
/// opened of a product shows nothing of them.
#[test]
fn case_38_nothing_shows_above_the_bits_of_a_value() {
    const COUNT: usize = 64;
    let code = |me, line| {
        let mpc = verifying(me, line);
        let x = shared_signed::<u128>(me, &[3; COUNT]);
        async move { mpc.multiply_truncate(&x, &x, 1).await }
    };
    let rounds = carry(code, |_| {}).unwrap().rounds;
    let mut opened = vec![0u128; COUNT];
    carry(code, |carried| {
        // Each server says its part to both others in the last round.
        if carried.round == rounds - 1 && carried.to == (carried.from + 1) % 3 {
            let parts = carried.bytes.chunks_exact(16);
            for (sum, part) in opened.iter_mut().zip(parts) {
                *sum = sum.wrapping_add(u128::from_le_bytes(part.try_into().unwrap()));
            }
        }
    })
    .unwrap();
    let upper: BTreeSet<u64> = opened.iter().map(|it| (it >> 64) as u64).collect();
    assert_eq!(upper.len(), COUNT, "{upper:?}");
    let spread = upper.iter().filter(|it| **it >> 63 == 1).count();
    assert!((16..=48).contains(&spread), "{upper:?}");
}
