//! Job specifications as JSON: checked here, described for Python.

use std::collections::BTreeMap;

use blindsum_net::{Task, memory};
use blindsum_protocol::options;
use blindsum_protocol::{Job, JobSpec, Plan, ProtocolName, RuleName, SpecError, Step, Who};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::errors::OrRaise;

/// Checks a job specification (a JSON object; missing fields take their default). Gives a JSON object:
/// the whole `spec`, what it says (`said`), and what follows from it.
#[pyfunction]
pub fn validate_job(py: Python<'_>, spec: &str) -> PyResult<String> {
    Ok(described(&read_job(spec).or_raise(py)?))
}

/// The same for the flat settings of a command line: a JSON list of names and values, in their order.
#[pyfunction]
pub fn validate_flat_job(py: Python<'_>, settings: &str) -> PyResult<String> {
    let settings: Vec<(String, options::Value)> = from_json(settings).or_raise(py)?;
    let job = JobSpec::read_flat(&settings).and_then(JobSpec::validate);
    Ok(described(&job.or_raise(py)?))
}

/// The JSON schema of a job specification.
#[pyfunction]
pub fn job_schema() -> PyResult<String> {
    // Straight to text: names stay in the order in which they are declared.
    serde_json::to_string(&JobSpec::schema()).map_err(|e| PyValueError::new_err(e.to_string()))
}

fn described(job: &Job) -> String {
    let hash: String = job
        .hash()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let description = json!({
        "spec": job.spec().whole(),
        "said": job.spec(),
        "hash": hash,
        "lanes": job.lanes(),
        "word_bits": job.width().bits(),
        "packed_bytes": job.packed_len(),
        "min_parties": job.min_parties(),
        "least_roster": job.least_roster(),
        "stages": job.plan().stages(),
        "plan": steps(job.plan()),
        "input_stage": job.plan().input_stage(),
        "key_setup_stages": job.key_setup_plan().map_or_else(Vec::new, Plan::stages),
        "key_setup_plan": job.key_setup_plan().map_or_else(Vec::new, steps),
        "hides_sum": job.hides_sum(),
        "tells_parties": job.tells_parties(),
        "server_memory": job.plan().memory(),
        "memory": {
            "simulation": memory(job, Task::Simulation { parties: job.spec().parties as usize }),
            "coordinator": memory(job, Task::Coordinator),
            "party": memory(job, Task::Party),
        },
        "root": job.spec().root(),
        "chosen": job.parameters().into_iter().collect::<BTreeMap<_, _>>(),
        "max_weight": job.spec().encoding.max_weight(),
        "clip": job.spec().encoding.clip(),
        "max_error": job.encoding().max_error(),
        "norm_bound": job.encoding().norm_bound(),
        "dropouts": job.spec().dropouts_among(job.spec().parties as usize),
    });
    description.to_string()
}

/// The steps of a plan, in order.
fn steps(plan: &Plan) -> Vec<Value> {
    let step = |step: &Step| {
        json!({
            "stage": step.stage,
            "name": step.name,
            "speaker": who(step.speaker),
            "hearer": who(step.hearer),
            "input": step.input,
            "relayed": step.relayed,
            "optional": step.optional,
            "enough": step.enough,
            "largest": step.largest,
            "deadline": step.deadline,
        })
    };
    plan.steps().iter().map(step).collect()
}

/// Who speaks or hears, in a word.
fn who(who: Who) -> String {
    match who {
        Who::Parties => "parties".into(),
        Who::Few => "few".into(),
        Who::Party(party) => format!("party {}", party.0),
        Who::Coordinator => "coordinator".into(),
        Who::Servers => "servers".into(),
        Who::Server(role) => role.to_string(),
    }
}

/// Names of the protocols, in the order in which they are listed to users.
#[pyfunction]
pub fn protocols() -> Vec<&'static str> {
    let names = ProtocolName::ALL.iter();
    names.map(|name| name.as_str()).collect()
}

/// Names of the rules of `mpc3`, in the order in which they are listed to users.
#[pyfunction]
pub fn rules() -> Vec<&'static str> {
    let names = RuleName::ALL.iter();
    names.map(|name| name.as_str()).collect()
}

/// What is wrong with a value, without the names of Rust's types.
fn in_plain_words(error: &str) -> String {
    let bits = error
        .rsplit_once("expected u")
        .map(|(before, bits)| (before, bits.parse()));
    match bits {
        Some((before, Ok(bits @ 1..=64_u32))) => {
            let most = u64::MAX >> (64 - bits);
            format!("{before}expected a whole number from 0 to {most}")
        }
        _ => error.into(),
    }
}

/// A checked job from JSON.
pub fn read_job(spec: &str) -> Result<Job, SpecError> {
    JobSpec::read(&from_json(spec)?)?.validate()
}

fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, SpecError> {
    serde_json::from_str(text).map_err(|error| SpecError {
        field: "JSON".into(),
        rule: error.to_string(),
    })
}

/// A value of which every field has a default, from a JSON object; an error names the field and says what is wrong.
pub fn read_fields<T: DeserializeOwned>(text: &str) -> Result<T, (String, String)> {
    let object = |e: serde_json::Error| ("JSON".to_owned(), e.to_string());
    let fields: Map<String, Value> = serde_json::from_str(text).map_err(object)?;
    // Each can be read by itself: the error then has a name.
    for (field, value) in &fields {
        let alone = Map::from_iter([(field.clone(), value.clone())]);
        if let Err(error) = serde_json::from_value::<T>(alone.into()) {
            return Err((field.clone(), in_plain_words(&error.to_string())));
        }
    }
    serde_json::from_value(fields.into()).map_err(object)
}
