//! Rules at the edges of what they allow.

use std::sync::Arc;

use crate::rules::{Bounds, Trusted, finish};
use crate::testing::{run, shared};
use crate::{Mpc, MpcError, Shares, Vectors};

#[derive(Clone, Debug)]
enum Rule {
    Clipped(u64),
    FlTrust(Vec<f64>),
    Krum(usize, usize),
    Unlike,
    Trimmed(usize, usize),
    Median(usize),
}

/// The result; none where the rule refuses.
fn result(rule: &Rule, exponent: u32, rows: &[Vec<i64>]) -> Option<Vec<f64>> {
    let outcome = run(|mpc: Mpc<u64>| {
        let components = rows.iter().map(|vector| {
            let words: Vec<u64> = vector.iter().map(|it| *it as u64).collect();
            shared(mpc.me(), &words).components().map(<[u64]>::to_vec)
        });
        let vectors = Arc::new(Vectors::new(components.collect()).unwrap());
        let rule = rule.clone();
        async move {
            let bounds = Bounds::new(exponent)?;
            let weighed = match rule {
                Rule::Clipped(clip) => mpc.clipped_mean(&vectors, bounds, clip).await?,
                Rule::FlTrust(root) => {
                    let trusted = Trusted::Known(&root);
                    mpc.fltrust(&vectors, bounds, trusted, false).await?
                }
                Rule::Krum(bad, keep) => mpc.krum(&vectors, bounds, bad, Some(keep)).await?,
                Rule::Unlike => mpc.unlike(&vectors, bounds).await?,
                Rule::Trimmed(bits, trim) => mpc.trimmed_mean(&vectors, bits, trim).await?,
                Rule::Median(bits) => mpc.median(&vectors, bits).await?,
            };
            let total = mpc
                .reveal(&weighed.total.unwrap_or(Shares::zeros(0)))
                .await?;
            let sum = mpc.reveal(&weighed.sum).await?;
            Ok(finish(&sum, total.first().copied(), weighed.divisor))
        }
    });
    match outcome {
        Ok(outcome) => Some(outcome.results[0].clone()),
        Err(MpcError::Range { .. }) => None,
        Err(other) => panic!("{rule:?}: {other}"),
    }
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|it| it * it).sum::<f64>().sqrt()
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Vectors with norms just below 2^exponent, zeros, ones and equal ones.
fn extreme(n: usize, exponent: u32, kind: usize) -> Vec<Vec<i64>> {
    let top = (1i64 << exponent) - 1;
    let vector = |party: usize| match (kind, party % 4) {
        (0, _) => vec![top, 0, 0, 0],
        (1, part) => vec![if part % 2 == 0 { top } else { -top }, 0, 0, 0],
        (2, 0) => vec![0; 4],
        (2, 1) => vec![top / 2; 4],
        (2, 2) => vec![1, 0, 0, 0],
        (2, _) => vec![-top / 2; 4],
        (_, part) => {
            let mut vector = vec![0; 4];
            vector[part] = top >> (party % 9);
            vector
        }
    };
    (0..n).map(vector).collect()
}

fn near(rule: &Rule, found: &[f64], expected: &[f64], scale: f64) {
    for (found, expected) in found.iter().zip(expected) {
        let error = (found - expected).abs() / scale;
        assert!(error < 2e-5, "{rule:?}: {found} and not {expected}");
    }
}

fn mean(x: &[Vec<f64>], weights: &[f64], total: f64) -> Vec<f64> {
    let at = |place: usize| {
        weights
            .iter()
            .zip(x)
            .map(|(w, x)| w * x[place])
            .sum::<f64>()
            / total
    };
    (0..4).map(at).collect()
}

/// All cases that bounds allow.
fn each(test: impl Fn(u32, &[Vec<i64>], &[Vec<f64>], f64)) {
    for exponent in [15, 16, 22, 28, 29, 30] {
        for n in [1, 3, 4, 16, 17, 60] {
            for kind in 0..4 {
                let rows = extreme(n, exponent, kind);
                let x: Vec<Vec<f64>> = rows
                    .iter()
                    .map(|row| row.iter().map(|it| *it as f64).collect())
                    .collect();
                test(exponent, &rows, &x, (1u64 << exponent) as f64);
            }
        }
    }
}

#[test]
fn clipping_at_the_edge() {
    each(|exponent, rows, x, top| {
        for clip in [1, 3, 1 << (exponent - 1), (1 << exponent) - 1] {
            let rule = Rule::Clipped(clip);
            let weights: Vec<f64> = x.iter().map(|x| (clip as f64 / norm(x)).min(1.0)).collect();
            if let Some(found) = result(&rule, exponent, rows) {
                near(
                    &rule,
                    &found,
                    &mean(x, &weights, x.len() as f64),
                    (clip as f64).max(top / 2f64.powi(26) / 2e-5),
                );
            }
        }
    });
}

#[test]
fn trust_at_the_edge() {
    each(|exponent, rows, x, top| {
        for root in [
            [1e-3, 0.0, 0.0, 0.0],
            [1e12, 1e12, 1e12, 1e12],
            [-3.0, 4.0, 1.0, 0.0],
        ] {
            let rule = Rule::FlTrust(root.to_vec());
            let length = norm(&root);
            let cosine = |x: &[f64]| match norm(x) {
                0.0 => 0.0,
                norm => (dot(x, &root) / norm / length).max(0.0),
            };
            let trust: Vec<f64> = x.iter().map(|x| cosine(x)).collect();
            let weights = trust.iter().zip(x).map(|(trust, x)| match norm(x) {
                0.0 => 0.0,
                norm => trust * length / norm,
            });
            let weights: Vec<f64> = weights.collect();
            let total = trust.iter().sum::<f64>();
            if let Some(found) = result(&rule, exponent, rows) {
                let expected = match total {
                    0.0 => vec![0.0; 4],
                    total => mean(x, &weights, total),
                };
                near(&rule, &found, &expected, length);
            }
            let _ = top;
        }
    });
}

#[test]
fn krum_at_the_edge() {
    each(|exponent, rows, x, top| {
        let n = rows.len();
        if !(3..=17).contains(&n) {
            return;
        }
        for bad in [0, n - 3] {
            let rule = Rule::Krum(bad, 1 + n / 2);
            let Some(found) = result(&rule, exponent, rows) else {
                continue;
            };
            let distance = |i: usize, j: usize| -> i128 {
                let each = rows[i].iter().zip(&rows[j]);
                each.map(|(a, b)| i128::from(a - b).pow(2)).sum()
            };
            let score = |i: usize| -> i128 {
                let others = (0..n).filter(|j| *j != i);
                let mut all: Vec<i128> = others.map(|j| distance(i, j)).collect();
                all.sort_unstable();
                all[..n - bad - 2].iter().sum()
            };
            let mut order: Vec<usize> = (0..n).collect();
            order.sort_by_key(|i| score(*i));
            let kept: Vec<f64> = (0..n)
                .map(|i| f64::from(u8::from(order[..1 + n / 2].contains(&i))))
                .collect();
            near(&rule, &found, &mean(x, &kept, (1 + n / 2) as f64), top);
        }
    });
}

#[test]
fn unlike_at_the_edge() {
    each(|exponent, rows, x, top| {
        let Some(found) = result(&Rule::Unlike, exponent, rows) else {
            return;
        };
        let cosine = |i: usize, j: usize| match norm(&x[i]) * norm(&x[j]) {
            0.0 => 0.0,
            norms => dot(&x[i], &x[j]) / norms,
        };
        let largest = |i: usize| {
            let others = (0..x.len()).filter(|j| *j != i);
            others.map(|j| cosine(i, j)).fold(0.0, f64::max)
        };
        let weights: Vec<f64> = (0..x.len()).map(|i| 1.0 - largest(i)).collect();
        let total = weights.iter().sum::<f64>();
        if total > 0.1 {
            near(&Rule::Unlike, &found, &mean(x, &weights, total), top);
        } else {
            // Only like vectors: any mean of them, and nothing outside.
            for (place, found) in found.iter().enumerate() {
                let all = x.iter().map(|x| x[place]);
                let (least, most) = all.fold((0.0, 0.0), |(least, most): (f64, f64), it| {
                    (least.min(it), most.max(it))
                });
                let room = top * 1e-3;
                assert!(
                    (least - room..=most + room).contains(found),
                    "{exponent}, n = {}: {found} is not from {least} to {most}",
                    x.len()
                );
                if least == most || x.iter().all(|it| it == &x[0]) {
                    assert!(
                        (found - x[0][place]).abs() < room,
                        "{found} of equal {:?}",
                        x[0]
                    );
                }
            }
        }
    });
}

#[test]
fn equal_vectors_of_all_norms() {
    // Where the straight line meets 1/√m, and on both sides of it.
    for step in 0..400i64 {
        let value = 16_384 + step * 41;
        let rows = vec![vec![value, 0, 0, 0]; 2];
        let found = result(&Rule::Unlike, 15, &rows).unwrap();
        assert!(
            (found[0] - value as f64).abs() < 1.0,
            "{} of {value}",
            found[0]
        );
    }
}

#[test]
fn the_sum_of_large_numbers_fits() {
    for bits in [2, 16, 56, 58, 60, 62] {
        for n in [1, 2, 5, 60] {
            let top = (1i64 << (bits - 1)) - 1;
            for value in [top, -top - 1] {
                let rows = vec![vec![value; 4]; n];
                for rule in [Rule::Trimmed(bits, 0), Rule::Median(bits)] {
                    if let Some(found) = result(&rule, 20, &rows) {
                        near(&rule, &found, &[value as f64; 4], top as f64 + 1.0);
                    }
                }
            }
        }
    }
}

#[test]
fn no_vector_and_no_coordinate() {
    for rows in [vec![], vec![vec![]; 4]] {
        for rule in [
            Rule::Clipped(100),
            Rule::FlTrust(vec![]),
            Rule::FlTrust(vec![1.0]),
            Rule::Krum(0, 1),
            Rule::Unlike,
            Rule::Trimmed(16, 0),
            Rule::Median(16),
        ] {
            let found = std::panic::catch_unwind(|| result(&rule, 20, &rows));
            if let Err(panicked) = found {
                let said = panicked
                    .downcast_ref::<String>()
                    .cloned()
                    .unwrap_or_default();
                assert!(
                    said.contains("must hold"),
                    "{rule:?}, {} vectors: {said}",
                    rows.len()
                );
            }
        }
    }
}
