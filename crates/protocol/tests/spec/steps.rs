//! Rules of server steps and of the first model.

use blindsum_protocol::{
    FedAdam, FedAvg, FedAvgM, InitialModel, JobSpec, ModelUpdate, ProtocolName, StepChoice,
    StepName,
};

fn base() -> JobSpec {
    JobSpec {
        protocol: ProtocolName::Plain.into(),
        ..JobSpec::default()
    }
}

fn refused(spec: JobSpec, field: &str, rule: &str) {
    let error = spec.validate().unwrap_err();
    assert_eq!(error.field, field, "{error}");
    assert!(error.rule.contains(rule), "{error} should quote {rule:?}");
}

fn with(step: impl Into<StepChoice>) -> JobSpec {
    JobSpec {
        step: step.into(),
        ..base()
    }
}

#[test]
fn options_of_steps_have_bounds() {
    for (learning_rate, rule) in [
        (
            0.0,
            "learning_rate is 0 and must be above 0 and at most 1000000",
        ),
        (
            -1.0,
            "learning_rate is -1 and must be above 0 and at most 1000000",
        ),
        (
            f64::NAN,
            "learning_rate is NaN and must be above 0 and at most 1000000",
        ),
        (
            1e7,
            "learning_rate is 10000000 and must be above 0 and at most 1000000",
        ),
    ] {
        refused(with(FedAvg { learning_rate }), "step.learning_rate", rule);
    }
    let momentum = 1.0;
    let of = FedAvgM {
        momentum,
        ..FedAvgM::default()
    };
    refused(
        with(of),
        "step.momentum",
        "momentum is 1 and must be at least 0 and below 1",
    );
    let adam = |change: fn(&mut FedAdam)| {
        let mut of = FedAdam::default();
        change(&mut of);
        with(of)
    };
    refused(
        adam(|of| of.beta1 = -0.1),
        "step.beta1",
        "beta1 is -0.1 and must be at least 0 and below 1",
    );
    refused(
        adam(|of| of.beta2 = 1.0),
        "step.beta2",
        "beta2 is 1 and must be at least 0 and below 1",
    );
    refused(
        adam(|of| of.tau = 0.0),
        "step.tau",
        "tau is 0 and must be from 1e-12 to 1000",
    );
}

#[test]
fn a_step_needs_differences() {
    for name in StepName::ALL {
        for model_update in [ModelUpdate::Replace, ModelUpdate::Nothing] {
            let spec = JobSpec {
                model_update,
                ..with(*name)
            };
            match name {
                StepName::FedAvg => assert!(spec.validate().is_ok()),
                _ => refused(spec, "step", "needs model_update = add"),
            }
        }
        assert!(with(*name).validate().is_ok());
    }
    let half = JobSpec {
        model_update: ModelUpdate::Replace,
        ..with(FedAvg { learning_rate: 0.5 })
    };
    refused(half, "step", "needs model_update = add (is replace)");
}

/// What a job without these options says, and its hash, are what they were.
#[test]
fn usual_steps_are_not_said() {
    let said = |spec: &JobSpec| serde_json::to_string(spec).unwrap();
    assert!(!said(&base()).contains("step"));
    let half = with(FedAvg { learning_rate: 0.5 });
    assert!(said(&half).contains(r#""step":{"name":"fedavg","learning_rate":0.5}"#));
    assert!(said(&with(StepName::FedAdam)).contains(r#""step":"fedadam""#));
}

#[test]
fn a_job_without_a_model_begins_with_none() {
    for initial in InitialModel::ALL {
        let spec = |model_update| JobSpec {
            initial: *initial,
            model_update,
            ..base()
        };
        assert!(spec(ModelUpdate::Add).validate().is_ok());
        assert!(spec(ModelUpdate::Replace).validate().is_ok());
        match initial {
            InitialModel::Coordinator => assert!(spec(ModelUpdate::Nothing).validate().is_ok()),
            _ => refused(
                spec(ModelUpdate::Nothing),
                "initial",
                "needs model_update = add or replace",
            ),
        }
    }
}
