//! What Linux says of the memory that this process may still take: its control groups, its data, and memory that the
//! machine has promised. Every function is given the folder that `/proc` and `/sys` are in.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{Bound, Room};

/// The files of one version of control groups.
struct Version {
    /// The name of the controller in `/proc/self/cgroup`.
    controller: &'static str,
    /// Where the groups are mounted.
    mount: &'static str,
    /// The most bytes that a group may have.
    most: &'static str,
    /// The line of `memory.stat` with the bytes that the group cannot give back.
    taken: &'static str,
}

const VERSIONS: [Version; 2] = [
    Version {
        controller: "",
        mount: "sys/fs/cgroup",
        most: "memory.max",
        taken: "anon",
    },
    Version {
        controller: "memory",
        mount: "sys/fs/cgroup/memory",
        most: "memory.limit_in_bytes",
        taken: "total_rss",
    },
];

/// The least room of the control group of this process and of all above it, up to the root of the mount; none if no limit
/// is there. A container may see its own group as the root, under a path that is there on the host alone.
pub(super) fn of_groups(root: &Path) -> Option<Room> {
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut room: Option<Room> = None;
    for version in &VERSIONS {
        let mount = root.join(version.mount);
        for folder in folders(&mount, version.path_in(&own)) {
            let Some(group) = version.of_group(&folder) else {
                continue;
            };
            room = Some(room.map_or(group, |room| room.or(group)));
        }
    }
    room
}

/// The folder of a group and of each one above it, the mount last.
fn folders(mount: &Path, path: &str) -> Vec<PathBuf> {
    let names: Vec<Component<'_>> = Path::new(path).components().collect();
    let is_above = |name: &Component<'_>| *name == Component::ParentDir;
    // A group that lies outside of what this process sees.
    if names.iter().any(is_above) {
        return vec![mount.to_owned()];
    }
    let mut folder = mount.to_owned();
    let mut all = vec![folder.clone()];
    for name in names {
        if let Component::Normal(name) = name {
            folder.push(name);
            all.push(folder.clone());
        }
    }
    all.reverse();
    all
}

impl Version {
    /// The path of this process's group in `/proc/self/cgroup`, whose lines are `NUMBER:CONTROLLERS:PATH`; the root if there
    /// is none.
    fn path_in<'a>(&self, own: &'a str) -> &'a str {
        let path = own.lines().find_map(|line| {
            let (_, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let mut controllers = controllers.split(',');
            controllers
                .any(|name| name == self.controller)
                .then_some(path)
        });
        path.unwrap_or("/")
    }

    fn of_group(&self, folder: &Path) -> Option<Room> {
        // `max` is no limit.
        let most = read(&folder.join(self.most))?.trim().parse().ok()?;
        let statistics = read(&folder.join("memory.stat")).unwrap_or_default();
        let taken = number(&statistics, self.taken).unwrap_or(0);
        Some(Room::of(Bound::ControlGroup, most, taken))
    }
}

/// Bytes of data that this process has, as its limit on data counts them.
pub(super) fn data(root: &Path) -> Option<u64> {
    let status = read(&root.join("proc/self/status"))?;
    Some(number(&status, "VmData:")?.saturating_mul(1024))
}

/// The room of a machine that promises no more memory than it has (`vm.overcommit_memory` = 2); none if it promises more.
pub(super) fn of_promises(root: &Path) -> Option<Room> {
    let policy = read(&root.join("proc/sys/vm/overcommit_memory"))?;
    if policy.trim() != "2" {
        return None;
    }
    let memory = read(&root.join("proc/meminfo"))?;
    let bytes = |name| Some(number(&memory, name)?.saturating_mul(1024));
    let (most, taken) = (bytes("CommitLimit:")?, bytes("Committed_AS:")?);
    Some(Room::of(Bound::Promises, most, taken))
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The number in a line `NAME NUMBER`, whatever follows.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// A folder with these files.
    fn machine(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn left(files: &[(&str, &str)]) -> Option<u64> {
        let room = of_groups(machine(files).path())?;
        assert_eq!(room.bound, Bound::ControlGroup);
        Some(room.bytes)
    }

    const UNIT: &str = "sys/fs/cgroup/system.slice/job.service/memory.max";
    const SLICE: &str = "sys/fs/cgroup/system.slice/memory.max";
    const OWN: (&str, &str) = ("proc/self/cgroup", "0::/system.slice/job.service\n");

    #[test]
    fn the_least_group_from_this_process_up_to_the_root_counts() {
        assert_eq!(left(&[OWN]), None);
        assert_eq!(left(&[OWN, (UNIT, "max\n"), (SLICE, "max\n")]), None);
        assert_eq!(left(&[OWN, (UNIT, "500\n"), (SLICE, "max\n")]), Some(500));
        assert_eq!(left(&[OWN, (UNIT, "500\n"), (SLICE, "400\n")]), Some(400));
        let root = ("sys/fs/cgroup/memory.max", "300\n");
        assert_eq!(left(&[OWN, (UNIT, "500\n"), root]), Some(300));
        // Each group has taken memory of its own.
        let statistics = "sys/fs/cgroup/system.slice/memory.stat";
        let taken = (statistics, "file 7\nanon 1000\nanon_thp 0\n");
        let both = [OWN, (UNIT, "500\n"), (SLICE, "1100\n"), taken];
        assert_eq!(left(&both), Some(100));
        // A sibling's limit is nothing to this process.
        let other = ("sys/fs/cgroup/system.slice/other.service/memory.max", "1\n");
        assert_eq!(left(&[OWN, other, (UNIT, "500\n")]), Some(500));
    }

    #[test]
    fn groups_of_version_1_count_too() {
        let own = (
            "proc/self/cgroup",
            "9:cpu,cpuacct:/wrong\n5:name=memory:/wrong\n4:hugetlb,memory:/slurm/job_7\n0::/wrong\n",
        );
        let job = (
            "sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes",
            "900\n",
        );
        let statistics = (
            "sys/fs/cgroup/memory/slurm/job_7/memory.stat",
            "rss 1\ntotal_rss 200\n",
        );
        let whole = (
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert_eq!(left(&[own, job, whole]), Some(900));
        assert_eq!(left(&[own, job, statistics, whole]), Some(700));
        assert_eq!(left(&[own, whole]), Some(9_223_372_036_854_771_712));
    }

    /// A container that does not see the path of its group sees its limit at the root of the mount.
    #[test]
    fn groups_that_are_not_seen_leave_those_above_them() {
        let root = ("sys/fs/cgroup/memory.max", "300\n");
        for path in ["0::/docker/1f/x\n", "0::/../1f\n", "", "0\n", "0::\n"] {
            assert_eq!(left(&[("proc/self/cgroup", path), root]), Some(300));
        }
        assert_eq!(left(&[root]), Some(300));
        // A path that leads out of the mount is not followed.
        let outside = ("sys/fs/memory.max", "1\n");
        let own = ("proc/self/cgroup", "0::/../../fs\n");
        assert_eq!(left(&[own, outside, root]), Some(300));
    }

    #[test]
    fn data_is_what_the_limit_on_data_counts() {
        let status = (
            "proc/self/status",
            "Name:\tx\nVmSize:\t  900 kB\nVmData:\t  12 kB\n",
        );
        assert_eq!(data(machine(&[status]).path()), Some(12 * 1024));
        assert_eq!(data(machine(&[]).path()), None);
    }

    #[test]
    fn promises_count_where_the_machine_promises_no_more_than_it_has() {
        let policy = |policy| ("proc/sys/vm/overcommit_memory", policy);
        let memory = |memory| ("proc/meminfo", memory);
        let room = |files: &[(&str, &str)]| of_promises(machine(files).path());
        let text = "MemTotal: 9 kB\nCommitLimit:     1000 kB\nCommitted_AS:     900 kB\n";
        for other in ["0\n", "1\n"] {
            assert_eq!(room(&[policy(other), memory(text)]), None);
        }
        let found = room(&[policy("2\n"), memory(text)]).unwrap();
        assert_eq!((found.bytes, found.bound), (100 * 1024, Bound::Promises));
        let text = "CommitLimit: 5 kB\nCommitted_AS: 6 kB\n";
        assert_eq!(room(&[policy("2\n"), memory(text)]).unwrap().bytes, 0);
        assert_eq!(room(&[policy("2\n")]), None);
        assert_eq!(room(&[memory(text)]), None);
    }
}
