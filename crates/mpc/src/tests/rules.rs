//! Rules against the same in the clear.

use std::sync::Arc;

use crate::rules::{Bounds, Trusted, Weighed, finish};
use crate::testing::{carry, keys_with, server, shared, verifying};
use crate::{Mpc, MpcError, Ring, ServerIndex, Shares, Vectors, join};

const PARTIES: usize = 7;
const LENGTH: usize = 40;

/// Vectors that point in one direction more or less; one points back, one is five times as long.
fn vectors() -> Vec<Vec<i64>> {
    let noise = |party: usize, place: usize| {
        let mixed = (party * 131 + place * 17 + 5) as u64;
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as i64 - 128
    };
    let base = |place: usize| noise(99, place) * 4;
    let vector = |party: usize| {
        let factor = match party {
            2 => -1,
            4 => 5,
            _ => 1,
        };
        (0..LENGTH)
            .map(|place| factor * (base(place) + noise(party, place)))
            .collect()
    };
    (0..PARTIES).map(vector).collect()
}

fn root() -> Vec<f64> {
    vectors()[0].iter().map(|it| *it as f64 * 0.5).collect()
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|it| it * it).sum::<f64>().sqrt()
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn weighted(weights: &[f64], vectors: &[Vec<f64>]) -> Vec<f64> {
    let at = |place: usize| weights.iter().zip(vectors).map(|(w, x)| w * x[place]).sum();
    (0..LENGTH).map(at).collect()
}

#[derive(Clone, Copy, Debug)]
enum Rule {
    Clipped(u64),
    FlTrust,
    /// The servers divide.
    FlTrustHidden,
    /// A party has shared the root.
    FlTrustUploaded,
    Krum {
        bad: usize,
        keep: usize,
    },
    Unlike,
    Median,
    Trimmed(usize),
}

impl Rule {
    async fn compute<R: Ring>(
        self,
        mpc: &Mpc<R>,
        vectors: Arc<Vectors>,
    ) -> Result<Weighed<R>, MpcError> {
        let bounds = Bounds::new(20)?;
        match self {
            Self::Clipped(clip) => mpc.clipped_mean(&vectors, bounds, clip).await,
            Self::FlTrust => {
                mpc.fltrust(&vectors, bounds, Trusted::Known(&root()), false)
                    .await
            }
            Self::FlTrustHidden => {
                let root = root();
                let trusted = Trusted::Known(&root);
                mpc.fltrust(&vectors, bounds, trusted, true).await
            }
            Self::FlTrustUploaded => {
                let (root, norm) = (root(), norm(&root()));
                let scale = 2f64.powi(bounds.unit_bits() as i32) / norm;
                let row = root.iter().map(|it| (it * scale).round() as i64);
                let words: Vec<u64> = row.map(|it| it as u64).collect();
                let shares = shared(mpc.me(), &words).components().map(<[u64]>::to_vec);
                let unit = &Vectors::new(vec![shares])?;
                let trusted = Trusted::Uploaded { unit, norm };
                mpc.fltrust(&vectors, bounds, trusted, true).await
            }
            Self::Krum { bad, keep } => mpc.krum(&vectors, bounds, bad, keep).await,
            Self::Unlike => mpc.unlike(&vectors, bounds).await,
            Self::Median => mpc.median(&vectors, 16).await,
            Self::Trimmed(trim) => mpc.trimmed_mean(&vectors, 16, trim).await,
        }
    }

    fn in_the_clear(self) -> Vec<f64> {
        let x: Vec<Vec<f64>> = vectors()
            .iter()
            .map(|it| it.iter().map(|it| *it as f64).collect())
            .collect();
        let n = x.len();
        let mean = |weights: &[f64]| {
            let total: f64 = weights.iter().sum();
            weighted(weights, &x)
                .into_iter()
                .map(|it| it / total)
                .collect::<Vec<f64>>()
        };
        match self {
            Self::Clipped(clip) => {
                let weights: Vec<f64> = x
                    .iter()
                    .map(|x| (clip as f64 / norm(x)).min(1.0) / n as f64)
                    .collect();
                weighted(&weights, &x)
            }
            Self::FlTrust | Self::FlTrustHidden | Self::FlTrustUploaded => {
                let root = root();
                let trust: Vec<f64> = x
                    .iter()
                    .map(|x| (dot(x, &root) / norm(x) / norm(&root)).max(0.0))
                    .collect();
                let total: f64 = trust.iter().sum();
                let each = trust
                    .iter()
                    .zip(&x)
                    .map(|(trust, x)| trust * norm(&root) / norm(x) / total);
                weighted(&each.collect::<Vec<f64>>(), &x)
            }
            Self::Krum { bad, keep } => {
                let distance = |i: usize, j: usize| {
                    let difference: Vec<f64> = x[i].iter().zip(&x[j]).map(|(a, b)| a - b).collect();
                    dot(&difference, &difference)
                };
                let score = |i: usize| {
                    let mut all: Vec<f64> =
                        (0..n).filter(|j| *j != i).map(|j| distance(i, j)).collect();
                    all.sort_by(f64::total_cmp);
                    all[..n - bad - 2].iter().sum::<f64>()
                };
                let mut order: Vec<usize> = (0..n).collect();
                order.sort_by(|a, b| score(*a).total_cmp(&score(*b)));
                let kept = |i: usize| f64::from(u8::from(order[..keep].contains(&i)));
                mean(&(0..n).map(kept).collect::<Vec<f64>>())
            }
            Self::Unlike => {
                let cosine = |i: usize, j: usize| dot(&x[i], &x[j]) / norm(&x[i]) / norm(&x[j]);
                let largest = |i: usize| {
                    (0..n)
                        .filter(|j| *j != i)
                        .map(|j| cosine(i, j))
                        .fold(0.0, f64::max)
                };
                mean(&(0..n).map(|i| 1.0 - largest(i)).collect::<Vec<f64>>())
            }
            Self::Median => Self::Trimmed((n - 1) / 2).in_the_clear(),
            Self::Trimmed(trim) => {
                let at = |place: usize| {
                    let mut all: Vec<f64> = x.iter().map(|x| x[place]).collect();
                    all.sort_by(f64::total_cmp);
                    let kept = &all[trim..n - trim];
                    kept.iter().sum::<f64>() / kept.len() as f64
                };
                (0..LENGTH).map(at).collect()
            }
        }
    }
}

async fn whole<R: Ring>(mpc: Mpc<R>, rule: Rule) -> Result<Vec<f64>, MpcError> {
    let rows = vectors().into_iter().map(|vector| {
        let words: Vec<u64> = vector.iter().map(|it| *it as u64).collect();
        shared(mpc.me(), &words).components().map(<[u64]>::to_vec)
    });
    let weighed = rule
        .compute(&mpc, Arc::new(Vectors::new(rows.collect())?))
        .await?;
    mpc.verify().await?;
    let total = weighed.total.unwrap_or(Shares::zeros(0));
    let (sum, total) = join(mpc.reveal(&weighed.sum), mpc.reveal(&total)).await?;
    let total = total.first().copied();
    Ok(finish(&sum, total, weighed.divisor))
}

const RULES: [Rule; 10] = [
    Rule::Clipped(2500),
    Rule::Clipped(1 << 19),
    Rule::FlTrust,
    Rule::FlTrustHidden,
    Rule::FlTrustUploaded,
    Rule::Krum { bad: 2, keep: 1 },
    Rule::Krum { bad: 2, keep: 5 },
    Rule::Unlike,
    Rule::Median,
    Rule::Trimmed(1),
];

#[test]
fn rules_are_those_in_the_clear() {
    for rule in RULES {
        let expected = rule.in_the_clear();
        let largest = expected
            .iter()
            .fold(0.0, |most: f64, it| most.max(it.abs()));
        let semi_honest = |me: ServerIndex, line| whole(server::<u64>(me, line), rule);
        let active = |me: ServerIndex, line| whole(verifying(me, line), rule);
        let outcomes = [carry(semi_honest, |_| {}), carry(active, |_| {})];
        for outcome in outcomes {
            let outcome = outcome.unwrap();
            let [zero, one, two] = outcome.results;
            assert!(zero == one && one == two);
            for (found, expected) in zero.iter().zip(&expected) {
                let error = (found - expected).abs() / largest;
                assert!(error < 2e-5, "{rule:?}: {found} and not {expected}");
            }
        }
    }
}

/// Rounds between servers, the one that shows the result with them: they depend on the rule, hardly on the number of
/// parties and not at all on the length of vectors.
#[test]
fn rounds_of_each_rule() {
    let rounds = |rule| {
        let semi_honest = |me: ServerIndex, line| whole(server::<u64>(me, line), rule);
        let active = |me: ServerIndex, line| whole(verifying(me, line), rule);
        let outcomes = [carry(semi_honest, |_| {}), carry(active, |_| {})];
        outcomes.map(|outcome| outcome.unwrap().rounds)
    };
    assert_eq!(rounds(Rule::Clipped(2500)), [28, 35]);
    assert_eq!(rounds(Rule::FlTrust), [29, 36]);
    assert_eq!(rounds(Rule::FlTrustHidden), [52, 59]);
    assert_eq!(rounds(Rule::FlTrustUploaded), [52, 59]);
    assert_eq!(rounds(Rule::Krum { bad: 2, keep: 1 }), [37, 44]);
    assert_eq!(rounds(Rule::Unlike), [60, 67]);
    assert_eq!(rounds(Rule::Median), [44, 51]);
}

/// Krum among as many vectors as it may have, and one more.
#[test]
fn krum_of_many() {
    async fn krum<R: Ring>(mpc: Mpc<R>, n: usize) -> Result<Vec<u64>, MpcError> {
        // They lie on a line, ever further apart; the middle of the dense end is nearest to its nearest ones.
        let rows = (0..n as u64).map(|place| {
            let words = [place * place, 5];
            shared(mpc.me(), &words).components().map(<[u64]>::to_vec)
        });
        let vectors = Arc::new(Vectors::new(rows.collect())?);
        let weighed = mpc.krum(&vectors, Bounds::new(15)?, n / 2, 1).await?;
        mpc.verify().await?;
        mpc.reveal(&weighed.sum).await
    }
    let expected = |n: usize| {
        let score = |i: u64| {
            let others = (0..n as u64).filter(|j| *j != i);
            let mut all: Vec<u64> = others.map(|j| (i * i).abs_diff(j * j).pow(2)).collect();
            all.sort_unstable();
            all[..n - n / 2 - 2].iter().sum::<u64>()
        };
        let best = (0..n as u64).min_by_key(|i| score(*i)).unwrap();
        vec![best * best, 5]
    };
    let semi_honest = |n| carry(|me, line| krum(server::<u64>(me, line), n), |_| {});
    let active = |n| carry(|me, line| krum(verifying(me, line), n), |_| {});
    assert_eq!(semi_honest(128).unwrap().results[0], expected(128));
    let verified = active(48).unwrap();
    assert_eq!(verified.results[2], expected(48));
    assert!(verified.rounds < 250, "{}", verified.rounds);
    let refused = |value, rule| {
        Some(MpcError::Range {
            name: "n",
            value,
            rule,
        })
    };
    assert_eq!(semi_honest(129).err(), refused(129, "n <= 128"));
    assert_eq!(
        active(49).err(),
        refused(49, "n <= 48 where servers verify")
    );
}

/// Where truncation is exact the result depends on the vectors and on nothing else.
#[test]
fn exact_results_do_not_depend_on_keys() {
    let result = |key: u8, exact: bool| {
        let code = |me: ServerIndex, line| {
            let mpc = Mpc::<u64>::new(keys_with(me, |server| [server.number() + key; 32]), line);
            whole(if exact { mpc.exact() } else { mpc }, Rule::FlTrustHidden)
        };
        carry(code, |_| {}).unwrap().results[0].clone()
    };
    assert_eq!(result(1, true), result(7, true));
    assert_ne!(result(1, false), result(7, false));
}

#[test]
fn what_a_rule_cannot_work_with_is_refused() {
    let refused = |rule| {
        let start = |me: ServerIndex, line| whole(server::<u64>(me, line), rule);
        let error = carry(start, |_| {}).err();
        error.map_or_else(String::new, |error| error.to_string())
    };
    assert_eq!(
        refused(Rule::Clipped(0)),
        "clip = 0, but 1 <= clip < 2^I must hold"
    );
    assert_eq!(
        refused(Rule::Clipped(1 << 20)),
        "clip = 1048576, but 1 <= clip < 2^I must hold"
    );
    assert_eq!(
        refused(Rule::Krum { bad: 5, keep: 1 }),
        "f = 5, but n >= f + 3 must hold"
    );
    assert_eq!(
        refused(Rule::Krum { bad: 2, keep: 8 }),
        "keep = 8, but 1 <= keep <= n must hold"
    );
    assert_eq!(
        refused(Rule::Trimmed(4)),
        "trim = 4, but 2 * trim < n must hold"
    );
    for exponent in [14, 31] {
        let (name, value) = ("exponent", u64::from(exponent));
        let rule = "15 <= exponent <= 30";
        let error = MpcError::Range { name, value, rule };
        assert_eq!(Bounds::new(exponent), Err(error));
    }
}
