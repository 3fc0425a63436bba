//! `fssa` and `pss`: exact sums for every feasible number of parties, words, corrupt and dropped parties.

use std::sync::Arc;

use blindsum_protocol::{Adversary, JobSpec, ProtocolName, Quantised};
use blindsum_sim::{DropAt, RoundOutcome, Scenario, Stage};
use proptest::prelude::*;

use crate::support::simulate;

const PROTOCOLS: [ProtocolName; 2] = [ProtocolName::Fssa, ProtocolName::Pss];

/// A job for n parties, c corrupt and d dropped.
fn spec(protocol: ProtocolName, adversary: Adversary, [n, c, d]: [u32; 3], dim: u64) -> JobSpec {
    JobSpec {
        protocol: protocol.into(),
        adversary,
        parties: n,
        dim,
        corrupt: f64::from(c) / f64::from(n),
        dropout: f64::from(d) / f64::from(n),
        ..JobSpec::default()
    }
}

/// Whether k = n − d leaves room for a word and, if active, two sets cannot be confirmed and no sum is that of one
/// honest party.
fn feasible(adversary: Adversary, [n, c, d]: [u32; 3]) -> bool {
    let (k, c) = (n - d.min(n), c.max(1));
    match adversary {
        Adversary::SemiHonest => k > c,
        Adversary::Active => 2 * k > n + c && k >= c + 2,
    }
}

/// Loses d parties at a stage and demands the exact sum of the others.
fn exact(spec: JobSpec, lost: u32, stage: u8) {
    let job = Arc::new(spec.validate().unwrap());
    let drop_at = vec![DropAt {
        stage: Stage::Number(stage),
        count: lost,
    }];
    let run = simulate(Scenario {
        drop_at,
        ..Scenario::new(job)
    });
    assert_eq!(run.report.last.outcome, RoundOutcome::Sum);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_feasible_job_is_exact(
        n in 2_u32..=48,
        c in 0.0..0.9,
        d in 0.0..0.9,
        dim in 1_u64..=2000,
        bits in 2_u32..=32,
        stage in 0_u8..=3,
    ) {
        let [c, d] = [c, d].map(|fraction| (fraction * f64::from(n)) as u32);
        for protocol in PROTOCOLS {
            for &adversary in Adversary::ALL {
                let spec = JobSpec { encoding: Quantised { bits, ..Default::default() }.into(), ..spec(protocol, adversary, [n, c, d], dim) };
                if feasible(adversary, [n, c, d]) {
                    let last = u8::from(adversary == Adversary::Active) + 2;
                    exact(spec, d, stage.min(last));
                } else {
                    prop_assert!(spec.validate().is_err());
                }
            }
        }
    }
}

/// Sizes where transforms and subgroups have their edges: powers of two and of three, two parties, a prime
/// number of words, fewer words than a polynomial packs.
#[test]
fn sizes_at_the_edges() {
    for (numbers, dim) in [
        ([2, 1, 0], 1),
        ([2, 0, 0], 1009),
        ([3, 1, 0], 2),
        ([27, 3, 2], 1009),
        ([32, 3, 2], 5),
        ([33, 3, 2], 997),
        ([64, 6, 6], 4099),
        ([81, 8, 8], 10_007),
    ] {
        for protocol in PROTOCOLS {
            for &adversary in Adversary::ALL {
                let spec = spec(protocol, adversary, numbers, dim);
                match feasible(adversary, numbers) {
                    true => exact(spec, numbers[2], 1),
                    false => assert_eq!(spec.validate().unwrap_err().field, "parties"),
                }
            }
        }
    }
}

/// The largest cohorts that the papers measure.
#[test]
fn hundreds_of_parties() {
    exact(
        spec(ProtocolName::Fssa, Adversary::Active, [243, 24, 24], 3001),
        24,
        2,
    );
    exact(
        spec(
            ProtocolName::Pss,
            Adversary::SemiHonest,
            [500, 150, 150],
            1009,
        ),
        150,
        1,
    );
}
