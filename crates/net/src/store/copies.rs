//! The files of a store: what a copy of one of them holds, and who may read them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use blindsum_protocol::{Job, JobSpec, ProtocolName};

use super::{SqliteStore, Store, StoreReader};
use crate::Model;
use crate::report::{RoundReport, RoundState};

fn job() -> Job {
    let spec = JobSpec {
        protocol: ProtocolName::Plain.into(),
        dim: 1,
        ..JobSpec::default()
    };
    spec.validate().unwrap()
}

/// Somebody copies the main file alone, while the coordinator runs.
#[test]
fn a_copy_of_the_main_file_has_the_job_and_all_but_the_latest_rounds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path, 2).unwrap();
    store
        .open_job(&job(), &Model::new(0, vec![0.5_f32]))
        .unwrap();
    let copied = |name: &str| {
        let copy = folder.path().join(name);
        fs::copy(&path, &copy).unwrap();
        let reader = StoreReader::open(&copy).unwrap();
        assert_eq!(reader.jobs().unwrap().len(), 1);
        reader.rounds("job", 1).unwrap()
    };
    assert_eq!(copied("new"), []);
    for round in 1..=30 {
        let report = RoundReport::offered(round, 0, 0);
        store.begin_round("job", &report).unwrap();
        let report = RoundReport {
            state: RoundState::Aborted,
            ..report
        };
        store.end_round("job", &report, None, None).unwrap();
    }
    let rounds = copied("later");
    // The log is moved after every eight of them.
    assert!(rounds[0].number >= 22, "{rounds:?}");
}

#[test]
fn a_store_its_log_and_its_copy_are_for_their_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path, 2).unwrap();
    store
        .open_job(&job(), &Model::new(0, vec![0.5_f32]))
        .unwrap();
    let reader = StoreReader::open(&path).unwrap();
    reader.back_up(&folder.path().join("copy.db")).unwrap();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
        names.push(entry.file_name());
    }
    assert!(names.len() >= 4, "{names:?}");
}
