//! Every inequality of a job specification, violated by one: the error names the field and quotes the rule.

mod rosters;

use blindsum_protocol::{
    Adversary, Clipping, EncodingName, JobSpec, ModelUpdate, ProtocolName, RoundingName,
    TensorLayout,
};

/// A job of 30 parties that keeps every rule.
fn good(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        protocol,
        parties: 30,
        dim: 10,
        ..JobSpec::default()
    }
}

/// The change is refused, for this field, with this text in the rule.
fn refused(spec: JobSpec, field: &str, rule: &str) {
    let error = spec.validate().expect_err(rule);
    assert_eq!(error.field, field, "{error}");
    assert!(error.rule.contains(rule), "{error} should quote {rule:?}");
}

/// Checks a table of changes to a good job.
macro_rules! refusals {
    ($base:expr; $($field:ident = $value:expr => $name:literal, $rule:literal;)+) => {$(
        refused(JobSpec { $field: $value, ..$base }, $name, $rule);
    )+};
}

#[test]
fn case_24_rules_of_every_protocol() {
    for protocol in ProtocolName::ALL {
        let base = || good(*protocol);
        assert!(base().validate().is_ok());
        refusals! { base();
            job = String::new() => "job", "1 to 64";
            job = "a".repeat(65) => "job", "1 to 64";
            job = "Capital".into() => "job", "a-z";
            parties = 0 => "parties", "1 <= parties = 0 <= 100000";
            parties = 100_001 => "parties", "1 <= parties = 100001 <= 100000";
            min_parties = 31 => "min_parties", "min_parties = 31 <= parties = 30";
            dim = 0 => "dim", "1 <= dim = 0";
            dim = (1 << 32) + 1 => "dim", "dim = 4294967297 <= 2^32";
            bits = 1 => "bits", "2 <= bits = 1 <= 32";
            bits = 33 => "bits", "2 <= bits = 33 <= 32";
            clip = 0.0 => "clip", "1e-100 <= clip = 0e0";
            clip = f64::NAN => "clip", "clip = NaN";
            clip = f64::INFINITY => "clip", "clip = inf";
            max_weight = 0 => "max_weight", "1 <= max_weight = 0";
            corrupt = -0.1 => "corrupt", "0 <= corrupt = -0.1 < 1";
            corrupt = 1.0 => "corrupt", "corrupt = 1 < 1";
            corrupt = f64::NAN => "corrupt", "corrupt = NaN";
            dropout = 1.0 => "dropout", "dropout = 1 < 1";
            join_deadline = 0.0 => "join_deadline", "0 < join_deadline = 0";
            stage_deadline = 1e6 + 1.0 => "stage_deadline", "stage_deadline = 1000001 <= 1000000";
            input_deadline = f64::NAN => "input_deadline", "input_deadline = NaN";
            tensors = vec![TensorLayout { name: "a".into(), len: 9, clip: 1.0 }] => "tensors", "= 9 must be dim = 10";
        }
        let heavy = JobSpec { bits: 32, ..base() };
        refusals! { heavy;
            max_weight = 1 << 21 => "max_weight", "max_weight * (2^bits - 1) = 2097152 * (2^32 - 1) < 2^52";
        }
        let fixed = JobSpec {
            encoding: EncodingName::Fixed64,
            ..base()
        };
        let heavy = JobSpec {
            clip: 1e9,
            max_weight: 100_000,
            ..fixed.clone()
        };
        refused(heavy, "clip", "clip * max_weight * parties * 2^16");
        refused(
            JobSpec {
                clipping: Clipping::L2,
                ..fixed
            },
            "clipping",
            "tensor where encoding is fixed64",
        );
    }
}

/// What integers have nothing to do with is refused, not ignored.
#[test]
fn rules_of_integers() {
    let base = || JobSpec {
        encoding: EncodingName::Integers,
        bits: 64,
        model_update: ModelUpdate::Nothing,
        ..good(ProtocolName::SecAgg)
    };
    let job = base().validate().unwrap();
    // Two words each; 30 parties add 5 bits.
    assert_eq!((job.lanes(), job.width().bits()), (20, 37));
    let tensor = TensorLayout {
        name: "a".into(),
        len: 10,
        clip: 1.0,
    };
    refusals! { base();
        bits = 0 => "bits", "1 <= bits = 0 <= 64";
        bits = 65 => "bits", "1 <= bits = 65 <= 64";
        max_weight = 1 << 30 => "bits", "ceil(log2(30 * 1073741824)) = 67 <= 64";
        clip = 2.0 => "clip", "clip = 2e0 must be left at 1 where encoding is integers";
        clip = f64::NAN => "clip", "clip = NaN";
        clipping = Clipping::L2 => "clipping", "left at tensor where encoding is integers";
        rounding = RoundingName::Nearest => "rounding", "left at stochastic";
        tensors = vec![tensor] => "tensors", "must be empty";
        model_update = ModelUpdate::Add => "model_update", "model_update = add must be none";
        model_update = ModelUpdate::Replace => "model_update", "model_update = replace must be none";
    }
}

/// Sparse rounds are those of one protocol, of quantised coordinates with equal weights.
#[test]
fn rules_of_sparse_rounds() {
    for protocol in ProtocolName::ALL {
        let base = || good(*protocol);
        refusals! { base();
            density = 0.0 => "density", "0 < density = 0 <= 1";
            density = 1.1 => "density", "0 < density = 1.1 <= 1";
            density = f64::NAN => "density", "0 < density = NaN <= 1";
            density_start = 0.5 => "density_start", "density_start = 0.5 must be left at 1 where density is 1";
            density_steps = 1 => "density_steps", "density_steps = 1 must be left at 0";
            density_rounds = 2 => "density_rounds", "density_rounds = 2 must be left at 1";
            min_contributors = 2 => "min_contributors", "min_contributors = 2 must be left at 0";
        }
        if *protocol != ProtocolName::Flashe {
            let rule = format!("density = 0.5 must be 1 for {protocol}");
            refused(
                JobSpec {
                    density: 0.5,
                    ..base()
                },
                "density",
                &rule,
            );
        }
    }
    let base = || JobSpec {
        density: 0.1,
        ..good(ProtocolName::Flashe)
    };
    let job = base().validate().unwrap();
    assert_eq!(job.plan().stages(), ["mask", "upload"]);
    assert_eq!(job.parameters(), [("coordinates", 1)]);
    assert_eq!(job.spec().least_contributors(), 2);
    refusals! { base();
        encoding = EncodingName::Fixed64 => "encoding", "encoding = fixed64 must be quantised where density is below 1";
        max_weight = 2 => "max_weight", "max_weight = 2 must be 1 where density is below 1";
        min_contributors = 31 => "min_contributors", "1 <= min_contributors = 31 <= parties = 30";
        density_start = 0.5 => "density_start", "must be left at 1 where density_steps is 0";
        density_rounds = 0 => "density_rounds", "1 <= density_rounds = 0";
    }
    let warm_up = || JobSpec {
        density_steps: 3,
        density_start: 0.8,
        ..base()
    };
    let density = warm_up().validate().unwrap().density().unwrap();
    assert_eq!([0, 3].map(|done| density.density(done)), [0.8, 0.1]);
    refusals! { warm_up();
        model_update = ModelUpdate::Nothing => "density_steps", "must be 0 where model_update is none";
        density_start = 0.05 => "density_start", "density = 0.1 <= density_start = 0.05 <= 1";
        density_start = 1.5 => "density_start", "density = 0.1 <= density_start = 1.5 <= 1";
    }
}

/// Bounds from earlier rounds need quantised coordinates and a model that the history travels with.
#[test]
fn rules_of_bounds_from_earlier_rounds() {
    for protocol in ProtocolName::ALL {
        let base = || JobSpec {
            clipping: Clipping::Aciq,
            clip: 0.5,
            ..good(*protocol)
        };
        let job = base().validate().unwrap();
        assert_eq!(
            job.new_history().map(|history| history.clips()),
            Some(vec![0.5])
        );
        refusals! { base();
            encoding = EncodingName::Fixed64 => "clipping", "tensor where encoding is fixed64";
            model_update = ModelUpdate::Nothing => "clipping", "not be aciq where model_update is none";
            clip = 1e31 => "clip", "1e-30 <= clip = 1e31 <= 1e30";
        }
    }
    let integers = JobSpec {
        encoding: EncodingName::Integers,
        model_update: ModelUpdate::Nothing,
        clipping: Clipping::Aciq,
        ..good(ProtocolName::Plain)
    };
    refused(
        integers,
        "clipping",
        "left at tensor where encoding is integers",
    );
    assert!(
        good(ProtocolName::Plain)
            .validate()
            .unwrap()
            .new_history()
            .is_none()
    );
}

#[test]
fn only_ramp_sharing_packs_words() {
    for protocol in [
        ProtocolName::Plain,
        ProtocolName::SecAgg,
        ProtocolName::SecAggPlus,
    ] {
        refusals! { good(protocol);
            packing = 1 => "packing", "packing = 1 must be 0";
        }
    }
}

/// Corrupt parties are rounded up, to one at least, dropouts down, but not because a decimal fraction has no exact double.
#[test]
fn fractions_of_parties() {
    for (fraction, n, corrupt, dropouts) in [
        (0.07, 100, 7, 7),
        (0.28, 25, 7, 7),
        (0.29, 100, 29, 29),
        (0.1, 10, 1, 1),
        (0.1, 11, 2, 1),
        (0.3, 9, 3, 2),
        (0.0, 100_000, 1, 0),
        (1e-6, 100_000, 1, 0),
        (0.999_99, 100_000, 99_999, 99_999),
        (0.5, 0, 1, 0),
    ] {
        let spec = JobSpec {
            adversary: Adversary::SemiHonest,
            parties: n as u32,
            corrupt: fraction,
            dropout: fraction,
            ..JobSpec::default()
        };
        assert_eq!(spec.corrupt_parties(), corrupt, "{fraction} of {n}");
        assert_eq!(spec.dropouts_among(n), dropouts, "{fraction} of {n}");
    }
}

#[test]
fn case_24_rules_of_secagg() {
    for protocol in [ProtocolName::SecAgg, ProtocolName::SecAggPlus] {
        for adversary in Adversary::ALL {
            let base = || JobSpec {
                adversary: *adversary,
                ..good(protocol)
            };
            refused(
                JobSpec {
                    min_parties: 1,
                    ..base()
                },
                "min_parties",
                "(is 1)",
            );
            refused(
                JobSpec {
                    parties: 1,
                    ..base()
                },
                "parties",
                "(is 1)",
            );
            // Thresholds: the smallest and the largest that are let, and one beyond either.
            let threshold = |threshold| JobSpec {
                threshold,
                ..base()
            };
            let accepted: Vec<u32> = (1..=40)
                .filter(|&t| threshold(t).validate().is_ok())
                .collect();
            let (Some(&least), Some(&most)) = (accepted.first(), accepted.last()) else {
                panic!("some threshold is accepted");
            };
            assert_eq!(accepted.len() as u32, most - least + 1, "no gap");
            refused(
                threshold(least - 1),
                "threshold",
                &format!("{least} <= threshold = {} <= ", least - 1),
            );
            let error = threshold(most + 1).validate().unwrap_err();
            assert_eq!(error.field, "threshold");
            assert!(
                error
                    .rule
                    .contains(&format!("threshold = {} <= {most}", most + 1)),
                "{error}"
            );
        }
    }
    refused(
        JobSpec {
            neighbours: 4,
            ..good(ProtocolName::SecAgg)
        },
        "neighbours",
        "neighbours = 4 must be 0 for secagg",
    );
    let sparse = || good(ProtocolName::SecAggPlus);
    refused(
        JobSpec {
            neighbours: 30,
            ..sparse()
        },
        "neighbours",
        "neighbours = 30 <= parties - 1 = 29",
    );
    refused(
        JobSpec {
            neighbours: 5,
            parties: 31,
            ..sparse()
        },
        "neighbours",
        "5 * 31 must be even",
    );
    refused(
        JobSpec {
            neighbours: 2,
            ..sparse()
        },
        "neighbours",
        "active: neighbours = 2 >= min(16, parties - 1) = 16",
    );
    refused(
        JobSpec {
            neighbours: 2,
            adversary: Adversary::SemiHonest,
            ..sparse()
        },
        "neighbours",
        "falls apart with probability",
    );
    refused(
        JobSpec {
            dropout: 0.5,
            corrupt: 0.3,
            ..sparse()
        },
        "dropout",
        "with 15 dropouts of 30",
    );
}
