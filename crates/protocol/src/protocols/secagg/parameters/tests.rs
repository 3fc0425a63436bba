use super::*;
use crate::{MAX_PARTIES, ProtocolChoice, SecAgg, SecAggPlus};

fn spec(corrupt: f64, dropout: f64, adversary: Adversary) -> JobSpec {
    JobSpec {
        corrupt,
        dropout,
        adversary,
        ..JobSpec::default()
    }
}

/// Parameters of the full roster of a job of `n` parties.
fn find(spec: JobSpec, n: usize, complete: bool) -> Result<GraphParameters, ParameterError> {
    let protocol = match (&spec.protocol, complete) {
        (ProtocolChoice::SecAggPlus(options), true) => SecAgg {
            threshold: options.threshold,
        }
        .into(),
        (chosen, _) => chosen.clone(),
    };
    let spec = JobSpec {
        protocol,
        parties: n as u32,
        ..spec
    };
    GraphParameters::find(&spec, n)
}

#[test]
fn complete_graph_thresholds_are_those_of_the_paper() {
    for n in 3..200 {
        let found = find(spec(0.1, 0.0, Adversary::Active), n, true).unwrap();
        assert!(3 * found.threshold() > 2 * n, "n = {n}");
        assert!(2 * found.threshold() > n + n.div_ceil(10), "n = {n}");
        let found = find(spec(0.1, 0.0, Adversary::SemiHonest), n, true).unwrap();
        assert!(found.threshold() > n.div_ceil(10), "n = {n}");
    }
}

/// What the module says of an active adversary holds for the parameters that are found, with no corrupt
/// party as with many.
#[test]
fn active_thresholds_keep_every_arc_connected() {
    for (n, corrupt) in [
        (50, 0.0),
        (101, 0.0),
        (100, 0.05),
        (1000, 0.1),
        (10_000, 0.1),
    ] {
        let found = find(spec(corrupt, 0.1, Adversary::Active), n, false).unwrap();
        let (half, odd) = (found.neighbours() / 2, found.neighbours() % 2);
        let expected = ((corrupt * half as f64) as usize).max(1);
        assert!(found.threshold() > half + odd + 1 + expected, "{found:?}");
        assert!(
            2 * found.threshold() > found.holders() + 2 * expected,
            "{found:?}"
        );
    }
}

/// The largest cohorts, with bounds that no graph meets: the answer is quick all the same.
#[test]
fn infeasible_bounds_are_found_quickly() {
    for n in [MAX_PARTIES as usize - 1, MAX_PARTIES as usize] {
        for complete in [false, true] {
            for adversary in [Adversary::SemiHonest, Adversary::Active] {
                assert!(find(spec(0.49, 0.6, adversary), n, complete).is_err());
                assert!(find(spec(0.9, 0.2, adversary), n, complete).is_err());
                let threshold = JobSpec {
                    protocol: SecAggPlus {
                        threshold: 1,
                        ..Default::default()
                    }
                    .into(),
                    ..spec(0.3, 0.3, adversary)
                };
                let refused = find(threshold, n, complete).unwrap_err();
                assert_eq!(refused.field, "threshold");
            }
        }
    }
}

#[test]
fn sparse_graphs_grow_slowly() {
    let degree = |n| {
        let spec = spec(0.05, 0.1, Adversary::SemiHonest);
        find(spec, n, false).unwrap().neighbours()
    };
    assert_eq!(degree(10), 9);
    let degrees = [100, 1_000, 10_000, 100_000].map(degree);
    assert!(degrees.is_sorted() && degrees[3] < 100, "{degrees:?}");
}

#[test]
fn the_failing_bound_is_named() {
    let base = || spec(0.1, 0.1, Adversary::Active);
    let refused = |spec, n, complete| find(spec, n, complete).unwrap_err().field;
    assert_eq!(refused(base(), 1, true), "parties");
    let neighbours = |neighbours| JobSpec {
        protocol: SecAggPlus {
            neighbours,
            ..Default::default()
        }
        .into(),
        ..base()
    };
    for (given, n) in [(4, 100), (15, 100), (41, 101), (100, 100)] {
        assert_eq!(refused(neighbours(given), n, false), "neighbours");
    }
    let threshold = |threshold| JobSpec {
        protocol: SecAggPlus {
            threshold,
            ..Default::default()
        }
        .into(),
        ..base()
    };
    for given in [66, 101] {
        assert_eq!(refused(threshold(given), 100, true), "threshold");
    }
    for given in [67, 90] {
        assert!(find(threshold(given), 100, true).is_ok());
    }
    assert_eq!(
        refused(spec(0.4, 0.4, Adversary::Active), 100, true),
        "dropout"
    );
}

/// Smaller rosters than the job's have as many corrupt parties; an odd degree becomes even for an odd roster.
#[test]
fn case_47_small_rosters_hold_all_corrupt_parties() {
    let job = |neighbours| JobSpec {
        parties: 1000,
        min_parties: 200,
        protocol: SecAggPlus {
            neighbours,
            ..Default::default()
        }
        .into(),
        ..spec(0.1, 0.1, Adversary::Active)
    };
    for n in [200, 201, 667, 999, 1000] {
        let found = GraphParameters::find(&job(0), n).unwrap();
        let draws = Sample {
            population: n,
            marked: 100,
            draws: found.holders(),
        };
        let corrupt = Hypergeometric::new(n).most(draws, 1, LOG2_SECURITY);
        assert!(
            2 * found.threshold() > found.holders() + corrupt,
            "{found:?}"
        );
    }
    let odd = GraphParameters::find(&job(199), 999).unwrap();
    assert_eq!(odd.neighbours(), 200);
    let few = GraphParameters::find(&job(400), 300).unwrap();
    assert_eq!(few.neighbours(), 299);
}
