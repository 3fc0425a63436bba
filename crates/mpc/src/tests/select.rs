//! Ranks and the smallest numbers.

use proptest::prelude::*;

use crate::MpcError;
use crate::testing::{carry, opened_signed, run, server, shared_signed, verifying};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn ranks_are_those_of_a_stable_sort(
        values in prop::collection::vec(-4i64..4, 14),
        size in prop::sample::select(vec![1usize, 2, 7, 14]),
        keep in 0usize..15,
    ) {
        let inputs = values.clone();
        let outcome = run(move |mpc| {
            let x = shared_signed::<u64>(mpc.me(), &inputs);
            async move { crate::join(mpc.ranks(&x, size), mpc.smallest(&x, size, keep)).await }
        });
        let [zero, one, two] = outcome.unwrap().results;
        let ranks = opened_signed(&[zero.0, one.0, two.0]);
        let kept = opened_signed(&[zero.1, one.1, two.1]);
        for (group, values) in values.chunks(size).enumerate() {
            let mut order: Vec<usize> = (0..size).collect();
            order.sort_by_key(|place| values[*place]);
            for (rank, place) in order.into_iter().enumerate() {
                let at = group * size + place;
                prop_assert_eq!(ranks[at], rank as i64);
                prop_assert_eq!(kept[at], i64::from(rank < keep));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Large groups are sorted where servers verify; what is kept is the same.
    #[test]
    fn the_smallest_of_large_groups(
        values in prop::collection::vec(-20i64..20, 2 * 35),
        keep in 0usize..=35,
    ) {
        let smallest = |verifies: bool| {
            let code = |me, line| {
                let x = shared_signed::<u128>(me, &values);
                let mpc = if verifies { verifying(me, line) } else { server(me, line) };
                async move {
                    let kept = mpc.smallest(&x, 35, keep).await?;
                    mpc.verify().await?;
                    Ok(kept)
                }
            };
            let outcome = carry(code, |_| {}).unwrap();
            (opened_signed(&outcome.results), outcome.rounds)
        };
        let (ranked, few) = smallest(false);
        let (sorted, many) = smallest(true);
        prop_assert_eq!(ranked.iter().sum::<i64>(), 2 * keep as i64);
        prop_assert_eq!(ranked, sorted);
        prop_assert!(keep == 0 || many > few + 50);
    }
}

#[test]
fn the_rounds_do_not_grow_with_the_numbers() {
    let rounds = |size: usize| {
        let outcome = run(move |mpc| {
            let values: Vec<i64> = (0..size as i64).map(|i| i * i % 31).collect();
            let x = shared_signed::<u64>(mpc.me(), &values);
            async move { mpc.smallest(&x, size, 3).await }
        });
        outcome.unwrap().rounds
    };
    assert_eq!(rounds(4), rounds(60));
}

#[test]
fn groups_that_cannot_be_are_refused() {
    let outcome = run(|mpc| async move {
        let x = shared_signed::<u64>(mpc.me(), &[1, 2, 3]);
        let refused = [
            mpc.ranks(&x, 0).await,
            mpc.ranks(&x, 257).await,
            mpc.ranks(&x, 2).await,
        ];
        Ok(refused.map(Result::err))
    });
    let range = |value| MpcError::Range {
        name: "size",
        value,
        rule: "1 <= size <= 256",
    };
    let uneven = MpcError::Shape {
        left: 3,
        right: 2,
        rule: "a multiple of the size of a group, which is the second number,",
    };
    let expected = [range(0), range(257), uneven].map(Some);
    assert_eq!(outcome.unwrap().results[0], expected);
}
