use super::*;
use blindsum_protocol::{JobSpec, ProtocolName};

fn job(dim: u64) -> Job {
    let spec = JobSpec {
        protocol: ProtocolName::Plain.into(),
        dim,
        ..JobSpec::default()
    };
    spec.validate().unwrap()
}

fn ended(number: u64, state: RoundState) -> RoundReport {
    RoundReport {
        state,
        ..RoundReport::offered(number, 0, 0)
    }
}

#[test]
fn a_job_goes_on_from_its_last_committed_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    // Larger than one piece of a model.
    let dim = MODEL_PIECE as u64 / 4 + 3;
    let (job, initial) = (job(dim), Model::new(0, vec![0.5_f32; dim as usize]));
    let store = SqliteStore::open(&path, 2).unwrap();
    let begun = store.open_job(&job, &initial).unwrap();
    assert_eq!((begun.next_round, begun.rounds_done), (1, 0));
    let mut model = initial.clone();
    for round in 1..=3 {
        let report = RoundReport::offered(round, model.version(), 0);
        store.begin_round("job", &report).unwrap();
        model = Model::new(round, vec![round as f32; dim as usize]);
        let report = ended(round, RoundState::Done);
        store.end_round("job", &report, Some(&model), None).unwrap();
    }
    let open = RoundReport::offered(4, 3, 0);
    store.begin_round("job", &open).unwrap();
    drop(store);
    let store = SqliteStore::open(&path, 2).unwrap();
    let again = store.open_job(&job, &initial).unwrap();
    assert_eq!(again.model, model);
    assert_eq!((again.next_round, again.rounds_done), (5, 3));
    assert_eq!(again.interrupted, [4]);
    assert_eq!(
        store.rounds("job", 1).unwrap()[0].state,
        RoundState::Aborted
    );
    // Two versions are kept.
    let kept = |version| store.model("job", version).unwrap().is_some();
    assert_eq!([0, 1, 2, 3].map(kept), [false, false, true, true]);
}

#[test]
fn the_best_model_is_kept_beside_the_latest_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let mut model = Model::new(0, vec![0.0_f32]);
    // The version that is the best one after each round, and the versions that are kept then.
    let course: [(Option<u64>, &[u64]); 6] = [
        (None, &[1]),
        (Some(1), &[1, 2]),
        (Some(1), &[1, 3]),
        (Some(1), &[1, 4]),
        (Some(4), &[4, 5]),
        (Some(5), &[5, 6]),
    ];
    for (number, (best, kept)) in (1..).zip(course) {
        // A file that is opened again goes on in the same way.
        let store = SqliteStore::open(&path, 1).unwrap();
        store.open_job(&job(1), &model).unwrap();
        let offered = RoundReport::offered(number, model.version(), 0);
        store.begin_round("job", &offered).unwrap();
        model = Model::new(number, vec![number as f32]);
        let best = best.map(|version| blindsum_job::report::Best {
            metric: "accuracy".into(),
            round: version + 1,
            version,
            value: 0.5,
            without_gain: 0,
        });
        let report = RoundReport {
            best: best.clone(),
            ..ended(number, RoundState::Done)
        };
        store.end_round("job", &report, Some(&model), None).unwrap();
        let there = |version: &u64| store.model("job", *version).unwrap().is_some();
        assert_eq!((0..9).filter(there).collect::<Vec<_>>(), kept, "{number}");
        assert_eq!(store.rounds("job", 1).unwrap()[0].best, best);
    }
}

#[test]
fn a_round_number_is_taken_once() {
    let store = SqliteStore::in_memory(2).unwrap();
    store
        .open_job(&job(1), &Model::new(0, vec![0.0_f32]))
        .unwrap();
    let report = RoundReport::offered(1, 0, 0);
    store.begin_round("job", &report).unwrap();
    assert!(store.begin_round("job", &report).is_err());
}

#[test]
fn a_round_and_its_model_are_recorded_together_or_not_at_all() {
    let store = SqliteStore::in_memory(2).unwrap();
    let first = Model::new(0, vec![0.0_f32]);
    store.open_job(&job(1), &first).unwrap();
    store
        .begin_round("job", &RoundReport::offered(1, 0, 0))
        .unwrap();
    // This version stands already: the transaction fails as a whole.
    let done = ended(1, RoundState::Done);
    let ending = super::super::endings::tests::ending(1);
    let ended = store.end_round("job", &done, Some(&first), Some(&ending));
    assert!(ended.is_err());
    assert_eq!(
        store.rounds("job", 1).unwrap()[0].state,
        RoundState::Joining
    );
    assert_eq!(store.open_job(&job(1), &first).unwrap().ending, None);
}

#[test]
fn a_model_that_lost_its_hash_is_damage() {
    let store = SqliteStore::in_memory(2).unwrap();
    store
        .open_job(&job(1), &Model::new(0, vec![0.0_f32]))
        .unwrap();
    let spoil = "UPDATE model_pieces SET data = x'00000001'";
    store.lock().execute(spoil, []).unwrap();
    let error = store.model("job", 0).unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}

#[test]
fn events_are_written_down() {
    let store = SqliteStore::in_memory(2).unwrap();
    store
        .open_job(&job(1), &Model::new(0, vec![0.0_f32]))
        .unwrap();
    store.event("job", 1, "model", "a party differs").unwrap();
    let count = "SELECT count(*) FROM events WHERE kind = 'model' AND round = 1";
    let events: i64 = store.lock().query_row(count, [], |row| row.get(0)).unwrap();
    assert_eq!(events, 1);
}

#[test]
fn the_first_model_of_a_party_takes_the_place_of_the_awaited_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let spec = JobSpec {
        initial: blindsum_protocol::InitialModel::FirstParty,
        step: blindsum_protocol::StepName::FedAdam.into(),
        ..job(2).spec().clone()
    };
    let job = spec.validate().unwrap();
    let awaited = Model::awaited(&job);
    let open = |path: &Path| {
        let store = SqliteStore::open(path, 2).unwrap();
        let begun = store.open_job(&job, &awaited).unwrap();
        (store, begun)
    };
    for _ in 0..2 {
        let (_store, begun) = open(&path);
        assert!(begun.model.is_awaited() && begun.model_from.is_empty());
    }
    let first = Model::first(&job, vec![0.5, -1.0]).unwrap();
    let (store, _) = open(&path);
    store.first_model("job", &first, "a").unwrap();
    drop(store);
    let (_store, begun) = open(&path);
    assert_eq!((begun.model, &*begun.model_from), (first.clone(), "a"));
    let copy = folder.path().join("copy.db");
    let reader = crate::store::StoreReader::open(&path).unwrap();
    assert_eq!(reader.model("job", 0).unwrap(), Some(first.clone()));
    reader.back_up(&copy).unwrap();
    let (_store, begun) = open(&copy);
    assert_eq!((begun.model, &*begun.model_from), (first, "a"));
}
