mod privacy;
mod rounds;

use super::*;
use crate::hex;
use blindsum_protocol::{
    Flashe, Fssa, Mpc3, ProtocolChoice, Pss, Quantised, RuleName, SecAgg, SecAggPlus,
};

fn cohort(names: &[&str]) -> Cohort {
    names.iter().map(|name| name.to_string()).collect()
}

/// A job that the default policy takes.
fn spec() -> JobSpec {
    JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        parties: 20,
        dim: 10,
        ..JobSpec::default()
    }
}

fn check(policy: &Policy, spec: JobSpec) -> Result<(), PolicyError> {
    policy.check_job(&spec.validate().unwrap())
}

/// What the default policy says of a job.
fn refused(spec: JobSpec) -> PolicyError {
    check(&Policy::default(), spec).unwrap_err()
}

#[test]
fn a_careful_job_is_taken() {
    for protocol in Policy::default().allowed_protocols {
        let spec = JobSpec {
            protocol: protocol.into(),
            ..spec()
        };
        assert_eq!(check(&Policy::default(), spec), Ok(()));
    }
}

#[test]
fn case_46_protocols_in_which_the_server_and_one_party_read_everything_must_be_named() {
    for protocol in [ProtocolName::Plain, ProtocolName::Flashe] {
        let spec = JobSpec {
            protocol: protocol.into(),
            min_parties: 5,
            ..spec()
        };
        let error = refused(spec.clone());
        assert!(matches!(error, PolicyError::Protocol { .. }), "{error}");
        assert!(error.to_string().contains("in allowed_protocols"));
        let named = Policy {
            allowed_protocols: vec![protocol],
            require_adversary: None,
            ..Policy::default()
        };
        assert_eq!(check(&named, spec), Ok(()));
    }
}

/// Rules by which the result may be one party's vector are allowed by name only, whoever writes the job; and of the others
/// those vectors count that are in the mean.
#[test]
fn case_46_rules_that_may_show_one_vector_must_be_named() {
    let job = |rule| JobSpec {
        protocol: Mpc3 {
            rule,
            ..Mpc3::default()
        }
        .into(),
        parties: 20,
        encoding: Quantised {
            max_weight: if rule == RuleName::Weighted { 9 } else { 1 },
            ..Quantised::default()
        }
        .into(),
        ..JobSpec::default()
    };
    for rule in RuleName::ALL.iter().copied() {
        let checked = check(&Policy::default(), job(rule));
        assert_eq!(
            checked.is_ok(),
            rule.is_mean_of_many(),
            "{rule}: {checked:?}"
        );
        let named = Policy {
            allowed_rules: vec![rule],
            ..Policy::default()
        };
        assert_eq!(check(&named, job(rule)), Ok(()));
    }
    let error = refused(job(RuleName::Krum)).to_string();
    assert!(error.contains("name krum in allowed_rules"), "{error}");
    let demanding = Policy {
        min_honest: 4,
        ..Policy::default()
    };
    for rule in [RuleName::MultiKrum, RuleName::TrimmedMean] {
        let error = check(&demanding, job(rule)).unwrap_err();
        assert!(
            matches!(error, PolicyError::SmallestSum { have: 4, .. }),
            "{error}"
        );
    }
}

#[test]
fn case_46_jobs_that_hold_against_less_are_refused() {
    let semi_honest = JobSpec {
        adversary: Adversary::SemiHonest,
        ..spec()
    };
    assert_eq!(
        refused(semi_honest),
        PolicyError::Adversary {
            holds: "semi-honest adversaries".into(),
            required: Adversary::Active
        }
    );
    let policy = Policy {
        allowed_protocols: vec![ProtocolName::Plain],
        require_adversary: Some(Adversary::SemiHonest),
        ..Policy::default()
    };
    let plain = JobSpec {
        protocol: ProtocolName::Plain.into(),
        ..spec()
    };
    let error = check(&policy, plain).unwrap_err();
    assert!(matches!(error, PolicyError::Adversary { .. }), "{error}");
    let trusting = JobSpec {
        corrupt: 0.05,
        ..spec()
    };
    let (job, need) = (0.05, 0.1);
    assert_eq!(refused(trusting), PolicyError::Corrupt { job, need });
}

#[test]
fn case_46_jobs_that_open_sums_of_too_few_are_refused() {
    // 2 of 20 may be corrupt, and two honest ones must be left.
    let smallest = |min_parties| JobSpec {
        protocol: ProtocolName::Flashe.into(),
        min_parties,
        ..spec()
    };
    let policy = Policy {
        allowed_protocols: vec![ProtocolName::Flashe],
        ..Policy::default()
    };
    assert_eq!(check(&policy, smallest(4)), Ok(()));
    let error = check(&policy, smallest(3)).unwrap_err();
    let (have, need, honest, corrupt) = (3, 4, 2, 2);
    assert_eq!(
        error,
        PolicyError::SmallestSum {
            have,
            need,
            honest,
            corrupt
        }
    );
    assert_eq!(
        policy.check_survivors(20, 3),
        Err(PolicyError::TooFewSurvivors {
            have,
            need,
            honest,
            corrupt
        })
    );
    assert_eq!(policy.check_survivors(20, 4), Ok(()));
}

#[test]
fn case_46_fractions_are_rounded_up_and_one_party_is_corrupt() {
    let corrupt = |min_corrupt, parties| {
        let policy = Policy {
            min_corrupt,
            ..Policy::default()
        };
        policy.corrupt_among(parties)
    };
    assert_eq!(corrupt(0.07, 100), 7);
    assert_eq!(corrupt(0.1, 101), 11);
    assert_eq!(corrupt(0.0, 100), 1);
}

/// Of a job for three the default assumes one corrupt party; who knows of two says so.
#[test]
fn case_46_corrupt_parties_are_counted_however_few_parties_a_job_says_it_has() {
    let small = |parties, corrupt| JobSpec {
        parties,
        corrupt,
        min_parties: parties,
        ..spec()
    };
    assert_eq!(check(&Policy::default(), small(3, 0.1)), Ok(()));
    let policy = Policy {
        min_corrupt_parties: 2,
        ..Policy::default()
    };
    let (job, need) = (1, 2);
    assert_eq!(
        check(&policy, small(4, 0.1)),
        Err(PolicyError::CorruptParties { job, need })
    );
    let error = check(
        &Policy {
            min_honest: 3,
            ..policy.clone()
        },
        small(4, 0.5),
    )
    .unwrap_err();
    let (have, need, honest, corrupt) = (4, 5, 3, 2);
    assert_eq!(
        error,
        PolicyError::SmallestSum {
            have,
            need,
            honest,
            corrupt
        }
    );
    assert_eq!(check(&policy, small(4, 0.5)), Ok(()));
    // There is one at least.
    let none = Policy {
        min_corrupt: 0.0,
        min_corrupt_parties: 0,
        ..Policy::default()
    };
    assert_eq!(none.corrupt_among(3), 1);
}

/// Shares of a packed vector are as many as there are parties, each as long as the vector if one word is packed.
#[test]
fn case_46_messages_that_are_too_long_and_parties_that_are_too_many_are_refused() {
    let packed = |packing, dim| JobSpec {
        protocol: Pss {
            packing,
            ..Default::default()
        }
        .into(),
        dim,
        ..spec()
    };
    assert_eq!(check(&Policy::default(), packed(0, 1 << 26)), Ok(()));
    let error = refused(packed(1, 1 << 26));
    assert!(
        matches!(
            error,
            PolicyError::MaxMessage {
                stage: "share-vector",
                ..
            }
        ),
        "{error}"
    );
    let many = JobSpec {
        parties: 10_001,
        ..spec()
    };
    let (job, allowed) = (10_001, 10_000);
    assert_eq!(
        Policy::default().check_spec(&many),
        Err(PolicyError::MaxParties { job, allowed })
    );
}

#[test]
fn case_46_coordinates_of_a_single_party_are_refused() {
    let sparse = |min_contributors| JobSpec {
        protocol: Flashe {
            density: 0.1,
            min_contributors,
            ..Default::default()
        }
        .into(),
        min_parties: 5,
        dim: 1000,
        ..spec()
    };
    let policy = Policy {
        allowed_protocols: vec![ProtocolName::Flashe],
        ..Policy::default()
    };
    assert_eq!(check(&policy, sparse(2)), Ok(()));
    let (have, need) = (1, 2);
    assert_eq!(
        check(&policy, sparse(1)),
        Err(PolicyError::Contributors { have, need })
    );
}

#[test]
fn vectors_that_are_too_long_and_weights_that_are_too_large_are_refused() {
    let long = JobSpec {
        dim: (1 << 28) + 1,
        ..spec()
    };
    let error = Policy::default().check_spec(&long).unwrap_err();
    assert!(matches!(error, PolicyError::MaxDim { .. }), "{error}");
    let policy = Policy {
        max_weight: Some(9),
        ..Policy::default()
    };
    let heavy = JobSpec {
        encoding: Quantised {
            max_weight: 10,
            ..Default::default()
        }
        .into(),
        ..spec()
    };
    let (job, allowed) = (10, 9);
    assert_eq!(
        check(&policy, heavy),
        Err(PolicyError::MaxWeight { job, allowed })
    );
}

#[test]
fn a_job_with_another_hash_than_the_one_agreed_on_is_refused() {
    let agreed = spec().validate().unwrap();
    let policy = Policy {
        job_hash: Some(*agreed.hash()),
        ..Policy::default()
    };
    assert_eq!(policy.check_job(&agreed), Ok(()));
    let other = JobSpec {
        stage_deadline: 31.0,
        ..spec()
    };
    let error = check(&policy, other).unwrap_err();
    assert!(matches!(error, PolicyError::JobHash { .. }), "{error}");
    assert!(error.to_string().contains(&hex(agreed.hash())), "{error}");
}

#[test]
fn case_12_cohorts_that_are_too_small_are_refused() {
    assert_eq!(
        Policy::default().check_roster(&cohort(&["a", "b"])),
        Err(PolicyError::CohortTooSmall { have: 2, need: 3 })
    );
}

/// The parties of the groups that a party with this policy allows, set by set; the first that it refuses.
fn first_refusal(policy: &Policy, sets: &[(u32, &[u32])]) -> Option<(usize, usize, usize)> {
    let mut groups = Groups::default();
    sets.iter().enumerate().find_map(|(place, (of_job, set))| {
        let set = set.iter().map(|party| format!("{party:02}")).collect();
        match policy.check_difference(*of_job, &set, &groups) {
            Err(PolicyError::Differencing { have, need, .. }) => Some((place, have, need)),
            Err(error) => panic!("{error}"),
            Ok(()) => {
                groups = groups.refine(&set, *of_job).groups;
                None
            }
        }
    })
}

/// All but these of so many parties.
fn without(parties: u32, lost: &[u32]) -> Vec<u32> {
    (0..parties).filter(|party| !lost.contains(party)).collect()
}

/// Abuse case 49: one in ten is corrupt.
#[test]
fn case_49_sums_that_tell_few_parties_apart_are_refused() {
    let careful = |min_cohort_change| Policy {
        min_cohort_change,
        ..Policy::default()
    };
    let told = |change, lost: &[&[u32]]| {
        let sets: Vec<Vec<u32>> = lost.iter().map(|lost| without(10, lost)).collect();
        let sets: Vec<(u32, &[u32])> = sets.iter().map(|set| (10, &set[..])).collect();
        first_refusal(&careful(change), &sets)
    };
    let all: &[u32] = &[];
    assert_eq!(told(0, &[all, &[1], &[2]]), None);
    assert_eq!(told(1, &[all, all]), None);
    // One party, two, and three that `min_honest` allows.
    assert_eq!(told(1, &[all, &[1]]), Some((1, 1, 3)));
    assert_eq!(told(1, &[&[1], all]), Some((1, 1, 3)));
    assert_eq!(told(1, &[all, &[1, 2]]), Some((1, 2, 3)));
    assert_eq!(told(1, &[all, &[1, 2, 3]]), None);
    assert_eq!(told(3, &[all, &[1, 2, 3]]), Some((1, 3, 4)));
    // 9 is corrupt: the difference is x4 − x9.
    assert_eq!(told(1, &[&[9], &[4]]), Some((1, 1, 3)));
    // 9 is corrupt: s1 + s2 − s3 − s4 is 2 x9 − x3.
    assert!(told(2, &[&[2, 3, 4], &[1, 5], &[4, 5, 9], &[1, 2, 9]]).is_some());
    // Close to the first, not to the one in between.
    assert_eq!(told(1, &[all, &[1, 2, 3], &[4]]), Some((2, 1, 3)));
    // Nobody alone in two of them, but in all four.
    let four: &[&[u32]] = &[all, &[1, 2, 3], &[4, 5, 6], &[7, 8, 9]];
    assert_eq!(told(1, four), Some((3, 1, 3)));
}

/// Abuse case 49: of the eleven parties of the first job two may be corrupt, of the ten of the second one.
#[test]
fn case_49_a_smaller_job_has_no_fewer_corrupt_parties_in_earlier_sums() {
    let policy = Policy {
        min_cohort_change: 2,
        ..Policy::default()
    };
    let (eleven, eight) = (without(11, &[]), without(8, &[]));
    let sets: [(u32, &[u32]); 2] = [(11, &eleven), (10, &eight)];
    assert_eq!(first_refusal(&policy, &sets), Some((1, 3, 4)));
}

/// Groups that are too small for a policy of today stay as they are; nothing else is refused for them.
#[test]
fn groups_of_before_refuse_no_set_that_leaves_them_whole() {
    let careful = |min_honest| Policy {
        min_cohort_change: 1,
        min_honest,
        ..Policy::default()
    };
    let before: [(u32, &[u32]); 2] = [(10, &without(10, &[])), (10, &without(10, &[7, 8, 9]))];
    assert_eq!(first_refusal(&careful(2), &before), None);
    let groups = before
        .iter()
        .fold(Groups::default(), |groups, (of_job, set)| {
            let set = set.iter().map(|party| format!("{party:02}")).collect();
            groups.refine(&set, *of_job).groups
        });
    let strangers: Cohort = (20..60).map(|party| party.to_string()).collect();
    let whole = (7..60).map(|party| format!("{party:02}")).collect();
    let parted = (9..60).map(|party| format!("{party:02}")).collect();
    let check = |set| careful(5).check_difference(40, set, &groups);
    assert_eq!(check(&strangers), Ok(()));
    assert_eq!(check(&whole), Ok(()));
    assert!(matches!(
        check(&parted),
        Err(PolicyError::Differencing { have: 1, .. })
    ));
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

/// Abuse case 46: a coordinator that tries fields at random finds no job in which the default policy lets fewer honest
/// parties be summed than it says.
#[test]
fn case_46_no_job_is_taken_that_sums_fewer_honest_parties() {
    use rand_core::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha20Rng::seed_from_u64(46);
    let mut draw = |most: u32| rng.next_u32() % (most + 1);
    let (policy, mut taken, mut refused) = (Policy::default(), 0, 0);
    for _ in 0..20_000 {
        let (parties, protocol) = (2 + draw(40), draw(5) as usize);
        let active = usize::from(draw(3) > 0);
        // Fields that are 0 are left to the protocol, and most are.
        let mut some = |most: u32| draw(1) * draw(most);
        let spec = JobSpec {
            protocol: with_options(ProtocolName::ALL[protocol], [0; 3].map(|_| some(parties))),
            adversary: Adversary::ALL[active],
            parties,
            min_parties: some(parties),
            corrupt: f64::from(some(50)) / 100.0,
            dropout: f64::from(some(50)) / 100.0,
            ..spec()
        };
        let Ok(job) = spec.clone().validate() else {
            continue;
        };
        if policy.check_job(&job).is_err() {
            refused += 1;
            continue;
        }
        taken += 1;
        let corrupt = (parties as usize).div_ceil(10);
        assert!(job.min_parties() >= 2 + corrupt, "{spec:?}");
        assert!(spec.corrupt_parties() >= corrupt, "{spec:?}");
        assert!(spec.protocol.name().tolerates_corrupt(), "{spec:?}");
        assert_eq!(spec.adversary, Adversary::Active);
    }
    assert!(taken > 100 && refused > 100, "{taken} and {refused}");
}
