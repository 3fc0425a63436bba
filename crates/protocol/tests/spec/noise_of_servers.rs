//! Rules of a job of `mpc3` whose servers add noise, and what it claims.

use blindsum_privacy::{SquaredMu, Variance};
use blindsum_protocol::{
    AdjacencyName, Adversary, Clipping, DiscreteGaussian, Job, JobSpec, Metric, Mpc3, Quantised,
    RuleName, Skellam,
};

fn noise(multiplier: f64) -> DiscreteGaussian {
    DiscreteGaussian {
        noise_multiplier: multiplier,
        delta: 1e-5,
        ..DiscreteGaussian::default()
    }
}

fn with(options: Mpc3) -> JobSpec {
    JobSpec {
        protocol: options.into(),
        parties: 20,
        dim: 1000,
        rounds: 10,
        encoding: Quantised {
            clipping: Clipping::L2,
            ..Quantised::default()
        }
        .into(),
        privacy: noise(1.0).into(),
        ..JobSpec::default()
    }
}

fn of(rule: RuleName) -> Mpc3 {
    Mpc3 {
        rule,
        ..Mpc3::default()
    }
}

fn checked(spec: JobSpec) -> Job {
    spec.validate().unwrap()
}

fn refused(spec: JobSpec, field: &str, rule: &str) {
    let error = spec.validate().unwrap_err();
    assert_eq!(error.field, field, "{error}");
    assert!(error.rule.contains(rule), "{error} should quote {rule:?}");
}

/// Abuse case 39: the claim is that of the noise of one component, as one server knows the other two, and it does not depend on
/// how many parties survive. Who works with no server sees three times the variance.
#[test]
fn case_39_one_component_hides_a_party_from_one_server() {
    for rule in [RuleName::FedAvg, RuleName::Clipped] {
        for adversary in [Adversary::SemiHonest, Adversary::Active] {
            let spec = JobSpec {
                adversary,
                ..with(of(rule))
            };
            let job = checked(spec.clone());
            let privacy = job.privacy().unwrap();
            let servers = privacy.of_servers().unwrap();
            assert!(privacy.sizes().is_none() && privacy.honest().is_none());
            assert!(job.encoding().noise().is_none());
            let once = privacy.epsilon(1).unwrap();
            assert!((4.37..4.3776).contains(&once), "{rule}: {once}");
            let outside = privacy.epsilon_outside(1).unwrap().unwrap();
            // Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) for μ = 1/√3.
            assert!((2.341..2.342).contains(&outside), "{rule}: {outside}");
            assert_eq!(privacy.epsilon_alone(1), Ok(None));
            let replaced = privacy.epsilon_of_replacing(1).unwrap();
            assert!((9.99..10.01).contains(&replaced), "{rule}: {replaced}");
            assert!(privacy.epsilon_by_renyi(1).unwrap() > once);
            assert!(privacy.epsilon(0).unwrap() == 0.0 && privacy.epsilon(2).unwrap() > once);
            let fewer = JobSpec {
                min_parties: 5,
                ..spec
            };
            let fewer = checked(fewer);
            assert_eq!(fewer.privacy().unwrap().of_servers(), Some(servers));
        }
    }
    // As many survive as without noise.
    let silent = JobSpec {
        privacy: blindsum_protocol::PrivacyName::NoPrivacy.into(),
        ..with(of(RuleName::FedAvg))
    };
    let noisy = checked(with(of(RuleName::FedAvg)));
    assert_eq!(noisy.min_parties(), checked(silent).min_parties());
}

/// Abuse case 39: noise of servers is sized for the longest vector of a party that rounds, in the units of the sum.
#[test]
fn case_39_servers_size_noise_for_what_a_vector_moves() {
    // The last level, two units for each coordinate that is rounded, and one for doubles: ⌈2·√1000⌉ = 64.
    let longest = (1 << 16) - 1 + 64 + 1;
    let norm = |job: &Job| {
        let servers = job.privacy().unwrap().of_servers().unwrap();
        servers.spec().sensitivity
    };
    assert_eq!(norm(&checked(with(of(RuleName::FedAvg)))), longest);
    let whole = norm(&checked(with(of(RuleName::Clipped))));
    assert_eq!(whole, ((longest - 1) << 28) + 11 * longest);
    let half = Mpc3 {
        norm: 0.5,
        ..of(RuleName::Clipped)
    };
    let job = checked(with(half));
    // A half of 2^16 − 1 units, rounded away from 0.
    assert_eq!(norm(&job), (1 << 43) + 11 * longest);
    assert_eq!(job.privacy().unwrap().clip(), Some(0.5));
    assert!(job.privacy().unwrap().growth() < 1.001);
    // Rounded to the nearest, and so long that doubles round more than a unit.
    let wide = JobSpec {
        dim: 1 << 31,
        encoding: Quantised {
            clipping: Clipping::L2,
            bits: 32,
            rounding: blindsum_protocol::RoundingName::Nearest,
            ..Quantised::default()
        }
        .into(),
        ..with(of(RuleName::FedAvg))
    };
    let top = (1_u64 << 32) - 2;
    let root = 2.0 * f64::powi(2.0, 31).sqrt();
    let off = ((u128::from(top) * ((1 << 31) + (1 << 17))) >> 56) as u64;
    assert_eq!(off, 128);
    assert_eq!(norm(&checked(wide)), top + root.ceil() as u64 + 1 + off,);
    let replaced = JobSpec {
        privacy: DiscreteGaussian {
            adjacency: AdjacencyName::Replace,
            ..noise(1.0)
        }
        .into(),
        ..with(of(RuleName::FedAvg))
    };
    let variance = |job: &Job| job.privacy().unwrap().of_servers().unwrap().variance();
    let units = |longest: u64| Variance::new(1024 * (longest * longest + 8), 1024).unwrap();
    assert_eq!(
        variance(&checked(with(of(RuleName::FedAvg)))),
        units(longest)
    );
    assert_eq!(variance(&checked(replaced)), units(2 * longest));
}

/// A target becomes a multiplier, which travels, and the job ends there; of δ a part is for what a gate may tell.
#[test]
fn case_39_a_target_of_servers_travels() {
    for rule in [RuleName::FedAvg, RuleName::Clipped] {
        let target = |delta: f64| JobSpec {
            privacy: DiscreteGaussian {
                epsilon: 2.0,
                delta,
                ..noise(0.0)
            }
            .into(),
            ..with(of(rule))
        };
        let job = checked(target(1e-5));
        let privacy = job.privacy().unwrap();
        assert_eq!(
            (privacy.releases(), privacy.target()),
            (Some(11), Some(2.0))
        );
        let reached = privacy.epsilon(11).unwrap();
        assert!(reached <= 2.0 && reached > 1.999, "{rule}: {reached}");
        let said = serde_json::to_string(job.spec()).unwrap();
        let read: JobSpec = serde_json::from_str(&said).unwrap();
        let again = read.validate().unwrap();
        assert_eq!(again.hash(), job.hash());
        assert_eq!(again.privacy(), job.privacy());
        // 11 · 2^-44 is 6.25 · 10^-13.
        let servers = privacy.of_servers().unwrap();
        let tiny = checked(target(1e-12));
        let exact = SquaredMu::of_servers(tiny.privacy().unwrap().of_servers().unwrap(), 1);
        let exact = exact.unwrap().times(11).epsilon(1e-12).unwrap();
        let is_gated = rule == RuleName::Clipped;
        assert_eq!(exact < 1.99, is_gated, "{rule}: {exact}");
        assert!(tiny.privacy().unwrap().of_servers() != Some(servers));
        if is_gated {
            refused(
                target(6e-13),
                "privacy.delta",
                "releases * 2^-44 < delta must hold",
            );
            let many = privacy.epsilon(1 << 40);
            assert!(many.unwrap_err().to_string().contains("is too small for"));
        }
    }
}

/// Abuse case 39: what a coordinator could choose such that noise of servers hides less than it says is refused.
#[test]
fn case_39_each_rule_of_noise_of_servers_is_quoted() {
    for rule in [
        RuleName::Weighted,
        RuleName::FlTrust,
        RuleName::Krum,
        RuleName::MultiKrum,
        RuleName::Median,
        RuleName::TrimmedMean,
        RuleName::Cosine,
    ] {
        let why = format!("rule {rule} has no noise; choose rule = fedavg or clipped");
        refused(with(of(rule)), "privacy", &why);
    }
    let both = Mpc3 {
        noise: 0.5,
        ..Mpc3::default()
    };
    let why = "protocol.noise = 0.5 asks for noise of the servers, and privacy does too; say either noise or privacy";
    refused(with(both), "privacy", why);
    let skellam = JobSpec {
        privacy: Skellam {
            noise_multiplier: 1.0,
            delta: 1e-5,
            ..Skellam::default()
        }
        .into(),
        ..with(Mpc3::default())
    };
    refused(
        skellam,
        "privacy",
        "must be discrete-gaussian with mpc3, is skellam",
    );
    let encoding = |change: &dyn Fn(&mut Quantised)| {
        let mut encoding = Quantised {
            clipping: Clipping::L2,
            ..Quantised::default()
        };
        change(&mut encoding);
        JobSpec {
            encoding: encoding.into(),
            ..with(Mpc3::default())
        }
    };
    let tensor = encoding(&|it| it.clipping = Clipping::Tensor);
    refused(tensor, "privacy", "clipping must be \"l2\"");
    let sent = encoding(&|it| (it.clipping, it.max_norm) = (Clipping::Tensor, 1.0));
    refused(sent, "privacy", "max_norm must be 0");
    let weighted = encoding(&|it| it.max_weight = 7);
    refused(weighted, "privacy", "max_weight = 7 must be 1");
    let fixed = JobSpec {
        encoding: blindsum_protocol::Fixed64::default().into(),
        ..with(Mpc3::default())
    };
    refused(fixed, "privacy", "needs the encoding quantised");
    // 2^9 − 1 levels, and 65 more.
    refused(
        encoding(&|it| it.bits = 9),
        "encoding.bits",
        "rounding lifts the norm by 1.127 > 1.1: bits >= 10 would do",
    );
    let huge = JobSpec {
        dim: u64::from(u32::MAX),
        ..encoding(&|it| it.bits = 18)
    };
    refused(huge, "encoding.bits", "bits >= 21 would do");
    let with_metrics = JobSpec {
        metrics: vec![Metric {
            name: "loss".into(),
            low: 0.0,
            high: 1.0,
        }],
        ..with(Mpc3::default())
    };
    refused(
        with_metrics,
        "metrics",
        "noise_multiplier = 1 of rule = fedavg",
    );
    let little = JobSpec {
        privacy: noise(1.0 / 64.0).into(),
        dim: 1,
        ..encoding(&|it| it.bits = 7)
    };
    let coarse = "z^2 T + 8 = v = 12.1 >= 16 must hold for the noise of a component";
    refused(little, "encoding.bits", coarse);
    let steps = JobSpec {
        privacy: noise(1000.0).into(),
        dim: 10_000,
        ..with(Mpc3::default())
    };
    refused(
        steps,
        "privacy",
        "noise of servers in dim = 10000 coordinates is drawn in steps",
    );
    let missed = JobSpec {
        privacy: DiscreteGaussian {
            epsilon: 2.0,
            ..noise(1.0)
        }
        .into(),
        ..with(Mpc3::default())
    };
    refused(
        missed,
        "privacy.noise_multiplier",
        "the noise gives epsilon = ",
    );
    // 1000 · 2^22 · 2^28, 64 times, are beyond 2^62.
    let no_room = JobSpec {
        privacy: noise(1000.0).into(),
        dim: 4,
        encoding: Quantised {
            clipping: Clipping::L2,
            bits: 22,
            ..Quantised::default()
        }
        .into(),
        ..with(of(RuleName::Clipped))
    };
    refused(
        no_room,
        "privacy.noise_multiplier",
        "below 2^62: choose fewer bits",
    );
    // The same as much as by the option of the protocol.
    let own = Mpc3 {
        noise: 1.0,
        ..Mpc3::default()
    };
    let own = JobSpec {
        privacy: blindsum_protocol::PrivacyName::NoPrivacy.into(),
        ..with(own)
    };
    assert!(checked(own).privacy().is_none());
}
