//! Names of models and results are those of the slow models in `vectors/model`.

use std::sync::Arc;

use blindsum_crypto::certificate::TrustAnchor;
use blindsum_crypto::roster::{Member, Roster};
use blindsum_encode::{Reach, Reals};
use blindsum_job::{Model, result_name};
use blindsum_protocol::{Job, JobSpec, Round};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{Hex, load};

const MODELS: &str = include_str!("../../../../vectors/model.json");
/// How far coordinates go, by the number in the file.
const FAR: [Reach; 5] = [
    Reach::TINY,
    Reach::SMALL,
    Reach::FITTING,
    Reach::NEAR,
    Reach::CUT,
];
const PLAIN: &str = include_str!("../../../../vectors/plain.json");

#[derive(Deserialize)]
struct Shown {
    version: u64,
    bytes: Hex,
    hash: Hex,
}

impl Shown {
    fn check(&self, model: &Model, shown: &str) {
        assert_eq!(model.version(), self.version, "{shown}");
        assert_eq!(*model.to_bytes(), *self.bytes.0, "{shown}");
        assert_eq!(*model.hash(), self.hash.array(), "{shown}");
    }
}

/// The first model out of its values; none where the job keeps none.
fn first_of(job: &Job, values: &[u8]) -> Model {
    match values {
        [] => Model::initial(job),
        _ => {
            let values = Reals::from_bytes(job.encoding().precision(), values).unwrap();
            Model::first(job, values).unwrap()
        }
    }
}

/// Little-endian singles.
pub fn singles(bytes: &[u8]) -> Vec<f32> {
    let (values, rest) = bytes.as_chunks::<4>();
    assert!(rest.is_empty());
    values.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

#[test]
fn models_have_the_same_values_histories_and_names() {
    #[derive(Deserialize)]
    struct Step {
        reached: Vec<usize>,
        mean: Hex,
        model: Shown,
    }
    #[derive(Deserialize)]
    struct Grown {
        spec: JobSpec,
        first: Shown,
        rounds: Vec<Step>,
    }
    for Grown {
        spec,
        first,
        rounds,
    } in load(MODELS, "models")
    {
        let shown = format!("{spec:?}");
        let job = spec.validate().unwrap();
        // What lies behind the values of the first model is the same in every such job; the job makes it.
        let values = first.bytes.0.len() - blindsum_job::carried_len(&job);
        let mut model = first_of(&job, &first.bytes.0[..values]);
        first.check(&model, &shown);
        for step in rounds {
            let precision = job.encoding().precision();
            let mean = Reals::from_bytes(precision, &step.mean.0).unwrap();
            let reached: Vec<Reach> = step.reached.iter().map(|far| FAR[*far]).collect();
            model = model.after(&mean, &reached, job.spec()).unwrap();
            step.model.check(&model, &shown);
            let (bytes, hash) = (&step.model.bytes.0, &step.model.hash.0);
            let read = Model::from_bytes(&job, step.model.version, bytes, hash);
            assert_eq!(read.unwrap(), model, "{shown}");
        }
    }
}

#[test]
fn hidden_models_have_the_same_names() {
    #[derive(Deserialize)]
    struct Step {
        told: Hex,
        version: u64,
        hash: Hex,
    }
    #[derive(Deserialize)]
    struct Hidden {
        spec: JobSpec,
        first: Shown,
        rounds: Vec<Step>,
    }
    for Hidden {
        spec,
        first,
        rounds,
    } in load(MODELS, "hidden")
    {
        let shown = format!("{spec:?}");
        let job = spec.validate().unwrap();
        let values = first.bytes.0.len() - blindsum_job::carried_len(&job);
        let mut model = first_of(&job, &first.bytes.0[..values]);
        first.check(&model, &shown);
        for step in rounds {
            model = model.named_after(&step.told.0);
            assert_eq!(model.version(), step.version, "{shown}");
            assert_eq!(*model.hash(), step.hash.array(), "{shown}");
        }
    }
}

#[test]
fn results_have_the_same_names() {
    #[derive(Deserialize)]
    struct Party {
        name: String,
        certificate: Hex,
        nonce: Hex,
    }
    #[derive(Deserialize)]
    struct Played {
        spec: JobSpec,
        number: u64,
        model_hash: Hex,
        ca: String,
        now: u64,
        parties: Vec<Party>,
        stages: Vec<Value>,
        result_name: Hex,
    }
    for played in load::<Played>(PLAIN, "rounds") {
        let anchor = TrustAnchor::from_pem(&played.ca, None).unwrap();
        let members = played.parties.into_iter().map(|party| Member {
            nonce: party.nonce.array(),
            name: party.name,
            certificate: party.certificate.0,
        });
        let roster = Roster(members.collect());
        let roster = Arc::new(roster.certify(&anchor, played.now).unwrap());
        let job = Arc::new(played.spec.validate().unwrap());
        let model_hash = played.model_hash.array();
        let round = Round::new(job, played.number, roster, &model_hash).unwrap();
        let last = played.stages.last().unwrap();
        let told = last["down"].as_object().unwrap().values();
        for told in told {
            let told: Hex = serde_json::from_value(told.clone()).unwrap();
            assert_eq!(result_name(&round, &told.0), played.result_name.array());
        }
    }
}
