//! The settings and the jobs of a coordinator, checked before anything of them runs.

use std::path::PathBuf;
use std::sync::Arc;

use blindsum_protocol::{InitialModel, Job};

use super::{Choice, Config, JobConfig};
use crate::address::check_address;
use crate::limits::Limits;
use crate::paths::{check_audit, check_store};
use crate::results::ResultFiles;
use crate::{Model, NetError, Room, Task};

/// A job, the model that it starts from, and the folder for its results, where they were given.
pub(super) struct CheckedJob {
    pub job: Arc<Job>,
    pub initial: Option<Model>,
    pub results: Option<PathBuf>,
    pub hosted: bool,
}

pub(super) fn check_jobs(
    configs: Vec<JobConfig>,
    limits: &Limits,
) -> Result<Vec<CheckedJob>, NetError> {
    check_within(configs, limits, Room::now())
}

/// Checks that a job fits in memory, before its model is read or copied; gives the room that is left.
pub(super) fn check_room(job: &Job, limits: &Limits, room: Room) -> Result<Room, NetError> {
    limits.check_memory(job)?;
    room.check(job, Task::Coordinator)?;
    Ok(room.without(job, Task::Coordinator))
}

/// Checks one more job, for which there is so much room.
pub(super) fn check_added(
    config: JobConfig,
    limits: &Limits,
    room: Room,
) -> Result<CheckedJob, NetError> {
    let checked = check_within(vec![config], limits, room)?;
    let none = || NetError::config("jobs", "there must be a job");
    checked.into_iter().next().ok_or_else(none)
}

fn check_within(
    configs: Vec<JobConfig>,
    limits: &Limits,
    mut room: Room,
) -> Result<Vec<CheckedJob>, NetError> {
    if configs.is_empty() {
        return Err(NetError::config("jobs", "there must be at least one job"));
    }
    let mut names = std::collections::BTreeSet::new();
    let mut jobs = Vec::new();
    for config in configs {
        let job = Arc::new(config.spec.validate()?);
        let name = &job.spec().job;
        if !names.insert(name.clone()) {
            let rule = format!("two jobs have the name {name:?}; give each a name of its own");
            return Err(NetError::config("jobs", rule));
        }
        room = check_room(&job, limits, room)?;
        let initial = match config.initial_model {
            Some(values) => Some(Model::first(&job, values).map_err(|error| {
                let rule = format!("initial_model of job {name:?}: {error}");
                NetError::config("initial_model", rule)
            })?),
            None => None,
        };
        if initial.is_some() && job.spec().initial != InitialModel::Coordinator {
            let rule = format!(
                "initial_model of job {name:?}: the job has initial = {}: give no model, or set initial = \
                 coordinator in the job",
                job.spec().initial
            );
            return Err(NetError::config("initial_model", rule));
        }
        let results = config.results;
        ResultFiles::check(results.as_deref(), &job)?;
        jobs.push(CheckedJob {
            job,
            initial,
            results,
            hosted: config.hosted,
        });
    }
    Ok(jobs)
}

/// Checks the settings that need no file to be read: addresses, names of files, and how parties are chosen.
pub(super) fn check_settings(config: &Config) -> Result<(), NetError> {
    check_address("listen", &config.listen)?;
    if let Some(admin) = &config.admin {
        check_address("admin", admin)?;
    }
    check_store(config.store.as_deref())?;
    check_audit(config.audit.as_deref(), config.store.as_deref())?;
    check_change(config)
}

/// Checks how many parties a choice changes at once.
fn check_change(config: &Config) -> Result<(), NetError> {
    let change = config.change;
    if config.choice == Choice::First && change != 1 {
        let rule = format!(
            "{change} parties are changed by choice = \"turns\" or \"random\" alone: set one, or leave it out"
        );
        return Err(NetError::config("change", rule));
    }
    for job in &config.jobs {
        let (name, parties) = (&job.spec.job, job.spec.parties);
        if !(1..=parties).contains(&change) {
            let rule = format!("1 <= change = {change} <= parties = {parties} of job {name:?}");
            return Err(NetError::config("change", rule));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use blindsum_encode::Reals;
    use blindsum_protocol::{JobSpec, ProtocolName};

    use super::*;
    use crate::{Bound, memory};

    fn config(job: &str, initial_model: Option<Reals>) -> JobConfig {
        JobConfig {
            spec: JobSpec {
                job: job.into(),
                protocol: ProtocolName::Plain.into(),
                dim: 100_000,
                ..JobSpec::default()
            },
            initial_model,
            results: None,
            hosted: false,
        }
    }

    fn room(bytes: u64) -> Room {
        let bound = Bound::AddressSpace;
        Room { bytes, bound }
    }

    /// The model here has another length: whoever looks at it has begun too early.
    #[test]
    fn memory_is_checked_before_a_model_is_touched() {
        let check = |bytes| {
            let configs = vec![config("a", Some(vec![0.0_f32; 3].into()))];
            let checked = check_within(configs, &Limits::default(), room(bytes));
            checked.err().unwrap()
        };
        assert!(matches!(check(1000), NetError::Memory { .. }));
        let field = match check(1 << 40) {
            NetError::Config { field, .. } => field,
            other => panic!("{other}"),
        };
        assert_eq!(field, "initial_model");
    }

    #[test]
    fn jobs_share_the_room() {
        let one = config("a", None).spec.validate().unwrap();
        let needed = memory(&one, Task::Coordinator);
        let check = |bytes| {
            let configs = vec![config("a", None), config("b", None)];
            check_within(configs, &Limits::default(), room(bytes)).map(|jobs| jobs.len())
        };
        assert_eq!(check(2 * needed).unwrap(), 2);
        assert!(matches!(
            check(2 * needed - 1),
            Err(NetError::Memory { .. })
        ));
    }
}
