//! The jobs of a coordinator, checked before anything of them runs.

use std::path::PathBuf;
use std::sync::Arc;

use blindsum_protocol::Job;

use super::JobConfig;
use crate::limits::Limits;
use crate::results::ResultFiles;
use crate::{Model, NetError, Room, Task};

/// A job, the model that it starts from, and the folder for its results, where they were given.
pub(super) struct CheckedJob {
    pub job: Arc<Job>,
    pub initial: Option<Model>,
    pub results: Option<PathBuf>,
}

pub(super) fn check_jobs(
    configs: Vec<JobConfig>,
    limits: &Limits,
) -> Result<Vec<CheckedJob>, NetError> {
    if configs.is_empty() {
        return Err(NetError::config("jobs", "there must be at least one job"));
    }
    let mut names = std::collections::BTreeSet::new();
    let mut jobs = Vec::new();
    let mut room = Room::now();
    for config in configs {
        let job = Arc::new(config.spec.validate()?);
        let name = &job.spec().job;
        if !names.insert(name.clone()) {
            let rule = format!("two jobs have the name {name:?}; give each a name of its own");
            return Err(NetError::config("jobs", rule));
        }
        let initial = match config.initial_model {
            Some(values) => Some(Model::first(&job, values).map_err(|error| {
                let rule = format!("initial_model of job {name:?}: {error}");
                NetError::config("initial_model", rule)
            })?),
            None => None,
        };
        let results = config.results;
        ResultFiles::check(results.as_deref(), &job)?;
        limits.check_memory(&job)?;
        room.check(&job, Task::Coordinator)?;
        room = room.without(&job, Task::Coordinator);
        jobs.push(CheckedJob {
            job,
            initial,
            results,
        });
    }
    Ok(jobs)
}
