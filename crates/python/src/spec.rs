//! Checked jobs, described for Python.

use std::collections::BTreeMap;
use std::sync::Arc;

use blindsum_net::{Task, memory};
use blindsum_protocol::options;
use blindsum_protocol::{
    Adjacency, Job, JobSpec, Plan, Privacy, PrivacyError, ProtocolName, RuleName, Step, Who,
};
use pyo3::prelude::*;
use pythonize::{PythonizeError, depythonize};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::errors::{OrRaise, raise};

/// A job whose specification was checked.
#[pyclass(frozen, module = "blindsum._native", name = "Job")]
pub struct CheckedJob(Arc<Job>);

impl CheckedJob {
    /// The job of a specification that stands elsewhere.
    pub fn of(py: Python<'_>, spec: JobSpec) -> PyResult<Self> {
        Ok(Self(Arc::new(spec.validate().or_raise(py)?)))
    }

    /// A job that has been checked.
    pub fn new(job: Arc<Job>) -> Self {
        Self(job)
    }

    /// The job.
    pub fn job(&self) -> &Arc<Job> {
        &self.0
    }
}

#[pymethods]
impl CheckedJob {
    /// Checks the fields of a specification; those that are missing take their default.
    #[staticmethod]
    fn read(py: Python<'_>, fields: &Bound<'_, PyAny>) -> PyResult<Self> {
        let fields = given(fields, "SpecError", "fields")?;
        Self::of(py, JobSpec::read(&fields).or_raise(py)?)
    }

    /// Checks the flat settings of a command line: names and values, in their order.
    #[staticmethod]
    fn read_flat(py: Python<'_>, settings: &Bound<'_, PyAny>) -> PyResult<Self> {
        let settings: Vec<(String, options::Value)> = given(settings, "SpecError", "settings")?;
        Self::of(py, JobSpec::read_flat(&settings).or_raise(py)?)
    }

    /// The whole `spec`, what it says (`said`), and what follows from it.
    fn described<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        plain(py, &described(&self.0))
    }

    /// What the job's noise guarantees after so many releases; `None` in a job without noise.
    fn privacy_after<'py>(
        &self,
        py: Python<'py>,
        releases: u64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(privacy) = self.0.privacy() else {
            return Ok(None);
        };
        let claim = claim(&self.0, privacy, releases);
        let claim =
            claim.map_err(|error| raise(py, "ConfigError", (error.field(), error.to_string())))?;
        plain(py, &claim).map(Some)
    }
}

/// What the noise of a job guarantees after so many releases.
fn claim(job: &Job, privacy: &Privacy, releases: u64) -> Result<Value, PrivacyError> {
    let (spec, survivors) = (job.spec(), job.min_parties());
    let of_parties = || job.encoding().noise_deviation(survivors);
    Ok(json!({
        "mechanism": spec.privacy.name().as_str(),
        "adjacency": match privacy.adjacency() {
            Adjacency::ZeroOut => "zero-out",
            Adjacency::Replace => "replace",
        },
        "delta": privacy.delta(),
        "noise_multiplier": privacy.multiplier().value(),
        "clip": privacy.clip().or(spec.encoding.clip()),
        "growth": privacy.growth(),
        "honest": privacy.honest().unwrap_or(0),
        "releases": releases,
        "allowed": privacy.releases(),
        "target": privacy.target(),
        "epsilon": privacy.epsilon(releases)?,
        "epsilon_rdp": privacy.epsilon_by_renyi(releases)?,
        "epsilon_replace": privacy.epsilon_of_replacing(releases)?,
        "epsilon_alone": privacy.epsilon_alone(releases)?,
        "epsilon_outside": privacy.epsilon_outside(releases)?,
        "noise_deviation": privacy.noise_deviation(survivors).unwrap_or_else(of_parties),
        "width": privacy.sizes().map_or(u64::BITS, |sizes| sizes.width()),
    }))
}

/// What Python gives as plain data; this error, of this place, where it is none.
fn given<T: DeserializeOwned>(value: &Bound<'_, PyAny>, error: &str, place: &str) -> PyResult<T> {
    let refused = |wrong: PythonizeError| raise(value.py(), error, (place, wrong.to_string()));
    depythonize(value).map_err(refused)
}

/// A value as plain data of Python.
pub fn plain<'py>(py: Python<'py>, value: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    pythonize::pythonize(py, value).map_err(PyErr::from)
}

/// The JSON schema of a job specification.
#[pyfunction]
pub fn job_schema(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // Names stay in the order in which they are declared.
    plain(py, &JobSpec::schema())
}

fn described(job: &Job) -> Value {
    json!({
        "spec": job.spec().whole(),
        "said": job.spec(),
        "hash": blindsum_job::hex(job.hash()),
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
    })
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

/// A value from named values, of which each can be read by itself: an error names the field, below `place`, and says what is
/// wrong.
pub fn read_fields<T: DeserializeOwned>(fields: &Bound<'_, PyAny>, place: &str) -> PyResult<T> {
    let py = fields.py();
    let wrong = |field: String, error: serde_json::Error| {
        raise(
            py,
            "ConfigError",
            (field, in_plain_words(&error.to_string())),
        )
    };
    let fields: Map<String, Value> = given(fields, "ConfigError", place)?;
    for (field, value) in &fields {
        let alone = Map::from_iter([(field.clone(), value.clone())]);
        serde_json::from_value::<T>(alone.into())
            .map_err(|error| wrong(format!("{place}.{field}"), error))?;
    }
    serde_json::from_value(fields.into()).map_err(|error| wrong(place.to_owned(), error))
}
