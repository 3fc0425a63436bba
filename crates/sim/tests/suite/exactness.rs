//! The sum is right, bit for bit, whatever the shape of the job.

use std::sync::Arc;

use blindsum_protocol::{
    Clipping, EncodingName, Fixed64, Integers, Job, JobSpec, Message, ModelUpdate, PartyId,
    ProtocolName, Quantised, RoundingName, TensorLayout,
};
use blindsum_sim::{Action, Given, Hooks, RoundOutcome, Scenario};

use crate::support::{
    check, jobs, jobs_of, jobs_that_bear_losses, name, simulate, simulate_inputs, simulate_with,
    small,
};

/// Every protocol with this job: everybody survives and the sum is exact.
fn exact(spec: JobSpec) {
    exact_with(&spec, jobs(&spec));
}

fn exact_with(spec: &JobSpec, jobs: Vec<Arc<Job>>) {
    for job in jobs {
        let run = simulate(Scenario::new(job.clone()));
        assert_eq!(run.report.last.outcome, RoundOutcome::Sum, "{}", name(&job));
        assert_eq!(run.report.last.survivors, spec.parties as usize);
    }
}

#[test]
fn dimensions_around_the_size_of_a_tile() {
    for dim in [1, 7, 8, 9, 4095, 4096, 4097, 12_289] {
        exact(JobSpec { dim, ..small() });
    }
}

#[test]
fn a_large_vector() {
    exact(JobSpec {
        dim: 100_000,
        parties: 5,
        ..small()
    });
}

#[test]
fn widths_of_values() {
    for bits in 2..=32 {
        let spec = JobSpec {
            encoding: Quantised {
                bits,
                ..Default::default()
            }
            .into(),
            ..small()
        };
        // Every job costs rings and the like a key: for them the ends, and those around a multiple of 8.
        match bits {
            2 | 15..=17 | 31..=32 => exact_with(&spec, jobs(&spec)),
            _ => exact_with(&spec, jobs_that_bear_losses(&spec)),
        }
    }
}

#[test]
fn weights_are_summed_too() {
    for max_weight in [2, 1000, 65_535] {
        exact(JobSpec {
            encoding: Quantised {
                max_weight,
                ..Default::default()
            }
            .into(),
            ..small()
        });
    }
}

#[test]
fn fixed_point_and_roundings() {
    for rounding in RoundingName::ALL {
        exact(JobSpec {
            encoding: Quantised {
                rounding: *rounding,
                ..Default::default()
            }
            .into(),
            ..small()
        });
    }
    exact(JobSpec {
        encoding: EncodingName::Fixed64.into(),
        ..small()
    });
    exact(JobSpec {
        encoding: Fixed64 {
            max_weight: 100,
            clip: 50.0,
            ..Default::default()
        }
        .into(),
        ..small()
    });
}

fn integers() -> JobSpec {
    JobSpec {
        encoding: EncodingName::Integers.into(),
        model_update: ModelUpdate::Nothing,
        ..small()
    }
}

#[test]
fn integers_of_every_width() {
    for bits in [1, 2, 16, 29, 30, 33, 48, 61, 62, 64] {
        let spec = JobSpec {
            encoding: Integers {
                bits,
                ..Default::default()
            }
            .into(),
            ..integers()
        };
        match bits {
            1 | 30 | 33 | 64 => exact_with(&spec, jobs(&spec)),
            _ => exact_with(&spec, jobs_that_bear_losses(&spec)),
        }
    }
    for dim in [1, 4095, 4096, 8193] {
        exact(JobSpec {
            encoding: Integers {
                bits: 64,
                max_weight: 1000,
            }
            .into(),
            dim,
            ..integers()
        });
    }
}

#[test]
fn given_integers_and_their_sums() {
    let spec = JobSpec {
        parties: 4,
        dim: 2,
        encoding: Integers {
            bits: 64,
            max_weight: 9,
        }
        .into(),
        ..integers()
    };
    let vectors: Vec<[u64; 2]> = (0..4).map(|i| [u64::MAX - i, i]).collect();
    for job in jobs(&spec) {
        let inputs = Given::new(vectors.iter().map(|v| v.as_slice()), vec![9, 1, 1, 9]);
        let run = simulate_inputs(Scenario::new(job.clone()), &inputs, &mut ()).unwrap();
        assert!(run.report.last.exact, "{}", name(&job));
        let first = 20 * u128::from(u64::MAX) - (1 + 2 + 27);
        assert_eq!(run.last.sums, Some(vec![first, 1 + 2 + 27]));
        assert_eq!(run.last.mean, Some(vec![first as f64 / 20.0, 1.5]));
        let reals = [[1.0_f32; 2]; 4];
        let inputs = Given::new(reals.iter().map(|v| v.as_slice()), vec![]);
        let error = simulate_inputs(Scenario::new(job), &inputs, &mut ()).unwrap_err();
        assert!(error.to_string().contains("not floating-point"), "{error}");
    }
}

#[test]
fn clipping_by_norm_and_by_tensor() {
    exact(JobSpec {
        encoding: Quantised {
            clipping: Clipping::L2,
            clip: 3.0,
            ..Default::default()
        }
        .into(),
        ..small()
    });
    for (max_norm, rounding) in [
        (1.5, RoundingName::Stochastic),
        (3.0, RoundingName::Nearest),
    ] {
        exact(JobSpec {
            encoding: Quantised {
                max_norm,
                rounding,
                ..Default::default()
            }
            .into(),
            ..small()
        });
    }
    let tensor = |len, clip| TensorLayout {
        name: format!("layer-{len}"),
        len,
        clip,
    };
    exact(JobSpec {
        encoding: Quantised {
            tensors: vec![tensor(13, 0.25), tensor(7, 8.0)],
            ..Default::default()
        }
        .into(),
        ..small()
    });
}

#[test]
fn bounds_follow_earlier_rounds() {
    let spec = JobSpec {
        encoding: Quantised {
            clipping: Clipping::Aciq,
            clip: 4.0,
            bits: 8,
            ..Default::default()
        }
        .into(),
        ..small()
    };
    let vector = |i: u32| (0..20).map(move |d| 0.01 * (i as f32 + 1.7 * d as f32).sin());
    let vectors: Vec<Vec<f32>> = (0..8).map(|i| vector(i).collect()).collect();
    let inputs = Given::new(vectors.iter().map(Vec::as_slice), vec![]);
    // The other servers of mpc3, and key services, have no model to find bounds from.
    let others = [
        ProtocolName::Mpc3,
        ProtocolName::PaillierRing,
        ProtocolName::PaillierBroadcast,
        ProtocolName::PaillierAllReduce,
    ];
    for job in jobs_of(&spec, |protocol| !others.contains(&protocol)) {
        let errors = [1, 6].map(|rounds| {
            let scenario = Scenario {
                rounds,
                drop: 0.25,
                ..Scenario::new(job.clone())
            };
            let run = simulate_inputs(scenario, &inputs, &mut ()).unwrap();
            check(&job, &run);
            assert_eq!(
                (run.report.last.survivors, run.report.last.exact),
                (6, true)
            );
            run.report.last.max_abs_error.unwrap()
        });
        // Levels are 8 / 255 apart in the first round, and soon about a thirtieth of that.
        assert!(
            errors[0] > 1e-3 && errors[1] < errors[0] / 10.0,
            "{errors:?}"
        );
    }
}

#[test]
fn numbers_of_parties() {
    for parties in [3, 4, 5, 6, 9, 17, 33] {
        exact(JobSpec {
            parties,
            dim: 3,
            ..small()
        });
    }
}

#[test]
fn given_vectors_and_their_mean() {
    let spec = JobSpec {
        parties: 5,
        dim: 3,
        encoding: Quantised {
            max_weight: 10,
            bits: 20,
            ..Default::default()
        }
        .into(),
        ..small()
    };
    let vectors: Vec<Vec<f32>> = (0..5).map(|i| vec![0.1 * i as f32, -0.5, 7.0]).collect();
    let doubles: Vec<Vec<f64>> = vectors
        .iter()
        .map(|v| v.iter().map(|x| f64::from(*x)).collect())
        .collect();
    for job in jobs(&spec) {
        let weights = vec![1, 2, 3, 4, 10];
        let singles = Given::new(vectors.iter().map(Vec::as_slice), weights.clone());
        let run = simulate_inputs(Scenario::new(job.clone()), &singles, &mut ()).unwrap();
        assert!(run.report.last.exact);
        // (0.1 * 2 + 0.2 * 3 + 0.3 * 4 + 0.4 * 10) / 20; the third coordinate is clipped.
        let mean = run.last.mean.unwrap();
        for (mean, expected) in mean.iter().zip([0.3, -0.5, 1.0]) {
            assert!(
                (mean - expected).abs() <= job.encoding().max_error() + 1e-7,
                "{mean}, not {expected}"
            );
        }
        let doubles = Given::new(doubles.iter().map(Vec::as_slice), weights);
        let same = simulate_inputs(Scenario::new(job), &doubles, &mut ()).unwrap();
        assert_eq!(same.last.mean.unwrap(), mean);
    }
}

#[test]
fn case_26_numbers_that_are_none_are_refused_before_anything_is_sent() {
    let spec = JobSpec {
        parties: 4,
        dim: 2,
        ..small()
    };
    for job in jobs(&spec) {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let vectors = [[0.0, 0.5], [1.0, bad], [0.0, 0.0], [0.0, 0.0]];
            let inputs = Given::new(vectors.iter().map(|v| v.as_slice()), vec![]);
            let error = simulate_inputs(Scenario::new(job.clone()), &inputs, &mut ()).unwrap_err();
            assert_eq!(
                error.to_string(),
                "inputs: values of party 1: coordinate 1 is not a finite number"
            );
        }
    }
}

/// Keeps every vector on its way, and looks whether somebody else still does.
struct Vectors {
    stage: u8,
    seen: Vec<Message>,
    most_held: usize,
}

impl Hooks for Vectors {
    fn client_says(&mut self, stage: u8, _from: PartyId, message: &Message) -> Action {
        if stage == self.stage {
            self.seen.push(message.clone());
            let held = self
                .seen
                .iter()
                .filter(|vector| !vector.is_unique())
                .count();
            self.most_held = self.most_held.max(held);
        }
        Action::Deliver
    }
}

/// Rounds of many parties fit into memory because a vector is gone when the server has added it.
#[test]
fn few_vectors_exist_at_a_time() {
    let spec = JobSpec {
        parties: 6,
        dim: 2_000_000,
        ..small()
    };
    // Uploads to several servers are wiped when they are dropped; such messages do not tell whether somebody else has them.
    let one = |job: &Arc<Job>| job.servers().next().is_none();
    for job in jobs(&spec).into_iter().filter(one).take(3) {
        for threads in [1, 2] {
            let mut vectors = Vectors {
                stage: job.plan().input_stage().unwrap(),
                seen: Vec::new(),
                most_held: 0,
            };
            simulate_with(
                Scenario {
                    threads,
                    ..Scenario::new(job.clone())
                },
                &mut vectors,
            );
            assert_eq!(vectors.seen.len(), 6);
            assert_eq!(vectors.most_held, threads, "{}", name(&job));
        }
    }
}
