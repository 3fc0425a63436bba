//! What models are, how they change, and what is no model.

use blindsum_protocol::{
    Clipping, FedAdam, FedAvgM, Fixed64, JobSpec, ProtocolName, Quantised, StepChoice,
};

use super::*;

fn job(clipping: Clipping) -> Job {
    let spec = JobSpec {
        protocol: ProtocolName::Plain.into(),
        dim: 3,
        encoding: Quantised {
            clipping,
            ..Default::default()
        }
        .into(),
        ..JobSpec::default()
    };
    spec.validate().unwrap()
}

fn updates(model_update: ModelUpdate) -> JobSpec {
    JobSpec {
        model_update,
        ..JobSpec::default()
    }
}

fn adds() -> JobSpec {
    updates(ModelUpdate::Add)
}

fn singles<const N: usize>(values: [f32; N]) -> Reals {
    Reals::Single(values.to_vec())
}

#[test]
fn a_model_is_finite() {
    let job = job(Clipping::Tensor);
    let large = Model::first(&job, vec![0.0, 3e38, 1.0]).unwrap();
    let grown = large.after(&singles([0.0, 1e38, 0.0]), &[], &adds());
    let (version, index) = (1, 1);
    assert_eq!(grown, Err(EncodeError::Model { version, index }));
    assert!(
        large
            .after(
                &singles([0.0, f32::NAN, 0.0]),
                &[],
                &updates(ModelUpdate::Replace)
            )
            .is_err()
    );
    for bad in [f64::NAN, f64::INFINITY, 1e39] {
        let refused = Model::first(&job, vec![0.0, 0.0, bad]);
        assert_eq!(refused, Err(EncodeError::NotFinite { index: 2 }));
        let bytes = singles([0.0, 0.0, bad as f32]).to_bytes();
        let hash = kdf::hash("blindsum model", &[&bytes]);
        let error = Model::from_bytes(&job, 1, &bytes, &hash)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("coordinate 2 is not a finite number"),
            "{error}"
        );
    }
    let short = Model::first(&job, vec![0.0; 2]);
    assert_eq!(short, Err(EncodeError::Dim { got: 2, dim: 3 }));
}

#[test]
fn wide_values_have_a_model_of_doubles() {
    let spec = JobSpec {
        protocol: ProtocolName::Plain.into(),
        dim: 2,
        encoding: Fixed64::default().into(),
        ..JobSpec::default()
    };
    let job = spec.validate().unwrap();
    let first = Model::first(&job, vec![0.1_f64, 1e300]).unwrap();
    let mean = Reals::Double(vec![0.25, 1.0]);
    let next = first.after(&mean, &[], &adds()).unwrap();
    assert_eq!(*next.values(), Arc::new(Reals::Double(vec![0.35, 1e300])));
    let bytes = next.to_bytes();
    assert_eq!(bytes.len() as u64, model_len(&job, 2));
    assert_eq!(
        Model::from_bytes(&job, 1, &bytes, next.hash()).unwrap(),
        next
    );
    assert!(Model::from_bytes(&job, 1, &bytes[..12], next.hash()).is_err());
    assert!(first.after(&singles([0.0; 2]), &[], &adds()).is_err());
    assert_eq!(Model::initial(&job).to_bytes().len(), 16);
}

#[test]
fn bytes_and_back() {
    let job = job(Clipping::Tensor);
    let model = Model::new(3, vec![1.0_f32, -0.0, f32::MIN_POSITIVE]);
    let read = |bytes: &[u8], hash: &[u8]| Model::from_bytes(&job, 3, bytes, hash);
    let bytes = model.to_bytes();
    assert_eq!(model, read(&bytes, model.hash()).unwrap());
    assert!(read(&bytes[1..], model.hash()).is_err());
    assert!(read(&bytes, &[0; 32]).is_err());
}

#[test]
fn updates_count_versions() {
    let model = Model::new(0, vec![1.0_f32, 2.0]);
    let added = model.after(&singles([0.5, -1.0]), &[], &adds()).unwrap();
    assert_eq!(
        (added.version(), added.values().to_doubles()),
        (1, vec![1.5, 1.0])
    );
    let replaced = added
        .after(&singles([9.0, 8.0]), &[], &updates(ModelUpdate::Replace))
        .unwrap();
    assert_eq!(replaced.values().to_doubles(), [9.0, 8.0]);
    assert_eq!(replaced.version(), 2);
    let same = replaced.after(&singles([1.0, 1.0]), &[], &updates(ModelUpdate::Nothing));
    assert_eq!(same.unwrap(), replaced);
    assert_ne!(model.hash(), added.hash());
}

#[test]
fn hidden_models_are_named_after_what_was_told() {
    for dim in [0, 3] {
        let first = Model::new(0, vec![1.0_f32; dim]);
        let (one, other) = (first.named_after(b"one"), first.named_after(b"other"));
        assert_eq!((one.version(), one.is_hidden()), (1, true));
        assert_ne!(one.hash(), other.hash());
        assert_ne!(
            one.named_after(b"one").hash(),
            other.named_after(b"one").hash()
        );
        let stored = one.to_stored();
        let read = |hash: &[u8], bytes: &[u8]| Model::hidden_from_stored(1, hash, bytes);
        assert_eq!(read(one.hash(), &stored), Some(one.clone()));
        assert_eq!(read(&[1; 31], &stored), None);
        assert_eq!(read(one.hash(), &stored[1..]), None);
    }
}

#[test]
fn the_history_travels_with_the_model() {
    let (job, plain) = (job(Clipping::Aciq), job(Clipping::Tensor));
    let model = Model::initial(&job);
    assert_ne!(model.hash(), Model::initial(&plain).hash());
    let after = |far| model.after(&singles([0.1, 0.0, -0.1]), &[far], &adds());
    let (two, three) = (after(Reach::TINY).unwrap(), after(Reach::SMALL).unwrap());
    assert_eq!(two.values(), three.values());
    assert_ne!(two.hash(), three.hash());
    let bytes = two.to_bytes();
    assert_eq!(bytes.len(), 12 + carried_len(&job));
    let read = |job: &Job, bytes: &[u8]| Model::from_bytes(job, 1, bytes, two.hash());
    assert_eq!(read(&job, &bytes).unwrap(), two);
    assert!(read(&plain, &bytes).is_err());
    assert!(read(&job, &bytes[..12]).is_err() && read(&job, &bytes[..5]).is_err());
    let mut damaged = bytes.to_vec();
    damaged[12] ^= 1;
    let error = read(&job, &damaged).unwrap_err().to_string();
    assert!(error.contains("update history"), "{error}");
    assert!(
        model
            .after(&singles([f32::NAN; 3]), &[Reach::TINY], &adds())
            .is_err()
    );
    let none = model.after(&singles([0.1, 0.0, -0.1]), &[], &adds());
    assert!(none.is_err());
}

/// A job of three coordinates with this step.
fn stepping(step: impl Into<StepChoice>, clipping: Clipping) -> Job {
    let spec = JobSpec {
        step: step.into(),
        ..job(clipping).spec().clone()
    };
    spec.validate().unwrap()
}

#[test]
fn the_state_of_the_step_travels_with_the_model() {
    for (clipping, reached) in [
        (Clipping::Tensor, &[][..]),
        (Clipping::Aciq, &[Reach::TINY]),
    ] {
        let job = stepping(FedAdam::default(), clipping);
        let first = Model::initial(&job);
        let mean = singles([0.1, 0.0, -0.1]);
        let once = first.after(&mean, reached, job.spec()).unwrap();
        let twice = once.after(&mean, reached, job.spec()).unwrap();
        let bytes = once.to_bytes();
        assert_eq!(bytes.len() as u64, model_len(&job, 3));
        assert_eq!(bytes.len(), 12 + carried_len(&job));
        let read = |bytes: &[u8]| Model::from_bytes(&job, 1, bytes, once.hash());
        let again = read(&bytes).unwrap();
        assert_eq!(again, once);
        // Who got the model goes on as who computed it.
        assert_eq!(again.after(&mean, reached, job.spec()).unwrap(), twice);
        let restarted = Model::with(1, Reals::clone(&once.values), first.carried.clone());
        assert_ne!(restarted.hash(), once.hash());
        let other = restarted.after(&mean, reached, job.spec()).unwrap();
        assert_ne!(other.values(), twice.values());
        let mut damaged = bytes.to_vec();
        let last = damaged.len() - 1;
        damaged[last] |= 0x80;
        let error = read(&damaged).unwrap_err().to_string();
        assert!(error.contains("second moment of coordinate 2"), "{error}");
        assert!(read(&bytes[..last]).is_err());
        let plain = stepping(
            StepChoice::from(blindsum_protocol::StepName::FedAvg),
            clipping,
        );
        assert!(Model::from_bytes(&plain, 1, &bytes, once.hash()).is_err());
    }
}

#[test]
fn a_state_that_is_not_finite_ends_the_job() {
    let job = stepping(FedAdam::default(), Clipping::Tensor);
    let grown = Model::initial(&job).after(&singles([0.0, 1e30, 0.0]), &[], job.spec());
    let (version, index) = (1, 1);
    assert_eq!(grown, Err(EncodeError::Model { version, index }));
}

#[test]
fn jobs_without_a_state_have_the_models_that_they_had() {
    let plain = job(Clipping::Tensor);
    let half = blindsum_protocol::FedAvg { learning_rate: 0.5 };
    let half = stepping(half, Clipping::Tensor);
    assert_eq!(Model::initial(&half), Model::initial(&plain));
    assert_eq!(carried_len(&half), 0);
    let mean = singles([1.0, 0.0, -1.0]);
    let halved = Model::initial(&half)
        .after(&mean, &[], half.spec())
        .unwrap();
    assert_eq!(halved.values().to_doubles(), [0.5, 0.0, -0.5]);
    let momentum = stepping(FedAvgM::default(), Clipping::Tensor);
    assert_eq!(carried_len(&momentum), 12);
    assert_ne!(
        Model::initial(&momentum).hash(),
        Model::initial(&plain).hash()
    );
}
