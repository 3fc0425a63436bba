//! Metrics in every protocol and encoding: [`simulate`] compares them with plain arithmetic on levels, as it does the sum.

use std::sync::Arc;

use blindsum_protocol::{
    Clipping, Fixed64, Flashe, Integers, Job, JobSpec, Metric, ModelUpdate, Mpc3, PssMalicious,
    Quantised, ResultName, RoundingName, RuleName,
};
use blindsum_sim::{DropAt, Given, Run, Scenario, Stage};

use crate::support::{jobs, jobs_that_bear_losses, name, simulate, simulate_inputs, small};

fn metrics() -> Vec<Metric> {
    let ranges = [
        ("accuracy", 0.0, 1.0),
        ("loss", -3.0, 40.0),
        ("far", 1e9, 2e9),
    ];
    let metric = |(name, low, high): (&str, f64, f64)| Metric {
        name: name.into(),
        low,
        high,
    };
    ranges.map(metric).to_vec()
}

fn with_metrics(spec: JobSpec) -> JobSpec {
    JobSpec {
        metrics: metrics(),
        ..spec
    }
}

/// Runs a job; all metrics are told, and some parties have reported each.
fn told(job: &Arc<Job>) -> Run {
    let run = simulate(Scenario::new(job.clone()));
    let report = &run.report.last;
    assert!(report.exact, "{}: {:?}", name(job), report.fault);
    let names: Vec<&str> = report.metrics.keys().map(String::as_str).collect();
    assert_eq!(names, ["accuracy", "far", "loss"]);
    for (metric, of) in metrics().iter().zip(["accuracy", "loss", "far"]) {
        let told = report.metrics[of];
        let value = told.value.unwrap();
        assert!((metric.low..=metric.high).contains(&value));
        assert!(told.share > 0.0 && told.share <= 1.0);
    }
    run
}

fn encoded(encoding: impl Into<blindsum_protocol::EncodingChoice>) -> JobSpec {
    with_metrics(JobSpec {
        encoding: encoding.into(),
        ..small()
    })
}

#[test]
fn every_protocol_sums_metrics() {
    for job in jobs(&encoded(Quantised::default())) {
        told(&job);
    }
}

#[test]
fn every_encoding_of_real_numbers_carries_metrics() {
    let nearest = RoundingName::Nearest;
    for encoding in [
        Quantised {
            bits: 2,
            ..Default::default()
        },
        Quantised {
            bits: 2,
            rounding: nearest,
            ..Default::default()
        },
        Quantised {
            bits: 32,
            ..Default::default()
        },
        Quantised {
            max_weight: 1000,
            ..Default::default()
        },
    ] {
        jobs_that_bear_losses(&encoded(encoding))
            .iter()
            .for_each(|job| drop(told(job)));
    }
    for encoding in [
        Quantised {
            clipping: Clipping::L2,
            ..Default::default()
        },
        Quantised {
            max_norm: 1.0,
            bits: 12,
            ..Default::default()
        },
    ] {
        let spec = encoded(encoding);
        for protocol in ["secagg+", "pss", "mpc3"] {
            let protocol = blindsum_protocol::ProtocolName::ALL
                .iter()
                .find(|name| name.as_str() == protocol);
            let spec = JobSpec {
                protocol: (*protocol.unwrap()).into(),
                ..spec.clone()
            };
            told(&Arc::new(spec.validate().unwrap()));
        }
    }
    let aciq = Quantised {
        clipping: Clipping::Aciq,
        ..Default::default()
    };
    told(&Arc::new(encoded(aciq).validate().unwrap()));
}

#[test]
fn fixed_point_and_integers_carry_metrics_in_every_protocol() {
    let fixed = Fixed64 {
        max_weight: 100,
        clip: 50.0,
        ..Default::default()
    };
    jobs(&encoded(fixed)).iter().for_each(|job| drop(told(job)));
    for (bits, max_weight) in [(1, 1), (16, 9), (64, 1)] {
        let integers = Integers { bits, max_weight };
        let spec = JobSpec {
            model_update: ModelUpdate::Nothing,
            ..encoded(integers)
        };
        jobs(&spec).iter().for_each(|job| drop(told(job)));
    }
}

#[test]
fn metrics_of_sparse_rounds_are_those_of_all_survivors() {
    for min_contributors in [0, 8] {
        let spec = JobSpec {
            protocol: Flashe {
                density: 0.25,
                min_contributors,
                ..Default::default()
            }
            .into(),
            ..encoded(Quantised::default())
        };
        let job = Arc::new(spec.validate().unwrap());
        let run = told(&job);
        assert_eq!(run.report.last.survivors, 8);
        // One is lost: where all must have sent a word it stays closed, and nobody counts as having reported.
        let run = simulate(Scenario {
            drop_at: vec![DropAt {
                stage: Stage::Number(0),
                count: 1,
            }],
            ..Scenario::new(job)
        });
        assert!(run.report.last.exact);
        let closed = run
            .report
            .last
            .metrics
            .values()
            .all(|told| told.value.is_none() && told.share == 0.0);
        assert_eq!(closed, min_contributors == 8);
    }
}

#[test]
fn metrics_are_those_of_the_survivors_wherever_parties_vanish() {
    for job in jobs_that_bear_losses(&encoded(Quantised {
        max_weight: 50,
        ..Default::default()
    })) {
        for stage in 0..job.plan().answers().count() {
            // Exact, or no sum: both are checked.
            let drop_at = vec![DropAt {
                stage: Stage::Number(stage as u8),
                count: 2,
            }];
            simulate(Scenario {
                drop_at,
                ..Scenario::new(job.clone())
            });
        }
    }
}

fn ruled(rule: RuleName, of: Mpc3) -> JobSpec {
    JobSpec {
        protocol: Mpc3 { rule, ..of }.into(),
        ..encoded(Quantised {
            bits: 10,
            clipping: match rule {
                RuleName::Median | RuleName::TrimmedMean => Clipping::Tensor,
                _ => Clipping::L2,
            },
            max_weight: if rule == RuleName::Weighted { 9 } else { 1 },
            ..Default::default()
        })
    }
}

#[test]
fn servers_that_compute_add_up_metrics_apart_from_the_rule() {
    for rule in RuleName::ALL {
        for adversary in blindsum_protocol::Adversary::ALL {
            let spec = JobSpec {
                adversary: *adversary,
                ..ruled(*rule, Mpc3::default())
            };
            let job = Arc::new(spec.validate().unwrap());
            let run = told(&job);
            // The rule makes the same of the vectors without metrics, where rounding is the same.
            let plain = JobSpec {
                metrics: Vec::new(),
                ..job.spec().clone()
            };
            let plain = simulate(Scenario::new(Arc::new(plain.validate().unwrap())));
            let (with, without) = (run.last.mean.unwrap(), plain.last.mean.unwrap());
            let bound = run.report.last.error_bound.unwrap_or(1e-12) * 2.0;
            for (one, other) in with.iter().zip(without) {
                assert!((one - other).abs() <= bound, "{rule}: {one} {other}");
            }
        }
    }
}

#[test]
fn parties_and_servers_alone_learn_metrics_of_rules() {
    for (result, model_update) in [
        (ResultName::Parties, ModelUpdate::Add),
        (ResultName::Servers, ModelUpdate::Nothing),
    ] {
        for rule in [RuleName::FedAvg, RuleName::MultiKrum, RuleName::FlTrust] {
            let of = Mpc3 {
                result,
                ..Default::default()
            };
            let spec = JobSpec {
                model_update,
                ..ruled(rule, of)
            };
            told(&Arc::new(spec.validate().unwrap()));
        }
    }
}

#[test]
fn case_24_metrics_that_would_tell_more_than_the_result_are_refused() {
    let noisy = JobSpec {
        protocol: Mpc3 {
            noise: 0.5,
            ..Default::default()
        }
        .into(),
        ..encoded(Quantised::default())
    };
    let proved = JobSpec {
        protocol: PssMalicious::default().into(),
        parties: 20,
        ..encoded(Quantised {
            max_norm: 1.0,
            bits: 10,
            ..Default::default()
        })
    };
    for (spec, rule) in [
        (noisy, "noise = 0.5 of rule = fedavg"),
        (proved, "pss-malicious with max_norm"),
    ] {
        let error = spec.clone().validate().unwrap_err();
        assert_eq!(error.field, "metrics");
        assert!(error.rule.contains(rule), "{error}");
        let without = JobSpec {
            metrics: Vec::new(),
            ..spec
        };
        without.validate().unwrap();
    }
}

#[test]
fn a_metric_that_is_missing_is_counted_and_not_guessed() {
    let job = Arc::new(encoded(Quantised::default()).validate().unwrap());
    let vectors = vec![vec![0.0_f32; 20]; 8];
    let metrics = |party: usize| match party {
        0 => vec![Some(0.25), None, None],
        1 => vec![Some(0.75), Some(f64::NAN), None],
        2 => vec![Some(7.0), Some(-100.0), None],
        _ => vec![None, Some(f64::INFINITY), None],
    };
    let inputs = Given::new(vectors.iter().map(Vec::as_slice), Vec::new());
    let inputs = inputs.with_metrics((0..8).map(metrics).collect());
    let run = simulate_inputs(Scenario::new(job), &inputs, &mut ()).unwrap();
    let told = |name| run.report.last.metrics[name];
    let accuracy = told("accuracy");
    assert!((accuracy.value.unwrap() - 2.0 / 3.0).abs() < 1e-7);
    assert_eq!(accuracy.share, 3.0 / 8.0);
    assert_eq!(
        (told("loss").value, told("loss").share),
        (Some(-3.0), 0.125)
    );
    assert_eq!((told("far").value, told("far").share), (None, 0.0));
    assert!(run.report.last.exact);
}
