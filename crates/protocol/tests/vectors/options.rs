//! Defaults and hashes of job specifications, which are for ever: `vectors/options.json`.

use std::collections::BTreeMap;

use blindsum_protocol::options::Table;
use blindsum_protocol::{
    EncodingChoice, EncodingName, JobSpec, PrivacyChoice, PrivacyName, ProtocolChoice,
    ProtocolName, StepChoice, StepName, StopChoice, StopName,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::support::{Hex, load};

const OPTIONS: &str = include_str!("../../../../vectors/options.json");

/// The defaults of the model, by table.
#[derive(Deserialize)]
struct Defaults {
    job: Map<String, Value>,
    protocol: BTreeMap<String, Map<String, Value>>,
    encoding: BTreeMap<String, Map<String, Value>>,
    step: BTreeMap<String, Map<String, Value>>,
    stop: BTreeMap<String, Map<String, Value>>,
    privacy: BTreeMap<String, Map<String, Value>>,
}

/// Every option that the model knows has the default that the model gives it.
fn check(table: &dyn Table, expected: &Map<String, Value>) {
    let defaults: BTreeMap<&str, Value> = table
        .defaults()
        .into_iter()
        .map(|(option, default)| (option.name, serde_json::to_value(default).unwrap()))
        .collect();
    for (name, value) in expected {
        let default = defaults.get(name.as_str());
        assert_eq!(default, Some(value), "{}: {name}", table.name());
    }
}

#[test]
fn defaults_are_for_ever() {
    let file: Map<String, Value> = serde_json::from_str(OPTIONS).unwrap();
    let mut expected: Defaults = serde_json::from_value(file["defaults"].clone()).unwrap();
    // A choice is the whole table of what is chosen.
    let chosen = expected.job.remove("encoding").unwrap();
    assert_eq!(chosen, JobSpec::default().encoding.to_string());
    let chosen = expected.job.remove("step").unwrap();
    assert_eq!(chosen, JobSpec::default().step.to_string());
    let chosen = expected.job.remove("stop").unwrap();
    assert_eq!(chosen, JobSpec::default().stop.to_string());
    let chosen = expected.job.remove("privacy").unwrap();
    assert_eq!(chosen, JobSpec::default().privacy.to_string());
    check(&JobSpec::default(), &expected.job);
    for (name, options) in expected.protocol {
        let named = ProtocolName::ALL
            .iter()
            .find(|protocol| protocol.as_str() == name);
        check(ProtocolChoice::from(*named.unwrap()).table(), &options);
    }
    for (name, options) in expected.encoding {
        let named = EncodingName::ALL
            .iter()
            .find(|encoding| encoding.as_str() == name);
        check(EncodingChoice::from(*named.unwrap()).table(), &options);
    }
    for (name, options) in expected.step {
        let named = StepName::ALL.iter().find(|step| step.as_str() == name);
        check(StepChoice::from(*named.unwrap()).table(), &options);
    }
    for (name, options) in expected.stop {
        let named = StopName::ALL.iter().find(|stop| stop.as_str() == name);
        check(StopChoice::from(*named.unwrap()).table(), &options);
    }
    for (name, options) in expected.privacy {
        let named = PrivacyName::ALL
            .iter()
            .find(|privacy| privacy.as_str() == name);
        check(PrivacyChoice::from(*named.unwrap()).table(), &options);
    }
}

/// A job for every option: the hash is that of the model, and what is said is what the model says.
#[test]
fn hashes_are_for_ever() {
    #[derive(Deserialize)]
    struct Vector {
        spec: Value,
        hash: Hex,
    }
    for Vector { spec, hash } in load(OPTIONS, "jobs") {
        let read: JobSpec = serde_json::from_value(spec.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), spec);
        assert_eq!(*read.validate().unwrap().hash(), hash.array(), "{spec}");
    }
}

/// An option or a protocol that is not known, or belongs elsewhere, is named.
#[test]
fn case_24_what_does_not_belong_is_refused_by_name() {
    #[derive(Deserialize)]
    struct Vector {
        spec: blindsum_protocol::options::Value,
        field: String,
    }
    for Vector { spec, field } in load(OPTIONS, "refused") {
        let error = JobSpec::read(&spec).unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }
}
