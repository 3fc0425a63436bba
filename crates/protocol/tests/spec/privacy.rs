//! Rules of a job's privacy, what it claims, and what others read of it.

use blindsum_protocol::options::Value;
use blindsum_protocol::{
    AdjacencyName, Adversary, Clipping, DiscreteGaussian, Flashe, Integers, JobSpec, ModelUpdate,
    PrivacyChoice, PrivacyName, ProtocolName, Quantised, Skellam,
};

fn noise() -> DiscreteGaussian {
    DiscreteGaussian {
        noise_multiplier: 1.0,
        delta: 1e-5,
        ..DiscreteGaussian::default()
    }
}

fn clipped() -> Quantised {
    Quantised {
        clipping: Clipping::L2,
        bits: 14,
        ..Quantised::default()
    }
}

fn with(privacy: impl Into<PrivacyChoice>) -> JobSpec {
    JobSpec {
        parties: 20,
        dim: 1000,
        rounds: 10,
        encoding: clipped().into(),
        privacy: privacy.into(),
        ..JobSpec::default()
    }
}

fn refused(spec: JobSpec, field: &str, rule: &str) {
    let error = spec.validate().unwrap_err();
    assert_eq!(error.field, field, "{error}");
    assert!(error.rule.contains(rule), "{error} should quote {rule:?}");
}

/// ε of the Gaussian mechanism of multiplier 1 after 10 releases is that of another accountant (10.00 for δ = 10^-5 with
/// twice the distance in one release, 4.38 in one).
#[test]
fn the_claim_is_that_of_the_gaussian_mechanism() {
    let job = with(noise()).validate().unwrap();
    let privacy = job.privacy().unwrap();
    let once = privacy.epsilon(1).unwrap();
    assert!((4.37..4.3776).contains(&once), "{once}");
    let replaced = privacy.epsilon_of_replacing(1).unwrap();
    assert!((9.99..10.01).contains(&replaced), "{replaced}");
    assert!(privacy.epsilon(0).unwrap() == 0.0 && privacy.epsilon(2).unwrap() > once);
    assert!(privacy.epsilon_by_renyi(1).unwrap() > once);
    // A party that can rely on its own noise alone has √m times less.
    let alone = privacy.epsilon_alone(1).unwrap();
    assert!(alone.unwrap() > 3.0 * once);
    assert_eq!(privacy.epsilon_outside(1), Ok(None));
}

/// Abuse case 39: noise is that of the survivors who are sure to be honest, so as many survive as the dropouts leave: 20 less 2, less 2
/// corrupt ones.
#[test]
fn case_39_as_many_survive_as_dropouts_leave() {
    let job = with(noise()).validate().unwrap();
    assert_eq!(job.min_parties(), 18);
    assert_eq!(job.privacy().unwrap().honest(), Some(16));
    let fewer = JobSpec {
        min_parties: 14,
        ..with(noise())
    };
    let fewer = fewer.validate().unwrap();
    assert_eq!(fewer.privacy().unwrap().honest(), Some(12));
    // The same guarantee of fewer shares takes more noise in each.
    let of = |job: &blindsum_protocol::Job| job.encoding().noise_deviation(18);
    assert!(of(&fewer) > 1.1 * of(&job));
}

/// A target becomes a multiplier, which travels: every party computes with the same one.
#[test]
fn a_target_becomes_a_multiplier_that_travels() {
    for spare in [0.0, 0.1, 1.0] {
        let target = DiscreteGaussian {
            noise_multiplier: 0.0,
            epsilon: 2.0,
            spare,
            ..noise()
        };
        let job = with(target).validate().unwrap();
        let privacy = job.privacy().unwrap();
        let releases = 10 + (10.0 * spare) as u64;
        assert_eq!(privacy.releases(), Some(releases));
        let reached = privacy.epsilon(releases).unwrap();
        assert!(reached <= 2.0 && reached > 1.99, "{reached}");
        let said = serde_json::to_string(job.spec()).unwrap();
        assert!(said.contains("noise_multiplier"), "{said}");
        let read: JobSpec = serde_json::from_str(&said).unwrap();
        let again = read.validate().unwrap();
        assert_eq!(again.hash(), job.hash());
        assert_eq!(again.privacy(), job.privacy());
    }
}

#[test]
fn skellam_takes_a_little_more_noise_for_a_target() {
    let found = |privacy: PrivacyChoice| {
        // Skellam noise has no more than 2^20 steps² of variance.
        let encoding = Quantised {
            bits: 10,
            ..clipped()
        };
        let spec = JobSpec {
            encoding: encoding.into(),
            ..with(privacy)
        };
        let job = spec.validate().unwrap();
        let reached = job.privacy().unwrap().epsilon(11).unwrap();
        assert!(reached <= 2.0 && reached > 1.9, "{reached}");
        job.privacy().unwrap().multiplier().value()
    };
    let (epsilon, delta) = (2.0, 1e-5);
    let gaussian = found(
        DiscreteGaussian {
            epsilon,
            delta,
            ..DiscreteGaussian::default()
        }
        .into(),
    );
    let skellam = found(
        Skellam {
            epsilon,
            delta,
            ..Skellam::default()
        }
        .into(),
    );
    assert!(
        skellam > gaussian && skellam < 1.1 * gaussian,
        "{skellam} {gaussian}"
    );
}

/// Abuse case 39: what a coordinator could choose such that noise hides less than it says is refused.
#[test]
fn case_39_each_rule_of_noise_is_quoted() {
    let encoding = |encoding: Quantised| JobSpec {
        encoding: encoding.into(),
        ..with(noise())
    };
    let l2 = "clipping must be \"l2\"";
    refused(encoding(Quantised::default()), "privacy", l2);
    let learnt = Quantised {
        clipping: Clipping::Aciq,
        ..Quantised::default()
    };
    refused(encoding(learnt), "privacy", l2);
    let weighted = Quantised {
        max_weight: 7,
        ..clipped()
    };
    refused(encoding(weighted), "privacy", "max_weight = 7 must be 1");
    let coarse = Quantised {
        bits: 5,
        ..clipped()
    };
    refused(
        encoding(coarse),
        "encoding.bits",
        "rounding lifts the norm by",
    );
    let whole = JobSpec {
        encoding: Integers::default().into(),
        model_update: ModelUpdate::Nothing,
        ..with(noise())
    };
    refused(whole, "privacy", "needs the encoding quantised");
    let of_nobody = JobSpec {
        adversary: Adversary::SemiHonest,
        corrupt: 0.5,
        min_parties: 10,
        ..with(noise())
    };
    refused(of_nobody, "privacy", "m = 0, but 1 <= m");
    let no_delta = DiscreteGaussian {
        delta: 0.0,
        ..noise()
    };
    refused(with(no_delta), "privacy.delta", "must be given");
    refused(
        with(PrivacyName::DiscreteGaussian),
        "privacy.delta",
        "must be given",
    );
    let nothing = DiscreteGaussian {
        noise_multiplier: 0.0,
        ..noise()
    };
    refused(with(nothing), "privacy.noise_multiplier", "must be above 0");
    let without_end = JobSpec {
        rounds: 0,
        ..with(DiscreteGaussian {
            epsilon: 2.0,
            ..noise()
        })
    };
    refused(without_end, "privacy.epsilon", "rounds >= 1");
    let too_little = DiscreteGaussian {
        epsilon: 2.0,
        ..noise()
    };
    let missed = "the noise gives epsilon = ";
    refused(with(too_little), "privacy.noise_multiplier", missed);
    let tiny = DiscreteGaussian {
        delta: 1e-27,
        ..noise()
    };
    refused(with(tiny), "privacy.delta", "is too small for");
    let large = DiscreteGaussian {
        noise_multiplier: 2000.0,
        ..noise()
    };
    refused(with(large), "privacy.noise_multiplier", "1024");
}

/// Abuse case 39: noise of all parties hides nobody from who sees less than the sum of all.
#[test]
fn case_39_protocols_without_noise_say_why() {
    for (protocol, why) in [
        (ProtocolName::Plain, "its coordinator sees every vector"),
        (
            ProtocolName::PssMalicious,
            "it proves the vector as it is sent",
        ),
    ] {
        let spec = JobSpec {
            protocol: protocol.into(),
            ..with(noise())
        };
        refused(spec, "privacy", why);
    }
    let sparse = JobSpec {
        protocol: Flashe {
            density: 0.5,
            ..Flashe::default()
        }
        .into(),
        ..with(noise())
    };
    refused(sparse, "privacy", "needs density = 1");
    // One who lies may isolate another one's vector, or open a sum of other survivors: a party has its own noise.
    for protocol in [ProtocolName::PaillierRing, ProtocolName::Flashe] {
        let honest = |adversary| {
            let spec = JobSpec {
                protocol: protocol.into(),
                adversary,
                ..with(noise())
            };
            spec.validate().unwrap().privacy().unwrap().honest()
        };
        assert_eq!(honest(Adversary::Active), Some(1));
        assert!(honest(Adversary::SemiHonest) > Some(10));
    }
}

#[test]
fn options_alone_mean_the_usual_mechanism() {
    let read = |settings: &[(&str, &str)]| {
        let common = [
            ("protocol", "secagg"),
            ("parties", "20"),
            ("dim", "1000"),
            ("clipping", "l2"),
        ];
        let all = common.iter().chain(settings);
        let all = all.map(|(name, value)| (name.to_string(), Value::Text(value.to_string())));
        JobSpec::read_flat(&all.collect::<Vec<_>>()).map(|spec| spec.privacy)
    };
    let dotted = read(&[("privacy.noise_multiplier", "1"), ("privacy.delta", "1e-5")]).unwrap();
    assert_eq!(dotted, noise().into());
    let named = read(&[
        ("privacy", "skellam"),
        ("delta", "1e-5"),
        ("noise_multiplier", "1"),
        ("privacy.adjacency", "replace"),
    ]);
    let skellam = Skellam {
        noise_multiplier: 1.0,
        delta: 1e-5,
        adjacency: AdjacencyName::Replace,
        ..Skellam::default()
    };
    assert_eq!(named.unwrap(), skellam.into());
    let error = read(&[("delta", "1e-5")]).unwrap_err();
    assert_eq!(error.field, "delta");
    assert!(
        error
            .rule
            .contains("is an option of discrete-gaussian and skellam, not of none"),
        "{error}"
    );
    let job = "protocol = 'secagg'\nparties = 20\ndim = 9\nprivacy = { noise_multiplier = 1, delta = 1e-5 }";
    let job: JobSpec = toml::from_str(job).unwrap();
    assert_eq!(job.privacy, noise().into());
}
