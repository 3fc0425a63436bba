//! Every inequality of a job specification, violated by one: the error names the field and quotes the rule.

mod noise_of_servers;
mod privacy;
mod rosters;
mod said;
mod steps;
mod stops;

use blindsum_protocol::{
    Adversary, Clipping, Fixed64, Flashe, Integers, JobSpec, ModelUpdate, ProtocolChoice,
    ProtocolName, Quantised, SecAgg, SecAggPlus, TensorLayout,
};

/// A job of 30 parties that keeps every rule.
fn good(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        protocol: protocol.into(),
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

/// Checks a table of changes to the fields of a good job.
macro_rules! refusals {
    ($base:expr; $($field:ident = $value:expr => $name:literal, $rule:literal;)+) => {$(
        refused(JobSpec { $field: $value, ..$base }, $name, $rule);
    )+};
}

/// Checks a table of changes to the options of a good job's protocol or encoding, `$home`.
macro_rules! option_refusals {
    ($base:expr, $home:ident: $type:ident, $table:expr; $($option:ident = $value:expr => $name:literal, $rule:literal;)+) => {$(
        let table = $type { $option: $value, ..$table };
        refused(JobSpec { $home: table.into(), ..$base }, $name, $rule);
    )+};
}

// After the macros, which it uses.
mod models;

#[test]
fn case_24_rules_of_every_job() {
    for protocol in ProtocolName::ALL {
        let base = || good(*protocol);
        assert!(base().validate().is_ok());
        refusals! { base();
            job = String::new() => "job", "1 to 64";
            job = "a".repeat(65) => "job", "1 to 64";
            job = "Capital".into() => "job", "a-z";
            job = ".".into() => "job", "not of dots alone";
            job = "..".into() => "job", "not of dots alone";
            parties = 0 => "parties", "parties is 0 and must be from 1 to 100000";
            parties = 100_001 => "parties", "parties is 100001 and must be from 1 to 100000";
            min_parties = 31 => "min_parties", "min_parties is 31 and must be at most parties = 30";
            dim = 0 => "dim", "dim is 0 and must be from 1";
            dim = (1 << 32) + 1 => "dim", "dim is 4294967297 and must be from 1 to 4294967296";
            corrupt = -0.1 => "corrupt", "corrupt is -0.1 and must be at least 0 and below 1";
            corrupt = -0.0 => "corrupt", "corrupt is -0 and must be at least 0 and below 1";
            corrupt = 1.0 => "corrupt", "corrupt is 1 and must be at least 0 and below 1";
            corrupt = f64::NAN => "corrupt", "corrupt is NaN and must be at least 0 and below 1";
            dropout = 1.0 => "dropout", "dropout is 1 and must be at least 0 and below 1";
            join_deadline = 0.0 => "join_deadline", "join_deadline is 0 and must be above 0";
            stage_deadline = 1e6 + 1.0 => "stage_deadline", "stage_deadline is 1000001 and must be above 0 and at most 1000000";
            input_deadline = f64::NAN => "input_deadline", "input_deadline is NaN and must be above 0 and at most 1000000";
        }
    }
}

#[test]
fn case_24_rules_of_encodings() {
    let base = || good(ProtocolName::SecAgg);
    let tensor = || TensorLayout {
        name: "a".into(),
        len: 9,
        clip: 1.0,
    };
    let named = |name: &str, len| TensorLayout {
        name: name.into(),
        len,
        clip: 1.0,
    };
    option_refusals! { base(), encoding: Quantised, Quantised::default();
        bits = 1 => "encoding.bits", "bits is 1 and must be from 2 to 32";
        bits = 33 => "encoding.bits", "bits is 33 and must be from 2 to 32";
        clip = 0.0 => "encoding.clip", "clip is 0 and must be from 1e-30 to 1e30";
        clip = f64::NAN => "encoding.clip", "clip is NaN and must be from 1e-30 to 1e30";
        clip = f64::INFINITY => "encoding.clip", "clip is inf and must be from 1e-30 to 1e30";
        max_norm = -0.5 => "encoding.max_norm", "max_norm is -0.5 and must be from 0 to 1e35";
        max_norm = f64::NAN => "encoding.max_norm", "max_norm is NaN and must be from 0 to 1e35";
        max_norm = 1e-5 => "encoding.max_norm", "= 9.650652811988646e-5 < max_norm = 1e-5";
        max_weight = 0 => "encoding.max_weight", "max_weight is 0 and must be at least 1";
        tensors = vec![tensor()] => "encoding.tensors", "= 9 must be dim = 10";
        tensors = vec![named("b", 3), named("a", 2), named("a", 5)] => "encoding.tensors",
            "tensors.2.name = \"a\" must not be the name of tensors.1 too";
    }
    for names in [
        ["a", "b", ""],
        ["", "a", ""],
        ["", "", ""],
        ["a", "A", " a"],
    ] {
        let tensors = names.iter().zip([3, 2, 5]);
        let tensors: Vec<_> = tensors.map(|(name, len)| named(name, len)).collect();
        for encoding in [
            Quantised {
                tensors: tensors.clone(),
                ..Quantised::default()
            }
            .into(),
            Fixed64 {
                tensors: tensors.clone(),
                ..Fixed64::default()
            }
            .into(),
        ] {
            let job = JobSpec { encoding, ..base() };
            assert!(job.validate().is_ok(), "{names:?}");
        }
    }
    let short = || Quantised {
        max_norm: 1e-4,
        ..Quantised::default()
    };
    let job = JobSpec {
        encoding: short().into(),
        ..base()
    };
    assert!(job.validate().is_ok());
    option_refusals! { base(), encoding: Quantised, short();
        clipping = Clipping::L2 => "encoding.max_norm", "max_norm = 0.0001 must be 0 with clipping = l2";
        clipping = Clipping::Aciq => "encoding.max_norm", "must be 0 with clipping = aciq";
        tensors = vec![tensor()] => "encoding.max_norm", "must be 0 where tensors have bounds";
    }
    let heavy = || Quantised {
        bits: 32,
        ..Quantised::default()
    };
    option_refusals! { base(), encoding: Quantised, heavy();
        max_weight = 1 << 21 => "encoding.max_weight",
            "max_weight * (2^bits - 1) = 2097152 * (2^32 - 1) < 2^52";
    }
    let heavy = || Fixed64 {
        max_weight: 100_000,
        ..Fixed64::default()
    };
    option_refusals! { base(), encoding: Fixed64, heavy();
        clip = 1e9 => "encoding.clip", "clip * max_weight * parties * 2^16";
        tensors = vec![tensor()] => "encoding.tensors", "= 9 must be dim = 10";
    }
}

/// No model is made of integers.
#[test]
fn rules_of_integers() {
    let wide = || Integers {
        bits: 64,
        ..Integers::default()
    };
    let base = || JobSpec {
        encoding: wide().into(),
        model_update: ModelUpdate::Nothing,
        ..good(ProtocolName::SecAgg)
    };
    let job = base().validate().unwrap();
    // Two words each; 30 parties add 5 bits.
    assert_eq!((job.lanes(), job.width().bits()), (20, 37));
    option_refusals! { base(), encoding: Integers, wide();
        bits = 0 => "encoding.bits", "bits is 0 and must be from 1 to 64";
        bits = 65 => "encoding.bits", "bits is 65 and must be from 1 to 64";
        max_weight = 1 << 30 => "encoding.bits", "ceil(log2(30 * 1073741824)) = 67 <= 64";
    }
    refusals! { base();
        model_update = ModelUpdate::Add => "model_update", "model_update = add must be none";
        model_update = ModelUpdate::Replace => "model_update", "model_update = replace must be none";
    }
}

/// Sparse rounds are of quantised coordinates with equal weights.
#[test]
fn rules_of_sparse_rounds() {
    option_refusals! { good(ProtocolName::Flashe), protocol: Flashe, Flashe::default();
        density = 0.0 => "protocol.density", "density is 0 and must be above 0 and at most 1";
        density = 1.1 => "protocol.density", "density is 1.1 and must be above 0 and at most 1";
        density = f64::NAN => "protocol.density", "density is NaN and must be above 0 and at most 1";
        density_start = 0.5 => "protocol.density_start", "density_start = 0.5 must be left at 1 where density is 1";
        density_steps = 1 => "protocol.density_steps", "density_steps = 1 must be left at 0";
        density_rounds = 2 => "protocol.density_rounds", "density_rounds = 2 must be left at 1";
        min_contributors = 2 => "protocol.min_contributors", "min_contributors = 2 must be left at 0";
    }
    let sparse = || Flashe {
        density: 0.1,
        ..Flashe::default()
    };
    let base = || JobSpec {
        protocol: sparse().into(),
        ..good(ProtocolName::Flashe)
    };
    let job = base().validate().unwrap();
    assert_eq!(job.plan().stages(), ["mask", "upload"]);
    assert_eq!(job.parameters(), [("coordinates", 1)]);
    assert_eq!(job.spec().least_contributors(), 2);
    let heavy = Quantised {
        max_weight: 2,
        ..Quantised::default()
    };
    refusals! { base();
        encoding = Fixed64::default().into() => "encoding",
            "encoding = fixed64 must be quantised where density is below 1";
        encoding = heavy.into() => "encoding.max_weight", "max_weight = 2 must be 1 where density is below 1";
        model_update = ModelUpdate::Replace => "model_update", "must be add or none where density is below 1";
    }
    option_refusals! { base(), protocol: Flashe, sparse();
        min_contributors = 31 => "protocol.min_contributors", "1 <= min_contributors = 31 <= parties = 30";
        density_start = 0.5 => "protocol.density_start", "must be left at 1 where density_steps is 0";
        density_rounds = 0 => "protocol.density_rounds", "density_rounds is 0 and must be at least 1";
    }
    let falling = || Flashe {
        density_steps: 3,
        density_start: 0.8,
        ..sparse()
    };
    let warm_up = || JobSpec {
        protocol: falling().into(),
        ..base()
    };
    let density = warm_up().validate().unwrap().density().unwrap();
    assert_eq!([0, 3].map(|done| density.density(done)), [0.8, 0.1]);
    refusals! { warm_up();
        model_update = ModelUpdate::Nothing => "protocol.density_steps", "must be 0 where model_update is none";
    }
    option_refusals! { base(), protocol: Flashe, falling();
        density_start = 0.05 => "protocol.density_start", "density = 0.1 <= density_start = 0.05 <= 1";
        density_start = 1.5 => "protocol.density_start", "density_start is 1.5 and must be above 0 and at most 1";
    }
}

/// Bounds from earlier rounds need a model that the history travels with.
#[test]
fn rules_of_bounds_from_earlier_rounds() {
    let found = || Quantised {
        clipping: Clipping::Aciq,
        clip: 0.5,
        ..Quantised::default()
    };
    // Where other servers compute, they have no model to find bounds from.
    let others = [
        ProtocolName::Mpc3,
        ProtocolName::PaillierRing,
        ProtocolName::PaillierBroadcast,
        ProtocolName::PaillierAllReduce,
    ];
    for protocol in others {
        let spec = JobSpec {
            encoding: found().into(),
            ..good(protocol)
        };
        let refused = spec.validate().unwrap_err();
        assert_eq!(refused.field, "encoding.clipping", "{refused}");
        assert!(
            refused
                .to_string()
                .contains(&format!("not be aciq with {protocol}"))
        );
    }
    let all = ProtocolName::ALL.iter();
    for protocol in all.filter(|protocol| !others.contains(protocol)) {
        let base = || JobSpec {
            encoding: found().into(),
            ..good(*protocol)
        };
        let job = base().validate().unwrap();
        assert_eq!(
            job.new_history().map(|history| history.clips()),
            Some(vec![0.5])
        );
        refusals! { base();
            model_update = ModelUpdate::Nothing => "encoding.clipping",
                "not be aciq if model_update is none";
        }
        option_refusals! { base(), encoding: Quantised, found();
            clip = 1e31 => "encoding.clip", "clip is 1e31 and must be from 1e-30 to 1e30";
        }
    }
    let usual = good(ProtocolName::Plain).validate().unwrap();
    assert!(usual.new_history().is_none());
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
                protocol: match protocol {
                    ProtocolName::SecAgg => SecAgg { threshold }.into(),
                    _ => with_neighbours(0, threshold),
                },
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
                "protocol.threshold",
                &format!("threshold is {} and must be from {least} to ", least - 1),
            );
            let error = threshold(most + 1).validate().unwrap_err();
            assert_eq!(error.field, "protocol.threshold");
            let above = format!("threshold is {} and must be ", most + 1);
            assert!(error.rule.contains(&above), "{error}");
            let bound = error.rule.split([':', ';']).next();
            assert!(
                bound.is_some_and(|said| said.contains(&format!(" {most}"))),
                "{error}"
            );
        }
    }
    let sparse = |neighbours| JobSpec {
        protocol: with_neighbours(neighbours, 0),
        ..good(ProtocolName::SecAggPlus)
    };
    let odd = JobSpec {
        parties: 31,
        ..sparse(5)
    };
    let semi_honest = JobSpec {
        adversary: Adversary::SemiHonest,
        ..sparse(2)
    };
    for (spec, rule) in [
        (
            sparse(30),
            "neighbours is 30 and must be at most parties - 1 = 29",
        ),
        (odd, "5 * 31 must be even"),
        (
            sparse(2),
            "neighbours is 2 and must be at least 16 where adversary = active",
        ),
        (semi_honest, "falls apart with probability"),
    ] {
        refused(spec, "protocol.neighbours", rule);
    }
    let lossy = JobSpec {
        dropout: 0.5,
        corrupt: 0.3,
        ..sparse(0)
    };
    refused(lossy, "dropout", "with 15 dropouts of 30");
}

fn with_neighbours(neighbours: u32, threshold: u32) -> ProtocolChoice {
    SecAggPlus {
        neighbours,
        threshold,
    }
    .into()
}
