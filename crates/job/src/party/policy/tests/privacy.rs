use blindsum_protocol::{Clipping, DiscreteGaussian, Mpc3, NoPrivacy, RuleName};

use super::*;
use crate::ledger::Budget;

fn noisy(multiplier: f64) -> JobSpec {
    let encoding = Quantised {
        clipping: Clipping::L2,
        ..Quantised::default()
    };
    let privacy = DiscreteGaussian {
        noise_multiplier: multiplier,
        delta: 1e-5,
        ..DiscreteGaussian::default()
    };
    JobSpec {
        encoding: encoding.into(),
        privacy: privacy.into(),
        ..spec()
    }
}

fn of(privacy: PrivacyPolicy) -> Policy {
    Policy {
        privacy,
        ..Policy::default()
    }
}

fn with_budget(epsilon: f64) -> Policy {
    of(PrivacyPolicy {
        max_epsilon: Some(epsilon),
        max_delta: Some(1e-5),
        ..PrivacyPolicy::default()
    })
}

#[test]
fn case_39_a_job_without_noise_is_refused_where_noise_is_asked_for() {
    let asks = of(PrivacyPolicy {
        require_privacy: true,
        ..PrivacyPolicy::default()
    });
    for (policy, rule) in [
        (asks.clone(), "require_privacy"),
        (with_budget(8.0), "max_epsilon"),
    ] {
        let error = check(&policy, spec()).unwrap_err();
        assert_eq!(error.field(), Some(rule));
    }
    check(&asks, noisy(1.0)).unwrap();
    check(&Policy::default(), spec()).unwrap();
}

#[test]
fn case_39_a_round_that_costs_more_than_everything_is_refused_at_once() {
    check(&with_budget(8.0), noisy(1.0)).unwrap();
    let error = check(&with_budget(3.0), noisy(1.0))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("one round of the job has epsilon 4.3772"),
        "{error}"
    );
}

/// Abuse case 39: whoever writes the job says whom it takes for honest. A party counts on as few as its own policy says.
#[test]
fn case_39_a_party_counts_on_those_whom_it_takes_for_honest() {
    let job = noisy(1.0).validate().unwrap();
    let honest = |min_corrupt| {
        let policy = Policy {
            min_corrupt,
            ..Policy::default()
        };
        policy.round_cost(&job).unwrap().unwrap().honest
    };
    let of_job = job.privacy().unwrap().honest().unwrap();
    assert_eq!(honest(0.1), of_job);
    assert_eq!(honest(0.0), of_job);
    assert_eq!(honest(0.3), of_job - 4);
    let nobody = Policy {
        min_corrupt_parties: 20,
        min_honest: 0,
        ..with_budget(8.0)
    };
    let error = nobody.round_cost(&job).unwrap_err().to_string();
    assert!(
        error.contains("hides nobody from 20 corrupt parties"),
        "{error}"
    );
}

/// Abuse case 39: where servers add the noise a party counts on that of one component, whatever number of parties it takes for
/// honest; and its δ must hide what a gate may tell.
#[test]
fn case_39_a_party_counts_on_one_component_of_servers() {
    let job_of = |rule| JobSpec {
        protocol: Mpc3 {
            rule,
            ..Mpc3::default()
        }
        .into(),
        ..noisy(1.0)
    };
    for rule in [RuleName::FedAvg, RuleName::Clipped] {
        let nobody = Policy {
            min_corrupt_parties: 20,
            min_honest: 0,
            ..with_budget(8.0)
        };
        let job = job_of(rule).validate().unwrap();
        let cost = nobody.round_cost(&job).unwrap().unwrap();
        assert_eq!(cost.honest, 0);
        let claim = job.privacy().unwrap().epsilon(1).unwrap();
        let epsilon = cost.cost.epsilon(1e-5).unwrap();
        assert!((epsilon - claim).abs() < 1e-6 * claim, "{epsilon}, {claim}");
        check(&with_budget(4.5), job_of(rule)).unwrap();
        let error = check(&with_budget(4.3), job_of(rule)).unwrap_err();
        assert!(matches!(error, PolicyError::OneRelease { .. }), "{error}");
        let small = of(PrivacyPolicy {
            max_epsilon: Some(50.0),
            max_delta: Some(1e-8),
            ..PrivacyPolicy::default()
        });
        let refused = check(&small, job_of(rule));
        match rule {
            RuleName::Clipped => assert!(matches!(refused, Err(PolicyError::GateTells { .. }))),
            _ => refused.unwrap(),
        }
    }
}

/// Abuse case 39: in a protocol that tolerates no corrupt party the party's own number of them counts.
#[test]
fn case_39_noise_that_hides_nobody_is_refused() {
    let spec = JobSpec {
        protocol: ProtocolName::Flashe.into(),
        adversary: Adversary::SemiHonest,
        min_parties: 5,
        ..noisy(1.0)
    };
    let policy = |min_corrupt_parties| Policy {
        allowed_protocols: vec![ProtocolName::Flashe],
        require_adversary: None,
        min_corrupt: 0.0,
        min_corrupt_parties,
        min_honest: 0,
        ..with_budget(20.0)
    };
    check(&policy(1), spec.clone()).unwrap();
    // The coordinator and one party see the vector of another one.
    let of_round = policy(1).round_cost(&spec.clone().validate().unwrap());
    assert_eq!(of_round.unwrap().unwrap().honest, 1);
    let error = check(&policy(5), spec.clone()).unwrap_err();
    assert_eq!(error, PolicyError::NoiseHidesNobody { corrupt: 5 });
    let asks_nothing = Policy {
        privacy: PrivacyPolicy::default(),
        ..policy(5)
    };
    check(&asks_nothing, spec).unwrap();
    let epsilon = RoundCost::unbounded().cost.epsilon(1e-5).unwrap();
    assert!(epsilon > 1e18, "{epsilon}");
}

#[test]
fn a_budget_has_an_epsilon_and_a_delta() {
    let refused = |policy: Policy| policy.check().unwrap_err().0;
    let only = |max_epsilon, max_delta| {
        of(PrivacyPolicy {
            max_epsilon,
            max_delta,
            ..PrivacyPolicy::default()
        })
    };
    assert_eq!(refused(only(Some(8.0), None)), "max_delta");
    assert_eq!(refused(only(None, Some(1e-5))), "max_epsilon");
    assert_eq!(refused(only(Some(0.0), Some(1e-5))), "max_epsilon");
    assert_eq!(refused(only(Some(f64::NAN), Some(1e-5))), "max_epsilon");
    assert_eq!(refused(only(Some(8.0), Some(0.5))), "max_delta");
    let unit = of(PrivacyPolicy {
        privacy_unit: "../data".into(),
        ..PrivacyPolicy::default()
    });
    assert_eq!(refused(unit), "privacy_unit");
    with_budget(8.0).check().unwrap();
    assert_eq!(
        with_budget(8.0).privacy.budget(),
        Some(Budget {
            epsilon: 8.0,
            delta: 1e-5
        })
    );
}

#[test]
fn case_39_delta_is_for_the_numbers_of_noise() {
    let policy = of(PrivacyPolicy {
        max_epsilon: Some(50.0),
        max_delta: Some(1e-30),
        ..PrivacyPolicy::default()
    });
    let error = check(&policy, noisy(2.0)).unwrap_err();
    assert!(matches!(error, PolicyError::TooManyDraws { .. }), "{error}");
    let none = JobSpec {
        privacy: NoPrivacy::default().into(),
        ..noisy(1.0)
    };
    assert!(matches!(
        check(&policy, none).unwrap_err(),
        PolicyError::NoNoise { .. }
    ));
}
