//! Products and openings.

use std::sync::Arc;

use proptest::prelude::*;

use crate::testing::{opened, run, shared, vectors_of};
use crate::{Mpc, MpcError, Ring, Shares};

fn check_products<R: Ring>(x: Vec<R>, y: Vec<R>, length: usize) {
    let (left, right) = (x.clone(), y.clone());
    let outcome = run(move |mpc| {
        let (x, y) = (shared(mpc.me(), &left), shared(mpc.me(), &right));
        async move { mpc.dot(&x, &y, length).await }
    });
    let outcome = outcome.unwrap();
    let dot = |(x, y): (&[R], &[R])| {
        let products = x.iter().zip(y).map(|(x, y)| x.times(*y));
        products.fold(R::ZERO, R::plus)
    };
    let expected: Vec<R> = x.chunks(length).zip(y.chunks(length)).map(dot).collect();
    assert_eq!(opened(&outcome.results), expected);
    // One element for each product, whatever its length.
    assert_eq!(outcome.rounds, 1);
    assert_eq!(outcome.sent, [expected.len() * R::BYTES; 3]);
}

proptest! {
    #[test]
    fn dot_products_are_exact(
        x in prop::collection::vec(any::<u64>(), 12),
        y in prop::collection::vec(any::<u64>(), 12),
        length in prop::sample::select(vec![1usize, 2, 3, 4, 6, 12]),
    ) {
        check_products(x, y, length);
    }

    #[test]
    fn so_are_those_of_the_larger_ring(
        x in prop::collection::vec(any::<u128>(), 6),
        y in prop::collection::vec(any::<u128>(), 6),
    ) {
        check_products(x, y, 3);
    }

    #[test]
    fn what_is_opened_is_what_was_shared(values in prop::collection::vec(any::<u128>(), 0..9)) {
        let inputs = values.clone();
        let outcome = run(move |mpc| {
            let x = shared(mpc.me(), &inputs);
            async move { crate::join(mpc.open(&x), mpc.open_low(&x)).await }
        });
        let (count, outcome) = (values.len(), outcome.unwrap());
        let low: Vec<u64> = values.iter().map(|value| value.low()).collect();
        for (whole, lower) in outcome.results {
            prop_assert_eq!(&whole, &values);
            prop_assert_eq!(&lower, &low);
        }
        // Both were opened in the same round.
        prop_assert_eq!(outcome.rounds, u32::from(count > 0));
        prop_assert_eq!(outcome.sent, [24 * count; 3]);
    }
}

#[test]
fn linear_work_needs_nobody() {
    let outcome = run(|mpc: Mpc<u64>| async move {
        let me = mpc.me();
        let x = shared::<u64>(me, &[1, 2, 3, 4]);
        let y = x
            .times(10)
            .plus(&x)?
            .plus_public(me, 7)
            .minus(&Shares::public(me, &[5; 4]))?;
        Ok(Shares::concat(&[&y.sums(2), &y.at([3, 0])]))
    });
    let outcome = outcome.unwrap();
    assert_eq!(opened(&outcome.results), [37, 81, 46, 13]);
    assert_eq!(outcome.rounds, 0);
}

#[test]
fn weights_and_vectors() {
    let vectors = [[1u64, 2, 3], [10, 20, 30]];
    let outcome = run(move |mpc| async move {
        let me = mpc.me();
        let weights = shared::<u64>(me, &[7, u64::MAX]);
        let vectors = Arc::new(vectors_of(me, &vectors));
        crate::join(mpc.weighted(&weights, &vectors), mpc.gram(&vectors)).await
    });
    let [zero, one, two] = outcome.unwrap().results;
    let weighted = opened(&[zero.0, one.0, two.0]);
    let expected = [1u64, 2, 3].map(|it| (7 * it).wrapping_sub(10 * it));
    assert_eq!(weighted, expected);
    assert_eq!(opened(&[zero.1, one.1, two.1]), [14, 140, 1400]);
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let shape = |left, right, rule| Err(MpcError::Shape { left, right, rule });
    let outcome = run(|mpc| async move {
        let me = mpc.me();
        let (two, three) = (shared::<u64>(me, &[1, 2]), shared(me, &[1, 2, 3]));
        let unequal = mpc.multiply(&two, &three).await;
        let uneven = mpc.dot(&three, &three, 2).await;
        let vectors = Arc::new(vectors_of(me, &[[1, 2], [3, 4]]));
        let weighted = mpc.weighted(&three, &vectors).await;
        Ok([
            unequal,
            uneven,
            weighted,
            two.plus(&three),
            vectors.dot_public(&[1, 2, 3]),
        ])
    });
    let outcome = outcome.map(|outcome| outcome.results[0].clone()).unwrap();
    let rule = "as many in both";
    let multiple = "a multiple of the length of a dot product, which is the second number,";
    assert_eq!(outcome[0], shape(2, 3, rule));
    assert_eq!(outcome[1], shape(3, 2, multiple));
    assert_eq!(outcome[2], shape(3, 2, rule));
    assert_eq!(outcome[3], shape(2, 3, rule));
    assert_eq!(outcome[4], shape(2, 3, rule));
}
