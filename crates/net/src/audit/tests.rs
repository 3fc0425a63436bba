use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use blindsum_crypto::kdf::sha256;
use blindsum_job::store::MemoryStore;
use blindsum_protocol::{Job, JobSpec, ProtocolName};
use serde_json::Value;

use super::entry::{Entry, Guest, Times};
use super::trail::Trail;
use super::*;
use crate::report::{RoundReport, RoundState};
use crate::{Model, StoreError, hex};

/// A trail in a folder of its own, and its clock in milliseconds.
struct Place {
    _folder: tempfile::TempDir,
    path: PathBuf,
    millis: Arc<AtomicU64>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            path: folder.path().join("audit.jsonl"),
            _folder: folder,
            millis: Arc::new(AtomicU64::new(1_700_000_000_000)),
        }
    }

    fn clock(&self) -> WallClock {
        let millis = self.millis.clone();
        WallClock::new(move || millis.load(Ordering::Relaxed))
    }

    fn open(&self) -> Result<Trail, String> {
        let opened = Trail::open(&self.path, self.clock());
        opened
            .map(|(trail, _)| trail)
            .map_err(|error| error.to_string())
    }

    fn entries(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.path).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn events(&self) -> Vec<String> {
        let entries = self.entries();
        entries
            .iter()
            .map(|entry| entry["event"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn joined(name: &str) -> Entry {
    Entry::Joined {
        who: Guest::new(name, "127.0.0.1:9"),
        job: "job".into(),
        certificate: String::new(),
        times: Times::default(),
    }
}

fn job() -> Job {
    let spec = JobSpec {
        protocol: ProtocolName::Plain.into(),
        job: "job".into(),
        dim: 1,
        ..JobSpec::default()
    };
    spec.validate().unwrap()
}

fn report(number: u64, state: RoundState) -> RoundReport {
    RoundReport {
        state,
        ..RoundReport::offered(number, 0, 0)
    }
}

#[test]
fn lines_follow_each_other_over_restarts() {
    let place = Place::new();
    for name in ["a", "b"] {
        let trail = place.open().unwrap();
        trail.note(joined(name));
        trail.end();
    }
    let entries = place.entries();
    assert_eq!(place.events(), ["joined", "stopped", "joined", "stopped"]);
    assert_eq!(entries[0]["prev"], "0".repeat(64));
    assert_eq!(entries[0]["time"], "2023-11-14 22:13:20 UTC");
    let text = fs::read_to_string(&place.path).unwrap();
    for (at, line) in text.lines().enumerate() {
        assert_eq!(entries[at]["seq"], at as u64 + 1);
        let hash = hex(&sha256(line.as_bytes()));
        assert!(
            entries.get(at + 1).is_none_or(|next| next["prev"] == *hash),
            "{at}"
        );
    }
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&place.path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn case_71_a_changed_line_is_found_before_anything_is_written() {
    let place = Place::new();
    let trail = place.open().unwrap();
    for name in ["a", "b", "c", "d"] {
        trail.note(joined(name));
    }
    drop(trail);
    let whole = fs::read_to_string(&place.path).unwrap();
    let lines: Vec<_> = whole.lines().collect();
    let with = |lines: &[&str]| {
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>()
    };
    let changed = [
        ("line 2: does not have", whole.replacen("\"a\"", "\"z\"", 1)),
        (
            "line 2: has number 3",
            with(&[lines[0], lines[2], lines[3]]),
        ),
        (
            "line 3: has number 2",
            with(&[lines[0], lines[1], lines[1], lines[2]]),
        ),
        ("line 1: has number 2", with(&lines[1..])),
        ("line 2: is no entry", with(&[lines[0], "{}", lines[2]])),
    ];
    for (found, text) in changed {
        fs::write(&place.path, &text).unwrap();
        let error = place.open().err().unwrap();
        assert!(
            error.contains(found) && error.contains("audit: "),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&place.path).unwrap(), text);
    }
}

#[test]
fn half_a_line_is_cut_off_and_said() {
    let place = Place::new();
    place.open().unwrap().note(joined("a"));
    let whole = fs::read(&place.path).unwrap();
    fs::write(&place.path, [&whole[..], b"{\"seq\":2,\"ti"].concat()).unwrap();
    place.open().unwrap().note(joined("b"));
    assert_eq!(place.events(), ["joined", "repaired", "joined"]);
    assert_eq!(place.entries()[1]["bytes"], 12);
    place.open().unwrap();
}

#[test]
fn a_trail_has_one_writer() {
    let place = Place::new();
    let _first = place.open().unwrap();
    let error = place.open().err().unwrap();
    assert!(error.contains("another coordinator writes it"), "{error}");
}

#[test]
fn case_31_a_party_that_comes_ten_thousand_times_is_few_lines() {
    let place = Place::new();
    let trail = place.open().unwrap();
    for _ in 0..10_000 {
        trail.note(joined("a"));
    }
    trail.note(joined("b"));
    assert_eq!(place.entries().len(), 11);
    place.millis.fetch_add(60_000, Ordering::Relaxed);
    trail.note(joined("b"));
    let entries = place.entries();
    let of_a: u64 = entries
        .iter()
        .filter(|entry| entry["name"] == "a")
        .map(|entry| entry["times"].as_u64().unwrap_or(1))
        .sum();
    assert_eq!((of_a, entries.len()), (10_000, 13));
    // At the end nothing is left out.
    for _ in 0..12 {
        trail.note(joined("c"));
    }
    trail.end();
    let last = place.entries().pop().unwrap();
    assert_eq!(last["event"], "stopped");
    assert_eq!(place.entries()[23]["times"], 2);
}

/// A store and a trail that fail or not.
fn recorded(place: &Place, memory: &Arc<MemoryStore>) -> (Audit, Arc<dyn Store>) {
    Audit::open(Some(&place.path), place.clock(), memory.clone()).unwrap()
}

#[test]
fn ends_of_rounds_that_the_trail_lacks_are_added_at_the_next_start() {
    let (place, memory) = (Place::new(), Arc::new(MemoryStore::new(3)));
    let initial = Model::new(0, vec![0.0_f32]);
    {
        let (_audit, store) = recorded(&place, &memory);
        store.open_job(&job(), &initial).unwrap();
        store
            .begin_round("job", &report(1, RoundState::Joining))
            .unwrap();
        let done = report(1, RoundState::Done);
        store
            .end_round("job", &done, Some(&Model::new(1, vec![1.0_f32])), None)
            .unwrap();
        store
            .begin_round("job", &report(2, RoundState::Joining))
            .unwrap();
    }
    // The process ends after the transaction and before the entry.
    let aborted = report(2, RoundState::Aborted);
    memory.end_round("job", &aborted, None, None).unwrap();
    let (_audit, store) = recorded(&place, &memory);
    store.open_job(&job(), &initial).unwrap();
    let expected = [
        "job-opened",
        "round-offered",
        "round-ended",
        "round-offered",
        "round-ended",
        "job-opened",
    ];
    assert_eq!(place.events(), expected);
    let late = &place.entries()[4];
    assert_eq!(
        (&late["round"], &late["late"], &late["state"]),
        (&2.into(), &true.into(), &"aborted".into())
    );
}

#[test]
fn case_71_where_the_trail_cannot_be_written_no_round_begins() {
    let (place, memory) = (Place::new(), Arc::new(MemoryStore::new(3)));
    let full = Path::new("/dev/full");
    memory
        .open_job(&job(), &Model::new(0, vec![0.0_f32]))
        .unwrap();
    let trail = Arc::new(Trail::writing(full, place.clock()));
    let store = Recorded::new(memory.clone(), trail, Default::default());
    store
        .begin_round("job", &report(1, RoundState::Joining))
        .unwrap();
    // The round that was offered before ends as ever.
    let error = store
        .begin_round("job", &report(2, RoundState::Joining))
        .unwrap_err();
    let StoreError::Io { path, reason } = error else {
        panic!("{error}")
    };
    assert!(
        path.contains("/dev/full") && reason.contains("No space left"),
        "{path} {reason}"
    );
    assert!(memory.round("job", 2).unwrap().is_none());
}

#[test]
fn a_device_or_a_folder_is_no_trail() {
    let folder = tempfile::tempdir().unwrap();
    for path in [
        Path::new("/dev/zero"),
        Path::new("/dev/full"),
        folder.path(),
    ] {
        let clock = WallClock::system();
        let opened = Trail::open(path, clock).map(drop);
        for refused in [opened, Audit::check(path)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("must be a file"), "{error}");
        }
    }
    assert!(Audit::check(&folder.path().join("none")).is_ok());
}
