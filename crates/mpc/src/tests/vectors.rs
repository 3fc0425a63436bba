//! The engine against the vectors of the slow model.

use std::sync::Arc;

use serde_json::Value;

use crate::arithmetic::{products, sum};
use crate::rules::{Bounds, Rule, Trusted, finish};
use crate::testing::{carry, opened, opened_signed, run, server, shared, shared_signed};
use crate::{Mpc, MpcError, Ring, ServerIndex, Shares, Vectors, join};

/// The cases of one list.
fn cases(list: &str) -> Vec<Value> {
    let file: Value =
        serde_json::from_str(include_str!("../../../../vectors/mpc_rules.json")).unwrap();
    let cases = file[list].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn int(value: &Value) -> i128 {
    value.as_str().unwrap().parse().unwrap()
}

fn ints(value: &Value) -> Vec<i64> {
    let values = value.as_array().unwrap().iter();
    values.map(|it| int(it) as i64).collect()
}

fn rows(value: &Value) -> Vec<Vec<i64>> {
    value.as_array().unwrap().iter().map(ints).collect()
}

fn double(value: &Value) -> f64 {
    f64::from_bits(u64::from_str_radix(value.as_str().unwrap(), 16).unwrap())
}

/// The number itself, one of a pair or between them, or anything.
fn may_be(found: i64, expected: &Value, what: &str) {
    let (least, most) = match expected {
        Value::Null => return,
        Value::Array(pair) => (int(&pair[0]), int(&pair[1])),
        one => (int(one), int(one)),
    };
    let found = i128::from(found);
    assert!(
        (least..=most).contains(&found),
        "{what}: {found}, not {least} to {most}"
    );
}

fn all_may_be(found: &[i64], expected: &Value, what: &str) {
    let expected = expected.as_array().unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        may_be(*found, expected, what);
    }
}

fn vectors_of(me: ServerIndex, rows: &[Vec<i64>]) -> Arc<Vectors> {
    let components = rows.iter().map(|row| {
        let words: Vec<u64> = row.iter().map(|it| *it as u64).collect();
        shared(me, &words).components().map(<[u64]>::to_vec)
    });
    Arc::new(Vectors::new(components.collect()).unwrap())
}

/// What server i has of three components.
fn held<R: Ring>(components: &Value, read: fn(&Value) -> R) -> [Shares<R>; 3] {
    let components: Vec<Vec<R>> = components
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_array().unwrap().iter().map(read).collect())
        .collect();
    [0, 1, 2].map(|i| Shares::of(components[i].clone(), components[(i + 1) % 3].clone()))
}

fn check_sharing<R: Ring>(case: &Value, read: fn(&Value) -> R) {
    let all = held(&case["components"], read);
    let values: Vec<R> = case["values"]
        .as_array()
        .unwrap()
        .iter()
        .map(read)
        .collect();
    assert_eq!(opened(&all), values);
    for me in ServerIndex::ALL {
        let mpc = server::<R>(me, Default::default());
        let part = mpc.part(&all[usize::from(me.number())]).unwrap();
        let hash: String = part.next.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(case["hashes"][usize::from(me.next().number())], hash);
    }
}

fn check_dot<R: Ring>(case: &Value, read: fn(&Value) -> R) {
    let (x, y) = (held(&case["x"], read), held(&case["y"], read));
    let parts: Vec<R> = x.iter().zip(&y).map(|(x, y)| sum(products(x, y))).collect();
    let expected: Vec<R> = case["parts"].as_array().unwrap().iter().map(read).collect();
    assert_eq!(parts, expected);
    assert_eq!(sum(parts.into_iter()), read(&case["value"]));
}

#[test]
fn shares_and_parts_of_products() {
    fn narrow(value: &Value) -> u64 {
        value.as_str().unwrap().parse().unwrap()
    }
    fn wide(value: &Value) -> u128 {
        value.as_str().unwrap().parse().unwrap()
    }
    for case in cases("sharings") {
        match case["ring"].as_str().unwrap() {
            "64" => check_sharing(&case, narrow),
            _ => check_sharing(&case, wide),
        }
    }
    for case in cases("dots") {
        match case["ring"].as_str().unwrap() {
            "64" => check_dot(&case, narrow),
            _ => check_dot(&case, wide),
        }
    }
}

#[test]
fn truncations() {
    for case in cases("truncate").iter().chain(&cases("multiply_truncate")) {
        let f = int(&case["f"]) as u32;
        let (x, y) = (int(&case["x"]) as i64, case.get("y").map(|y| int(y) as i64));
        let outcome = run(|mpc| {
            let of = |it| shared_signed::<u64>(mpc.me(), &[it]);
            let (x, y) = (of(x), y.map(of));
            async move {
                match y {
                    Some(y) => mpc.multiply_truncate(&x, &y, f).await,
                    None => mpc.truncate(&x, f).await,
                }
            }
        });
        let found = opened_signed(&outcome.unwrap().results);
        may_be(found[0], &case["result"], &case.to_string());
    }
}

#[test]
fn inverses() {
    for case in cases("inverse_root") {
        let (n, exponent) = (int(&case["n"]) as i64, int(&case["exponent"]) as u32);
        let outcome = run(|mpc| {
            let n = shared_signed::<u64>(mpc.me(), &[n]);
            async move {
                let found = mpc.inverse_root(&n, exponent).await?;
                Ok(Shares::concat(&[
                    &found.root,
                    &found.scale,
                    &found.exponents,
                ]))
            }
        });
        let found = opened_signed(&outcome.unwrap().results);
        may_be(found[0], &case["root"], &case.to_string());
        may_be(found[1], &case["scale"], &case.to_string());
        let place = found[2..].iter().position(|it| *it == 1);
        assert_eq!(place, case["place"].as_str().map(|it| it.parse().unwrap()));
    }
    for case in cases("inverse") {
        let (v, bits) = (int(&case["v"]) as i64, int(&case["bits"]) as u32);
        let outcome = run(|mpc| {
            let v = shared_signed::<u64>(mpc.me(), &[v]);
            async move {
                let found = mpc.inverse(&v, bits, 0).await?;
                Ok(Shares::concat(&[&found.inverse, &found.scale]))
            }
        });
        let found = opened_signed(&outcome.unwrap().results);
        may_be(found[0], &case["inverse"], &case.to_string());
        may_be(found[1], &case["scale"], &case.to_string());
    }
}

#[test]
fn ranks() {
    for case in cases("ranks") {
        let (size, keep) = (int(&case["size"]) as usize, int(&case["keep"]) as usize);
        let outcome = run(|mpc| {
            let x = shared_signed::<u64>(mpc.me(), &ints(&case["values"]));
            async move { join(mpc.ranks(&x, size), mpc.smallest(&x, size, keep)).await }
        });
        let [zero, one, two] = outcome.unwrap().results;
        let ranks = opened_signed(&[zero.0, one.0, two.0]);
        assert_eq!(ranks, ints(&case["ranks"]));
        let smallest = opened_signed(&[zero.1, one.1, two.1]);
        assert_eq!(smallest, ints(&case["smallest"]));
    }
}

/// A rule of a case, by its name.
fn rule<'a>(name: &str, case: &Value, root: &'a [f64]) -> Rule<'a> {
    let number = |name: &str| int(&case[name]) as usize;
    let (trusted, hide_total) = (Trusted::Known(root), false);
    match name {
        "clipped_mean" => Rule::Clipped {
            clip: number("clip") as u64,
        },
        "fltrust" => Rule::FlTrust {
            trusted,
            hide_total,
        },
        "krum" => Rule::Krum {
            bad: number("bad"),
            keep: Some(number("keep")),
        },
        "unlike" => Rule::Unlike,
        "median" => Rule::Median {
            bits: number("bits"),
        },
        "trimmed_mean" => Rule::Trimmed {
            bits: number("bits"),
            trim: number("trim"),
        },
        other => panic!("{other}"),
    }
}

fn root(case: &Value) -> Vec<f64> {
    let root = case["root"].as_array().into_iter().flatten();
    root.map(double).collect()
}

fn bounds(case: &Value) -> Result<Bounds, MpcError> {
    Bounds::new(
        case["exponent"]
            .as_str()
            .map_or(15, |it| it.parse().unwrap()),
    )
}

#[test]
fn rules() {
    for name in [
        "clipped_mean",
        "fltrust",
        "krum",
        "unlike",
        "median",
        "trimmed_mean",
    ] {
        for case in cases(name) {
            let code = |me, line| {
                let (mpc, vectors) = (
                    server::<u64>(me, line),
                    vectors_of(me, &rows(&case["vectors"])),
                );
                let case = case.clone();
                async move {
                    let root = root(&case);
                    let rule = rule(name, &case, &root);
                    let weighed = rule.compute(&mpc, &vectors, bounds(&case)?).await?;
                    let total = weighed.total.unwrap_or(Shares::zeros(0));
                    let shown = join(mpc.reveal(&weighed.sum), mpc.reveal(&total)).await?;
                    Ok((shown.0, shown.1.first().copied(), weighed.divisor))
                }
            };
            let [(sum, total, divisor), _, _] = carry(code, |_| {}).unwrap().results;
            let what = format!("{name} {}", case["vectors"]);
            let signed: Vec<i64> = sum.iter().map(|it| *it as i64).collect();
            all_may_be(&signed, &case["sum"], &what);
            assert_eq!(total.is_none(), case["total"].is_null());
            total
                .into_iter()
                .for_each(|it| may_be(it as i64, &case["total"], &what));
            let expected = double(&case["divisor"]);
            assert!(
                (divisor / expected - 1.0).abs() < 2f64.powi(-50),
                "{divisor}"
            );
            let mean = finish(&sum, total, divisor).into_iter();
            // A digit more than doubles may lose.
            let mean: Vec<f64> = mean.map(|it| it * f64::from(1 << 20)).collect();
            for (found, expected) in mean.iter().zip(case["mean"].as_array().unwrap()) {
                let (least, most) = (int(&expected[0]) as f64, int(&expected[1]) as f64);
                assert!(
                    (least - 1.0..=most + 1.0).contains(found),
                    "{what}: mean {found}"
                );
            }
        }
    }
}

/// What rules find out on the way.
#[test]
fn trust_weights_scores_and_who_is_kept() {
    for case in cases("fltrust") {
        let (rows, root) = (rows(&case["vectors"]), root(&case));
        let bounds = bounds(&case).unwrap();
        let norm = root.iter().map(|it| it * it).sum::<f64>().sqrt();
        let unit = f64::from(1 << crate::DIRECTION_BITS) / norm;
        let unit: Vec<i64> = root.iter().map(|it| (it * unit).round() as i64).collect();
        let dot = |row: &Vec<i64>| row.iter().zip(&unit).map(|(x, g)| x * g).sum();
        let along: Vec<i64> = rows.iter().map(dot).collect();
        all_may_be(&along, &case["along"], "along");
        let outcome = run(|mpc: Mpc<u64>| {
            let (vectors, root) = (vectors_of(mpc.me(), &rows), root.clone());
            async move {
                mpc.trust(&vectors, bounds, Trusted::Known(&root), norm)
                    .await
            }
        });
        let trust = outcome.unwrap().results.map(|it| it.trust);
        all_may_be(&opened_signed(&trust), &case["trust"], "trust");
    }
    for case in cases("unlike") {
        let (rows, bounds) = (rows(&case["vectors"]), bounds(&case).unwrap());
        let outcome = run(|mpc: Mpc<u64>| {
            let vectors = vectors_of(mpc.me(), &rows);
            async move { mpc.unlikeness(&vectors, bounds).await }
        });
        all_may_be(
            &opened_signed(&outcome.unwrap().results),
            &case["weights"],
            "weights",
        );
    }
    for case in cases("krum") {
        let (rows, bounds) = (rows(&case["vectors"]), bounds(&case).unwrap());
        let (bad, keep) = (int(&case["bad"]) as usize, int(&case["keep"]) as usize);
        let n = rows.len();
        let distance = |i: usize, j: usize| -> i64 {
            rows[i]
                .iter()
                .zip(&rows[j])
                .map(|(a, b)| (a - b).pow(2))
                .sum()
        };
        let score = |i: usize| -> i64 {
            let mut all: Vec<i64> = (0..n).filter(|j| *j != i).map(|j| distance(i, j)).collect();
            all.sort_unstable();
            all[..n - bad - 2].iter().sum()
        };
        let scores: Vec<i64> = (0..n).map(score).collect();
        assert_eq!(scores, ints(&case["scores"]));
        let outcome = run(|mpc: Mpc<u64>| {
            let vectors = vectors_of(mpc.me(), &rows);
            async move { mpc.nearest(&vectors, bounds, bad, keep).await }
        });
        assert_eq!(
            opened_signed(&outcome.unwrap().results),
            ints(&case["kept"])
        );
    }
}

#[test]
fn sums() {
    for case in cases("sum") {
        let outcome = run(|mpc: Mpc<u64>| {
            let vectors = vectors_of(mpc.me(), &rows(&case["vectors"]));
            async move { Ok(vectors.sum::<u64>()) }
        });
        all_may_be(
            &opened_signed(&outcome.unwrap().results),
            &case["sum"],
            "sum",
        );
    }
}

#[test]
fn what_is_refused() {
    for case in cases("refused") {
        let number = |name: &str| {
            case[name]
                .as_str()
                .map_or(0, |it| it.parse::<u64>().unwrap())
        };
        let what = case["what"].as_str().unwrap().to_owned();
        let rows = vec![vec![0]; number("n") as usize];
        let code = |mpc: Mpc<u64>| {
            let (vectors, case, what) = (vectors_of(mpc.me(), &rows), case.clone(), what.clone());
            let (x, f) = (shared_signed::<u64>(mpc.me(), &[1]), number("f") as u32);
            let (bits, size) = (number("bits") as u32, number("size") as usize);
            let exponent = number("exponent") as u32;
            async move {
                match what.as_str() {
                    "bounds" => Bounds::new(exponent).map(drop),
                    "truncate" => mpc.truncate(&x, f).await.map(drop),
                    "multiply_truncate" => mpc.multiply_truncate(&x, &x, f).await.map(drop),
                    "inverse_root" => mpc.inverse_root(&x, exponent).await.map(drop),
                    "inverse" => mpc.inverse(&x, bits, 0).await.map(drop),
                    "ranks" => mpc.ranks(&x, size).await.map(drop),
                    name => {
                        let root = root(&case);
                        let rule = rule(name, &case, &root);
                        rule.compute(&mpc, &vectors, bounds(&case)?).await.map(drop)
                    }
                }
            }
        };
        let Some(MpcError::Range { name, value, rule }) = run(code).err() else {
            panic!("{case} is not refused");
        };
        assert_eq!(
            (name, value),
            (case["name"].as_str().unwrap(), number("value"))
        );
        assert_eq!(rule, case["rule"].as_str().unwrap());
    }
}
