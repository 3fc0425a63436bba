//! What a party has shared as a direction is one, or nothing is shown.

use std::sync::Arc;

use proptest::prelude::*;

use crate::line::Line;
use crate::rules::{Bounds, Trusted};
use crate::testing::{Cheat, carry, server, shared, verifying};
use crate::{DIRECTION_BITS, Gate, Mpc, MpcError, Ring, ServerIndex, Shares, Vectors, join};

const LENGTH: usize = 64;

/// The norm of a direction.
const ONE: i64 = 1 << DIRECTION_BITS;

/// What a vector of 64 coordinates may be longer or shorter by, for how they are rounded.
const ROUNDED: i64 = 8 / 2 + 2;

fn vectors(me: ServerIndex, rows: &[Vec<i64>]) -> Vectors {
    let components = rows.iter().map(|row| {
        let words: Vec<u64> = row.iter().map(|it| *it as u64).collect();
        shared(me, &words).components().map(<[u64]>::to_vec)
    });
    Vectors::new(components.collect()).unwrap()
}

/// What becomes of two vectors that are compared with this one.
async fn compared<R: Ring>(mpc: Mpc<R>, direction: Vec<i64>) -> Result<Vec<u64>, MpcError> {
    let along = |sign: i64| vec![sign * 100; LENGTH];
    let given = Arc::new(vectors(mpc.me(), &[along(1), along(-1)]));
    let unit = &vectors(mpc.me(), &[direction]);
    let bounds = Bounds::gated(Gate::new(1 << 10, [5; 32])?);
    let trusted = Trusted::Uploaded { unit, norm: 1e3 };
    let weighed = mpc.fltrust(&given, bounds, trusted, false).await?;
    weighed.verify(&mpc).await?;
    mpc.reveal(&weighed.shown()).await
}

/// What two ways of computing come to.
fn outcomes(direction: &[i64]) -> [Result<Vec<u64>, MpcError>; 2] {
    let semi = |me, line: Line| compared(server::<u64>(me, line), direction.to_vec());
    let active = |me, line: Line| compared(verifying(me, line), direction.to_vec());
    let first = |outcome: crate::testing::Outcome<Vec<u64>>| outcome.results[0].clone();
    [
        carry(semi, |_| {}).map(first),
        carry(active, |_| {}).map(first),
    ]
}

/// A vector of this norm in one coordinate.
fn single(norm: i64) -> Vec<i64> {
    let mut direction = vec![0; LENGTH];
    direction[7] = norm;
    direction
}

/// Abuse case 26: a root that shares other numbers than a direction makes no trust wrap around. Nothing is shown.
#[test]
fn case_26_what_is_no_direction_shows_nothing() {
    let all = |each: i64| vec![each; LENGTH];
    // Modulo 2^64 the norm is right, and so are all dot products with vectors of one number.
    let mut hidden = all(ONE / 8);
    hidden[0] += 1 << 33;
    hidden[1] -= 1 << 33;
    let squared = |x: &[i64]| {
        let squares = x.iter().map(|it| it.wrapping_mul(*it));
        squares.fold(0, i64::wrapping_add)
    };
    let mut far = hidden.clone();
    far[0] += 1 << 60;
    far[1] -= 1 << 60;
    assert_eq!([squared(&hidden), squared(&far)], [ONE * ONE; 2]);
    for wrong in [
        hidden,
        far,
        all(0),
        all(i64::MIN),
        all(1 << 32),
        all(1 << 62),
        single(1),
        single(ONE / 2),
        single(ONE - ROUNDED - 1),
        single(ONE + ROUNDED + 1),
        single(2 * ONE),
        single(-(1 << 32)),
        // As long as the gate lets through.
        all(6 * ONE / 8),
    ] {
        let [semi, active] = outcomes(&wrong);
        assert_eq!(semi, Err(MpcError::Direction), "{wrong:?}");
        assert_eq!(active, Err(MpcError::Direction), "{wrong:?}");
    }
    for right in [
        all(ONE / 8),
        single(ONE),
        single(ROUNDED - ONE),
        single(ONE + ROUNDED),
    ] {
        for outcome in outcomes(&right) {
            assert!(outcome.is_ok(), "{right:?}: {outcome:?}");
        }
    }
}

/// Abuse case 26: any square of a norm that the gate lets through is told apart, also beyond 2^63.
#[test]
fn case_26_the_norm_of_a_direction_is_exact() {
    let [least, most] = [ONE - ROUNDED, ONE + ROUNDED].map(|norm| norm as u64 * norm as u64);
    let longest = 6.4 * 2f64.powi(29);
    let cases = [
        (least - 1, true),
        (least, false),
        (most, false),
        (most + 1, true),
        (0, true),
        (1, true),
        (1 << 63, true),
        ((1 << 63) + least, true),
        ((1 << 63) + most, true),
        ((1 << 63) - 1, true),
        ((longest * longest) as u64, true),
    ];
    let (squares, is_none): (Vec<u64>, Vec<bool>) = cases.into_iter().unzip();
    let code = |me, line| {
        let (mpc, squares) = (server::<u64>(me, line), squares.clone());
        async move {
            let mut bits = Vec::new();
            for squared in squares {
                let shares = Shares::public(me, &[squared]);
                let bit = mpc.is_no_direction(&shares, LENGTH).await?;
                bits.push(mpc.reveal_bits(&bit).await? == [1]);
            }
            Ok(bits)
        }
    };
    assert_eq!(carry(code, |_| {}).unwrap().results[2], is_none);
    assert!(longest * longest < 2f64.powi(64));
}

/// Abuse case 38: whatever product one server bends, no honest root is refused and no other vector is taken for a direction.
#[test]
fn case_38_no_bent_product_decides_what_is_a_direction() {
    let (honest, wrong) = (vec![ONE / 8; LENGTH], single(2 * ONE));
    for (direction, cheater) in [honest, wrong]
        .into_iter()
        .flat_map(|it| (0..3).map(move |n| (it.clone(), n)))
    {
        for before in 0.. {
            let cheat = Cheat::at(before, 1);
            let code = |me: ServerIndex, line| {
                let mut mpc = verifying(me, line);
                let cheats = me.number() == cheater;
                mpc.cheat = cheats.then(|| cheat.clone());
                let work = compared(mpc, direction.clone());
                async move {
                    match work.await {
                        Err(_) if cheats => Ok(Vec::new()),
                        result => result,
                    }
                }
            };
            let found = carry(code, |_| {}).err();
            if !cheat.is_done() {
                break;
            }
            let is_found = matches!(found, Some(MpcError::Differs { .. }));
            assert!(is_found, "{cheater}, {before}: {found:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Every direction passes, whatever its coordinates round to.
    #[test]
    fn directions_pass(parts in prop::collection::vec(-1.0f64..1.0, LENGTH), coin: u8) {
        let norm = parts.iter().map(|it| it * it).sum::<f64>().sqrt().max(1e-9);
        prop_assume!(norm > 1e-3);
        let unit: Vec<i64> = parts
            .iter()
            .map(|it| (it / norm * ONE as f64).round() as i64)
            .collect();
        let code = |me, line| {
            let (mpc, unit) = (server::<u64>(me, line), vectors(me, std::slice::from_ref(&unit)));
            async move {
                let none = vectors(me, &[vec![1; LENGTH]]);
                let gate = Gate::new(1 << 10, [coin; 32])?;
                let all = Arc::new(none.and(&unit)?);
                let (_, squared) = mpc.norms(&all).await?.split_at(1);
                let (passed, bit) =
                    join(mpc.gate(&none, Some(&unit), gate), mpc.is_no_direction(&squared, LENGTH)).await?;
                Ok((passed, mpc.reveal_bits(&bit).await?))
            }
        };
        let found = carry(code, |_| {}).unwrap().results[0].clone();
        prop_assert_eq!(found, (vec![true], vec![0]));
    }
}
