//! How much memory this process may still take. A job that needs more is refused with the number before it begins: where
//! memory is limited, the allocator would end the process later.

mod linux;

use std::fmt;
use std::path::Path;

use blindsum_protocol::Job;
use rustix::process::{Resource, getrlimit};
use sysinfo::{MemoryRefreshKind, ProcessRefreshKind, ProcessesToUpdate, System};

use crate::NetError;
use crate::estimate::{Task, memory};

/// The limit of this process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The limit on address space, `ulimit -v`.
    AddressSpace,
    /// The limit on data, `ulimit -d`.
    Data,
    /// The control group of the process or one above it, as of a container, a unit of systemd or a batch system: the least
    /// of `memory.max`, in version 1 of `memory.limit_in_bytes`, from the path in `/proc/self/cgroup` up to the root of the
    /// mount.
    ControlGroup,
    /// Memory that the machine may promise, where it promises no more than it has (`vm.overcommit_memory` = 2).
    Promises,
    /// Memory and swap space of the machine.
    Machine,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AddressSpace => "its limit on address space (ulimit -v, LimitAS=)",
            Self::Data => "its limit on data (ulimit -d, LimitDATA=)",
            Self::ControlGroup => {
                "the limit of its control group or of one above it (memory.max, MemoryMax=)"
            }
            Self::Promises => {
                "the memory that this machine may commit (CommitLimit less Committed_AS in /proc/meminfo, with \
                 vm.overcommit_memory = 2)"
            }
            Self::Machine => "the memory and swap space of this machine",
        })
    }
}

/// The memory that this process may still take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes.
    pub bytes: u64,
    /// Their limit.
    pub bound: Bound,
}

impl Room {
    /// The memory that this process may still take, by the tightest of all bounds. Memory of other processes that is taken
    /// now may be free later, and counts as free.
    pub fn now() -> Self {
        let mut system = System::new();
        system.refresh_memory_specifics(MemoryRefreshKind::everything());
        let (mut mapped, mut resident) = (0, 0);
        if let Ok(own) = sysinfo::get_current_pid() {
            let what = ProcessRefreshKind::nothing().with_memory();
            system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), false, what);
            if let Some(process) = system.process(own) {
                (mapped, resident) = (process.virtual_memory(), process.memory());
            }
        }
        let machine = system.total_memory().saturating_add(system.total_swap());
        let mut room = Self::of(Bound::Machine, machine, resident);
        let root = Path::new("/");
        let data = getrlimit(Resource::Data).current;
        let data = data.zip(linux::data(root));
        let others = [
            linux::of_groups(root),
            linux::of_promises(root),
            data.map(|(most, taken)| Self::of(Bound::Data, most, taken)),
            getrlimit(Resource::As)
                .current
                .map(|most| Self::of(Bound::AddressSpace, most, mapped)),
        ];
        for other in others.into_iter().flatten() {
            room = room.or(other);
        }
        room
    }

    fn of(bound: Bound, most: u64, taken: u64) -> Self {
        let bytes = most.saturating_sub(taken);
        Self { bytes, bound }
    }

    /// The smaller of both.
    fn or(self, other: Self) -> Self {
        match other.bytes < self.bytes {
            true => other,
            false => self,
        }
    }

    /// The remaining memory after a job has taken its own.
    pub fn without(self, job: &Job, task: Task) -> Self {
        let bytes = self.bytes.saturating_sub(memory(job, task));
        Self { bytes, ..self }
    }

    /// Whether a job fits.
    ///
    /// # Errors
    /// [`NetError::Memory`] has the need of the job, and the available memory.
    pub fn check(&self, job: &Job, task: Task) -> Result<(), NetError> {
        let needed = memory(job, task);
        if needed <= self.bytes {
            return Ok(());
        }
        let spec = job.spec();
        let parties = match task {
            Task::Simulation { parties } => parties,
            Task::Coordinator | Task::Party => spec.parties as usize,
        };
        Err(NetError::Memory {
            job: spec.job.clone(),
            task: task.to_string(),
            parties,
            dim: spec.dim,
            needed,
            room: self.bytes,
            bound: self.bound.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use blindsum_protocol::{JobSpec, ProtocolName};

    use super::*;

    fn job(dim: u64) -> Job {
        let spec = JobSpec {
            job: "large".into(),
            protocol: ProtocolName::Plain.into(),
            dim,
            ..JobSpec::default()
        };
        spec.validate().unwrap()
    }

    #[test]
    fn the_tightest_bound_counts() {
        let machine = Room::of(Bound::Machine, 1000, 10);
        let group = Room::of(Bound::ControlGroup, 500, 600);
        assert_eq!((machine.bytes, group.bytes), (990, 0));
        assert_eq!(machine.or(group), group);
        assert_eq!(group.or(machine), group);
    }

    #[test]
    fn this_process_has_room_for_a_small_job_and_none_for_an_endless_one() {
        let room = Room::now();
        assert!(room.bytes > 0);
        assert!(room.check(&job(10), Task::Party).is_ok());
        let endless = Task::Simulation { parties: 1 << 20 };
        assert!(room.check(&job(1 << 32), endless).is_err());
    }

    #[test]
    fn a_job_that_does_not_fit_is_refused_with_the_numbers() {
        let (job, bound) = (job(1_000_000), Bound::AddressSpace);
        for task in [
            Task::Simulation { parties: 3 },
            Task::Coordinator,
            Task::Party,
        ] {
            let needed = memory(&job, task);
            assert!(needed > 8_000_000, "{needed}");
            let room = |bytes| Room { bytes, bound };
            assert!(room(needed).check(&job, task).is_ok());
            let error = room(needed - 1).check(&job, task).unwrap_err().to_string();
            let said = [
                "\"large\"".to_owned(),
                task.to_string(),
                format!("about {needed} bytes"),
                format!("{} bytes more", needed - 1),
                "ulimit -v".to_owned(),
                "dim = 1000000".to_owned(),
            ];
            assert!(said.iter().all(|part| error.contains(part)), "{error}");
        }
    }
}
