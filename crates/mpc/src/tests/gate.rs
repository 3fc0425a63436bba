//! Who passes the range gate, and what it costs.

use std::sync::Arc;

use proptest::prelude::*;

use crate::project::project;
use crate::rules::{Bounds, Rule, Trusted, Weighed, finish};
use crate::testing::{Carried, Cheat, carry, opened_signed, server, shared, verifying};
use crate::{Gate, Mpc, MpcError, Ring, ServerIndex, Shares, Vectors, join};

const BOUND: u64 = 1 << 10;

/// 6 · 2^10 and the next power of two.
const BETA: i64 = 1 << 13;

fn vectors(me: ServerIndex, rows: &[Vec<i64>]) -> Arc<Vectors> {
    let components = rows.iter().map(|row| {
        let words: Vec<u64> = row.iter().map(|it| *it as u64).collect();
        shared(me, &words).components().map(<[u64]>::to_vec)
    });
    Arc::new(Vectors::new(components.collect()).unwrap())
}

fn gate(coin: u8) -> Gate {
    Gate::new(BOUND, [coin; 32]).unwrap()
}

/// Who passes, and the rounds.
fn passed<R: Ring>(
    start: impl Fn(ServerIndex, crate::line::Line) -> Mpc<R>,
    coin: u8,
    rows: &[Vec<i64>],
) -> (Vec<bool>, u32) {
    let code = |me, line| {
        let (mpc, vectors) = (start(me, line), vectors(me, rows));
        async move { mpc.gate(&vectors, None, gate(coin)).await }
    };
    let outcome = carry(code, |_| {}).unwrap();
    let [zero, one, two] = outcome.results;
    assert!(zero == one && one == two);
    (zero, outcome.rounds)
}

/// A vector of this norm, in all coordinates or in one.
fn long(norm: f64, length: usize) -> Vec<i64> {
    let each = (norm / (length as f64).sqrt()).floor() as i64;
    let sign = |place: usize| if place.is_multiple_of(3) { -1 } else { 1 };
    (0..length).map(|place| each * sign(place)).collect()
}

/// g, and 2^33 times a vector that is orthogonal to it: modulo 2^64 the norm is that of g, and so is the dot product with g.
fn hidden(g: &[i64]) -> Vec<i64> {
    let mut x = g.to_vec();
    x[0] += g[1] << 33;
    x[1] -= g[0] << 33;
    x
}

#[test]
fn case_26_who_is_too_long_is_thrown_out() {
    let honest = long(BOUND as f64, 64);
    let wrapped = hidden(&honest);
    let dot = |x: &[i64], y: &[i64]| {
        let products = x.iter().zip(y).map(|(x, y)| x.wrapping_mul(*y));
        products.fold(0, i64::wrapping_add)
    };
    assert_eq!(dot(&wrapped, &wrapped), dot(&honest, &honest));
    assert_eq!(dot(&wrapped, &honest), dot(&honest, &honest));
    let one = |value: i64| [vec![value], vec![0; 63]].concat();
    let rows = [
        honest,
        wrapped,
        one(BOUND as i64),
        one(-(BOUND as i64)),
        vec![0; 64],
        one(BETA + 1),
        one(2 * BETA + 1),
        one(i64::MIN),
        one(1 << 62),
        long(6.4 * BETA as f64 + 64.0, 64),
        long(-6.4 * BETA as f64 - 64.0, 64),
    ];
    let expected = [
        true, false, true, true, true, false, false, false, false, false, false,
    ];
    for coin in 0..4 {
        assert_eq!(passed(server::<u64>, coin, &rows), (expected.to_vec(), 17));
    }
    assert_eq!(passed(verifying, 4, &rows), (expected.to_vec(), 24));
}

/// The largest and the smallest projection of a vector.
fn extremes(coin: u8, row: &[i64]) -> (i64, i64) {
    let code = |me, _| {
        let projected = project::<u64>(&vectors(me, &[row.to_vec()]), [coin; 32]);
        async { Ok(projected) }
    };
    let projected = opened_signed(&carry(code, |_| {}).unwrap().results);
    let (most, least) = (projected.iter().max(), projected.iter().min());
    (*most.unwrap(), *least.unwrap())
}

/// Abuse case 26: both ends of the range are compared. Of these vectors one has projections above β and none below −β, the
/// other one the same the other way round, and the last one neither.
#[test]
fn case_26_one_projection_out_of_range_is_enough() {
    for coin in 0..6 {
        let made_up = |number: u64| -> Vec<i64> {
            let mixed = (0..64u64)
                .map(|place| (64 * number + place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            mixed
                .map(|it| ((it ^ it >> 31) % 201) as i64 - 100)
                .collect()
        };
        // A multiple of it is above β at one end, and well within at the other one.
        let is_lopsided = |row: &Vec<i64>| {
            let (most, least) = extremes(coin, row);
            10 * most > 11 * -least
        };
        let row = (0..).map(made_up).find(is_lopsided).unwrap();
        let (most, _) = extremes(coin, &row);
        let times = |factor: i64| row.iter().map(|it| it * factor).collect::<Vec<_>>();
        let factor = BETA / most + 1;
        let (above, below) = (times(factor), times(-factor));
        let (most, least) = extremes(coin, &above);
        assert!(most > BETA && least >= -BETA, "{most}, {least}");
        assert_eq!(extremes(coin, &below), (-least, -most));
        let rows = [above, below, times(BETA / most)];
        assert_eq!(passed(server::<u64>, coin, &rows).0, [false, false, true]);
    }
}

/// What passes is shorter than I says, and what is not longer than B passes.
#[test]
fn the_bound_and_what_follows_from_it() {
    for (bound, beta, exponent) in [(1, 8, 6), (BOUND, 1 << 13, 16), (1 << 24, 1 << 27, 30)] {
        let gate = Gate::new(bound, [0; 32]).unwrap();
        assert_eq!((gate.beta(), gate.exponent()), (beta, exponent));
        assert!(gate.beta() >= 6 * bound && gate.beta() < 12 * bound);
        assert!(6.4 * gate.beta() as f64 <= 2f64.powi(exponent as i32));
    }
    for bound in [0, (1 << 24) + 1] {
        let (name, value, rule) = ("B", bound, "1 <= B <= 2^24");
        let refused = Gate::new(bound, [0; 32]);
        assert_eq!(refused, Err(MpcError::Range { name, value, rule }));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// No coin throws an honest vector out.
    #[test]
    fn honest_vectors_pass(coin in any::<u8>(), parts in prop::collection::vec(-100i64..=100, 64)) {
        let norm = parts.iter().map(|it| (it * it) as f64).sum::<f64>().sqrt().max(1.0);
        let scale = BOUND as f64 / norm;
        let row = parts.iter().map(|it| (*it as f64 * scale) as i64).collect();
        prop_assert_eq!(passed(server::<u64>, coin, &[row, long(BOUND as f64, 64)]).0, [true; 2]);
    }
}

/// Abuse case 26: vectors are not so long that sums of numbers within bounds wrap around.
#[test]
fn case_26_the_gate_bounds_the_length_of_vectors() {
    let bounds = Bounds::gated(Gate::new(1 << 24, [0; 32]).unwrap());
    let check = |length| Rule::Unlike.check((4, length), bounds, true);
    let longest = (1 << 35) - 1;
    assert_eq!(check(longest), Ok(()));
    let (name, value, rule) = ("D", 1 << 35, "2 * beta * D < 2^63");
    let refused = Err(MpcError::Range { name, value, rule });
    assert_eq!(check(longest + 1), refused);
    assert!(check(usize::MAX / 2).is_err());
    // A direction is longer than any vector.
    let of_trust = |length| {
        let trusted = Trusted::Known(&[]);
        let hide_total = false;
        let rule = Rule::FlTrust {
            trusted,
            hide_total,
        };
        rule.check((4, length), bounds, true)
    };
    assert_eq!(of_trust((1 << 33) - 1), Ok(()));
    assert!(of_trust(1 << 33).is_err());
}

#[test]
fn nobody_and_nothing() {
    assert_eq!(passed(server::<u64>, 0, &[]), (vec![], 0));
    let none: [Vec<i64>; 2] = Default::default();
    assert_eq!(passed(server::<u64>, 0, &none).0, [true; 2]);
}

/// Abuse case 38: a gate bit is shown only if what it was computed with has been verified.
#[test]
fn case_38_a_bent_gate() {
    let rows = [long(BOUND as f64, 4), hidden(&long(BOUND as f64, 4))];
    for cheater in 0..3 {
        // Eight rounds of comparison, eight of the tree.
        for before in 0..16 {
            let code = |me: ServerIndex, line| {
                let mut mpc = verifying(me, line);
                let cheats = me.number() == cheater;
                mpc.cheat = cheats.then(|| Cheat::at(before, 1));
                let vectors = vectors(me, &rows);
                async move {
                    let passed = mpc.gate(&vectors, None, gate(1)).await;
                    match passed {
                        Err(_) if cheats => Ok(vec![]),
                        passed => passed,
                    }
                }
            };
            let found = carry(code, |_| {}).err();
            assert!(
                matches!(found, Some(MpcError::Differs { .. })),
                "{cheater}, {before}"
            );
        }
    }
}

async fn trusted<R: Ring>(
    mpc: Mpc<R>,
    vectors: Arc<Vectors>,
    bounds: Bounds,
) -> Result<(Vec<f64>, Vec<bool>), MpcError> {
    let root: Vec<f64> = long(1e3, vectors.length())
        .into_iter()
        .map(|it| it as f64)
        .collect();
    let weighed = mpc
        .fltrust(&vectors, bounds, Trusted::Known(&root), false)
        .await?;
    shown(&mpc, weighed).await
}

async fn shown<R: Ring>(
    mpc: &Mpc<R>,
    weighed: Weighed<R>,
) -> Result<(Vec<f64>, Vec<bool>), MpcError> {
    weighed.verify(mpc).await?;
    let total = weighed.total.unwrap_or(Shares::zeros(0));
    let (sum, total) = join(mpc.reveal(&weighed.sum), mpc.reveal(&total)).await?;
    let result = finish(&sum, total.first().copied(), weighed.divisor);
    Ok((result, weighed.passed))
}

fn near(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-2, "{found}, not {expected}");
    }
}

/// The gate is beside the rest and costs no round; who does not pass does not count.
#[test]
fn case_26_trust_behind_a_gate() {
    let honest = [long(900.0, 6), long(500.0, 6), long(1000.0, 6)];
    let mut all = honest.to_vec();
    all.insert(1, hidden(&all[0]));
    let bounds = Bounds::gated(gate(3));
    let semi = |rows: &[Vec<i64>], bounds| {
        let code = |me, line| trusted(server::<u64>(me, line), vectors(me, rows), bounds);
        carry(code, |_| {}).unwrap()
    };
    let active = |rows: &[Vec<i64>], bounds| {
        let code = |me, line| trusted(verifying(me, line), vectors(me, rows), bounds);
        carry(code, |_| {}).unwrap()
    };
    let bare = semi(&honest, Bounds::new(16).unwrap());
    for outcome in [semi(&all, bounds), active(&all, bounds)] {
        let (result, passed) = &outcome.results[0];
        assert_eq!(*passed, [true, false, true, true]);
        near(result, &bare.results[0].0);
    }
    let rounds = [semi(&honest, bounds).rounds, active(&honest, bounds).rounds];
    assert_eq!(rounds, [29, 36]);
    let (wrong, _) = semi(&all, Bounds::new(16).unwrap()).results[0].clone();
    let largest = wrong.iter().fold(0.0, |most: f64, it| most.max(it.abs()));
    assert!(
        largest > 1e6,
        "without a gate the part of 2^33 shows: {wrong:?}"
    );
}

/// Where who counts depends on all others, it is computed again without those who do not pass.
#[test]
fn case_26_other_rules_behind_a_gate() {
    let honest = [
        long(900.0, 6),
        long(905.0, 6),
        long(500.0, 6),
        long(910.0, 6),
    ];
    let mut all = honest.to_vec();
    all.insert(2, hidden(&all[0]));
    for rule in 0..3 {
        let result = |rows: &[Vec<i64>], bounds| {
            let code = |me, line| {
                let (mpc, vectors) = (server::<u64>(me, line), vectors(me, rows));
                async move {
                    let weighed = match rule {
                        0 => mpc.krum(&vectors, bounds, 1, Some(1)).await?,
                        1 => mpc.unlike(&vectors, bounds).await?,
                        _ => mpc.clipped_mean(&vectors, bounds, 600).await?,
                    };
                    shown(&mpc, weighed).await
                }
            };
            carry(code, |_| {}).unwrap().results[0].clone()
        };
        let (bare, _) = result(&honest, Bounds::new(16).unwrap());
        let (found, passed) = result(&all, Bounds::gated(gate(5)));
        assert_eq!(passed, [true, true, false, true, true], "{rule}");
        near(&found, &bare);
    }
}

/// Abuse case 38: whatever one server changes in whatever message of a gate, the others find out or know who passes.
#[test]
fn case_38_every_message_of_a_gate_altered() {
    let rows = [long(BOUND as f64, 4), hidden(&long(BOUND as f64, 4))];
    let run = |cheater: Option<usize>, change: &mut dyn FnMut(Carried<'_>)| {
        let code = |me: ServerIndex, line| {
            let mut mpc = verifying(me, line);
            let cheats = cheater == Some(usize::from(me.number()));
            mpc.cheat = cheats.then(Cheat::never);
            let vectors = vectors(me, &rows);
            async move {
                match mpc.gate(&vectors, None, gate(1)).await {
                    Err(_) if cheats => Ok(None),
                    passed => passed.map(Some),
                }
            }
        };
        carry(code, change).map(|outcome| outcome.results)
    };
    let mut senders = Vec::new();
    run(None, &mut |carried| senders.push(carried.from)).unwrap();
    assert_eq!(senders.len(), 24 * 6);
    for (at, sender) in senders.into_iter().enumerate() {
        for part in 0..3 {
            let mut change = |carried: Carried<'_>| {
                if carried.number == at {
                    let place = part * (carried.bytes.len() - 1) / 2;
                    carried.bytes[place] ^= 1 << (at % 8);
                }
            };
            let Ok(results) = run(Some(sender), &mut change) else {
                continue;
            };
            for (server, passed) in results.into_iter().enumerate() {
                let is_right = passed == Some(vec![true, false]);
                assert!(is_right || server == sender, "message {at}, part {part}");
            }
        }
    }
}
