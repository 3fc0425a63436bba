//! The rosters that jobs allow: every legal one has parameters, and none that isolate a party.

use blindsum_protocol::{
    Adversary, Fssa, Job, JobSpec, ProtocolChoice, ProtocolName, Pss, SecAgg, SecAggPlus,
};
use proptest::prelude::*;

use crate::{good, refused};

/// What smaller rosters have no parameters for is refused before a round, with the way out.
#[test]
fn case_24_rosters_that_have_no_parameters() {
    let base = |protocol| JobSpec {
        parties: 100,
        ..good(protocol)
    };
    for protocol in [ProtocolName::Fssa, ProtocolName::Pss] {
        let few = JobSpec {
            corrupt: 0.3,
            dropout: 0.3,
            min_parties: 40,
            ..base(protocol)
        };
        let rule = "allows a round of 74 parties, for which there are no parameters: 53 of 74 parties must give";
        refused(few.clone(), "min_parties", rule);
        // The same job with what it takes by itself.
        let usual = JobSpec {
            min_parties: 0,
            ..few
        };
        assert_eq!(usual.validate().unwrap().min_parties(), 70);
    }
    let threshold = JobSpec {
        protocol: SecAggPlus {
            threshold: 80,
            ..Default::default()
        }
        .into(),
        min_parties: 70,
        ..base(ProtocolName::SecAgg)
    };
    refused(threshold, "min_parties", "raise min_parties");
    // Degrees and thresholds that smaller rosters could not take as they are.
    for spec in [
        JobSpec {
            protocol: SecAggPlus {
                neighbours: 43,
                ..Default::default()
            }
            .into(),
            ..base(ProtocolName::SecAggPlus)
        },
        JobSpec {
            protocol: SecAggPlus {
                threshold: 90,
                ..Default::default()
            }
            .into(),
            ..base(ProtocolName::SecAgg)
        },
    ] {
        assert_rosters(spec.validate().unwrap());
    }
}

/// A threshold that no sparse graph of some roster makes safe, though the complete graph does.
#[test]
fn case_47_a_threshold_that_only_the_complete_graph_makes_safe() {
    let base = |parties, threshold| JobSpec {
        parties,
        protocol: SecAggPlus {
            threshold,
            ..Default::default()
        }
        .into(),
        ..good(ProtocolName::SecAggPlus)
    };
    for spec in [
        JobSpec {
            corrupt: 0.25,
            dropout: 0.0,
            ..base(100, 48)
        },
        JobSpec {
            corrupt: 0.3154,
            dropout: 0.573,
            min_parties: 60,
            ..base(81, 59)
        },
    ] {
        assert_rosters(spec.validate().unwrap());
    }
    let mut jobs = 0;
    for (n, corrupt, dropout) in [
        (40, 0.1, 0.1),
        (60, 0.2, 0.1),
        (80, 0.25, 0.0),
        (100, 0.2, 0.2),
    ] {
        for threshold in 2..n {
            let spec = JobSpec {
                corrupt,
                dropout,
                min_parties: n * 6 / 10,
                ..base(n, threshold)
            };
            if let Ok(job) = spec.validate() {
                assert_rosters(job);
                jobs += 1;
            }
        }
    }
    assert!(jobs > 20, "{jobs} jobs");
}

/// All corrupt parties of the job may be in the smallest roster: it has as many random elements as they have shares.
#[test]
fn case_47_small_rosters_of_ramp_sharing() {
    for protocol in [ProtocolName::Fssa, ProtocolName::Pss] {
        let job = JobSpec {
            protocol: protocol.into(),
            parties: 100,
            min_parties: 70,
            dim: 1000,
            ..JobSpec::default()
        };
        let job = job.validate().unwrap();
        for n in [70, 80, 100] {
            let found = job.parameters_for(n).unwrap();
            let value = |name| found.iter().find(|(of, _)| *of == name).unwrap().1;
            assert!(value("random") >= 10, "n = {n}: {found:?}");
            assert!(2 * value("threshold") > n + 10, "n = {n}: {found:?}");
        }
    }
}

/// Every legal roster has parameters, and against an active adversary none that isolate a party: no two stories can
/// both be confirmed, and who has lost the neighbours on one side cannot be unmasked.
fn assert_rosters(job: Job) {
    let spec = job.spec();
    let corrupt = corrupt_parties(spec);
    for n in job.least_roster()..=spec.parties as usize {
        let found = job
            .parameters_for(n)
            .unwrap_or_else(|error| panic!("{error}: {spec:?}"));
        let value = |name| {
            found
                .iter()
                .find(|(of, _)| *of == name)
                .map(|(_, value)| *value)
        };
        let threshold = value("threshold");
        let (neighbours, random) = (value("neighbours"), value("random"));
        if let (Adversary::Active, Some(t)) = (spec.adversary, threshold) {
            let whole = neighbours.is_none_or(|neighbours| neighbours == n - 1);
            // Where the threshold is not what confirms.
            let confirmed = value("quorum").unwrap_or(t);
            assert!(
                !whole || 2 * confirmed > n + corrupt,
                "n = {n}, t = {t}: {spec:?}"
            );
            let sparse = neighbours.filter(|_| !whole);
            let safe = |k| k >= 16 && t > k / 2 + k % 2 + 2;
            assert!(sparse.is_none_or(safe), "n = {n}, t = {t}: {spec:?}");
        }
        let enough = random.is_none_or(|random| random >= corrupt.max(1));
        assert!(enough, "n = {n}: {spec:?}");
    }
}

/// Parties that may be corrupt, counted here once more.
fn corrupt_parties(spec: &JobSpec) -> usize {
    let corrupt = (spec.corrupt * f64::from(spec.parties) - 1e-9).ceil() as usize;
    corrupt.max(1)
}

/// The protocol with these options, as far as it has them.
fn with_options(
    protocol: ProtocolName,
    [neighbours, threshold, packing]: [u32; 3],
) -> ProtocolChoice {
    match protocol {
        ProtocolName::SecAgg => SecAgg { threshold }.into(),
        ProtocolName::SecAggPlus => SecAggPlus {
            neighbours,
            threshold,
        }
        .into(),
        ProtocolName::Fssa => Fssa { threshold, packing }.into(),
        ProtocolName::Pss => Pss { threshold, packing }.into(),
        other => other.into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// No job that validates fails for its parameters later, and against an active adversary none leaves the sum of
    /// one honest party, whatever the fields say.
    #[test]
    fn case_46_validated_jobs_have_parameters_for_every_roster(
        protocol in prop::sample::select(ProtocolName::ALL.to_vec()),
        adversary in prop::sample::select(Adversary::ALL.to_vec()),
        parties in prop_oneof![0..8u32, 0..130u32],
        min_parties in prop_oneof![Just(0), 0..8u32, 0..130u32],
        neighbours in prop_oneof![3 => Just(0), 1 => 0..130u32],
        threshold in prop_oneof![3 => Just(0), 1 => 0..130u32],
        packing in prop_oneof![3 => Just(0), 1 => 0..20u32],
        corrupt in prop_oneof![Just(0.0), Just(0.1), 0.0..0.6f64],
        dropout in prop_oneof![Just(0.0), Just(0.1), 0.0..0.6f64],
    ) {
        let spec = JobSpec { protocol: with_options(protocol, [neighbours, threshold, packing]), adversary, parties, min_parties, corrupt, dropout,
            ..JobSpec::default()
        };
        if let Ok(job) = spec.validate() {
            let protects = protocol.tolerates_corrupt();
            if protects && adversary == Adversary::Active {
                prop_assert!(job.min_parties() >= corrupt_parties(job.spec()) + 2);
            }
            assert_rosters(job);
        }
    }

    /// A coordinator that looks for a sparse graph which isolates a party, where nobody is said to be corrupt or to
    /// drop out.
    #[test]
    fn case_46_no_sparse_graph_isolates_a_party(
        parties in 3..80u32,
        min_parties in prop_oneof![Just(0), 0..80u32],
        neighbours in 0..24u32,
        threshold in prop_oneof![Just(0), 0..24u32],
        corrupt in prop_oneof![Just(0.0), 0.0..0.1f64],
        dropout in prop_oneof![Just(0.0), 0.0..0.1f64],
    ) {
        let spec = JobSpec {
            parties, min_parties, protocol: SecAggPlus { neighbours, threshold }.into(), corrupt, dropout,
            ..good(ProtocolName::SecAggPlus)
        };
        if let Ok(job) = spec.validate() {
            assert_rosters(job);
        }
    }
}
