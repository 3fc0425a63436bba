//! Rules against the same in the clear.

use std::sync::Arc;

use crate::rules::{Bounds, Clear, Trusted, Weighed, finish};
use crate::testing::{carry, keys_with, server, shared, verifying};
use crate::{FRACTION, Mpc, MpcError, Ring, ServerIndex, Shares, Vectors, join};

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
                let scale = f64::from(1 << crate::DIRECTION_BITS) / norm;
                let row = root.iter().map(|it| (it * scale).round() as i64);
                let words: Vec<u64> = row.map(|it| it as u64).collect();
                let shares = shared(mpc.me(), &words).components().map(<[u64]>::to_vec);
                let unit = &Vectors::new(vec![shares])?;
                let trusted = Trusted::Uploaded { unit, norm };
                mpc.fltrust(&vectors, bounds, trusted, true).await
            }
            Self::Krum { bad, keep } => mpc.krum(&vectors, bounds, bad, Some(keep)).await,
            Self::Unlike => mpc.unlike(&vectors, bounds).await,
            Self::Median => mpc.median(&vectors, 16).await,
            Self::Trimmed(trim) => mpc.trimmed_mean(&vectors, 16, trim).await,
        }
    }

    fn in_the_clear(self) -> Clear {
        let root = root();
        let rule = match self {
            Self::Clipped(clip) => crate::rules::Rule::Clipped { clip },
            Self::FlTrust => fltrust(&root, false),
            Self::FlTrustHidden | Self::FlTrustUploaded => fltrust(&root, true),
            Self::Krum { bad, keep } => crate::rules::Rule::Krum {
                bad,
                keep: Some(keep),
            },
            Self::Unlike => crate::rules::Rule::Unlike,
            Self::Median => crate::rules::Rule::Median { bits: 16 },
            Self::Trimmed(trim) => crate::rules::Rule::Trimmed { bits: 16, trim },
        };
        rule.in_the_clear(&vectors())
    }
}

fn fltrust(root: &[f64], hide_total: bool) -> crate::rules::Rule<'_> {
    crate::rules::Rule::FlTrust {
        trusted: Trusted::Known(root),
        hide_total,
    }
}

async fn weighed<R: Ring>(mpc: &Mpc<R>, rule: Rule) -> Result<Weighed<R>, MpcError> {
    let rows = vectors().into_iter().map(|vector| {
        let words: Vec<u64> = vector.iter().map(|it| *it as u64).collect();
        shared(mpc.me(), &words).components().map(<[u64]>::to_vec)
    });
    let vectors = Arc::new(Vectors::new(rows.collect())?);
    rule.compute(mpc, vectors).await
}

async fn whole<R: Ring>(mpc: Mpc<R>, rule: Rule) -> Result<Vec<f64>, MpcError> {
    let weighed = weighed(&mpc, rule).await?;
    weighed.verify(&mpc).await?;
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

/// Abuse case 39: of a weighted sum the bits below a unit of the result are hidden, whatever the rule.
#[test]
fn case_39_every_weighted_sum_hides_its_last_bits() {
    for rule in RULES {
        let even = |me: ServerIndex, line| async move {
            let mpc = server::<u64>(me, line);
            Ok::<_, MpcError>(weighed(&mpc, rule).await?.even)
        };
        let hidden = match rule {
            Rule::Clipped(_) | Rule::Unlike => FRACTION,
            // The sum stands for 2^20 / ‖g‖ of a unit more.
            Rule::FlTrust | Rule::FlTrustHidden | Rule::FlTrustUploaded => {
                (f64::from(FRACTION) + 20.0 - norm(&root()).log2()).floor() as u32
            }
            Rule::Krum { .. } | Rule::Median | Rule::Trimmed(_) => 0,
        };
        assert_eq!(
            carry(even, |_| {}).unwrap().results,
            [hidden; 3],
            "{rule:?}"
        );
    }
}

#[test]
fn rules_are_those_in_the_clear() {
    for rule in RULES {
        let Clear {
            mean: expected,
            error: bound,
        } = rule.in_the_clear();
        let semi_honest = |me: ServerIndex, line| whole(server::<u64>(me, line), rule);
        let active = |me: ServerIndex, line| whole(verifying(me, line), rule);
        let outcomes = [carry(semi_honest, |_| {}), carry(active, |_| {})];
        for outcome in outcomes {
            let outcome = outcome.unwrap();
            let [zero, one, two] = outcome.results;
            assert!(zero == one && one == two);
            for (found, expected) in zero.iter().zip(&expected) {
                let error = (found - expected).abs();
                assert!(
                    error <= bound,
                    "{rule:?}: {found} and not {expected}, {bound}"
                );
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
    // The last one says whether what was uploaded was a direction.
    assert_eq!(rounds(Rule::FlTrustUploaded), [53, 60]);
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
        let weighed = mpc.krum(&vectors, Bounds::new(15)?, n / 2, Some(1)).await?;
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
