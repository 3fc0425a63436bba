//! Coordinators and parties that are killed and started again.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::common::raw::Raw;
use crate::common::*;
use blindsum_net::coordinator::Coordinator;
use blindsum_net::party::{Party, PartyConfig};
use blindsum_net::report::{JobState, RoundState};
use blindsum_net::store::{SqliteStore, Store};
use blindsum_net::{Credentials, JobError, NetError};
use blindsum_protocol::{JobSpec, ProtocolName};

fn plain() -> JobSpec {
    JobSpec {
        rounds: 2,
        min_parties: 3,
        input_deadline: 20.0,
        ..spec(ProtocolName::Plain, 3)
    }
}

/// 3 parties of which none may be lost.
fn ramp(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        protocol: protocol.into(),
        ..secagg()
    }
}

fn secagg() -> JobSpec {
    JobSpec {
        protocol: ProtocolName::SecAgg.into(),
        min_parties: 0,
        corrupt: 0.0,
        dropout: 0.0,
        stage_deadline: 20.0,
        ..plain()
    }
}

fn start_on(pki: &Pki, spec: &JobSpec, store: &Path, port: u16) -> Running {
    let mut config = config(pki, vec![spec.clone()], Some(store));
    config.listen = format!("127.0.0.1:{port}");
    Running::with(config).unwrap()
}

/// Three parties; the coordinator dies while it waits for the third one in its second round.
fn coordinator_dies(spec: JobSpec, end: fn(Running)) {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let coordinator = start_on(&pki, &spec, &store, 0);
    let (url, port) = (coordinator.url(), coordinator.port);
    let steady: Vec<_> = ["a", "b"]
        .map(|name| run_party(party_config(&url, pki.party(name)), constant(1.0)))
        .into();
    let mut slow = Party::join(party_config(&url, pki.party("c"))).unwrap();
    let mut round = slow.next_round().unwrap().unwrap();
    round.submit(vec![1.0f32; 5], 1).unwrap();
    round.result().unwrap();
    let mut round = slow.next_round().unwrap().unwrap();
    assert_eq!(round.number(), 2);
    coordinator.wait("test", |status| status.waiting_for == ["c"]);
    end(coordinator);
    let coordinator = start_on(&pki, &spec, &store, port);
    let submitted = round.submit(vec![9.0f32; 5], 1);
    let error = submitted.and_then(|()| round.result()).unwrap_err();
    assert!(
        matches!(
            error,
            NetError::Job(JobError::RoundAborted { round: 2, .. })
        ),
        "{error}"
    );
    assert!(error.to_string().contains("the coordinator was"), "{error}");
    let mut round = slow.next_round().unwrap().unwrap();
    assert_eq!((round.number(), round.model().version()), (3, 1));
    round.submit(vec![1.0f32; 5], 1).unwrap();
    assert_eq!(
        round.result().unwrap().model.values().to_doubles(),
        [2.0; 5]
    );
    assert!(slow.next_round().unwrap().is_none());
    for party in steady {
        let rounds = party.join().unwrap().unwrap();
        let good: Vec<_> = rounds
            .iter()
            .filter_map(|round| round.as_ref().ok())
            .collect();
        assert_eq!((rounds.len(), good.len()), (3, 2));
        assert_eq!(good[1].model.values().to_doubles(), [2.0; 5]);
    }
    assert_eq!(coordinator.wait_done("test").state, JobState::Done);
    coordinator.stop().unwrap();
    let store = SqliteStore::open(&store, 3).unwrap();
    let states: Vec<_> = store
        .rounds("test", 9)
        .unwrap()
        .iter()
        .map(|r| (r.number, r.state))
        .collect();
    let expected = [
        (3, RoundState::Done),
        (2, RoundState::Aborted),
        (1, RoundState::Done),
    ];
    assert_eq!(states, expected);
}

#[test]
fn case_30_a_killed_coordinator_aborts_its_round_and_the_job_goes_on_plain() {
    coordinator_dies(plain(), Running::kill);
}

#[test]
fn case_30_a_killed_coordinator_aborts_its_round_and_the_job_goes_on_secagg() {
    coordinator_dies(secagg(), Running::kill);
}

#[test]
fn a_stopped_coordinator_aborts_its_round_and_the_job_goes_on() {
    coordinator_dies(secagg(), |coordinator| coordinator.stop().unwrap());
}

#[test]
fn case_30_two_coordinators_cannot_use_one_store() {
    let pki = Pki::new(2);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let first = Running::start(&pki, vec![plain()], Some(&store));
    let error = start_fails(&pki, plain(), &store);
    assert!(error.contains("another coordinator uses it"), "{error}");
    first.stop().unwrap();
    Running::start(&pki, vec![plain()], Some(&store))
        .stop()
        .unwrap();
}

fn start_fails(pki: &Pki, spec: JobSpec, store: &Path) -> String {
    let runtime = raw::runtime();
    match runtime.block_on(Coordinator::start(config(pki, vec![spec], Some(store)))) {
        Ok(_) => panic!("it started"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn case_30_damaged_and_foreign_stores_are_refused_and_left_alone() {
    let pki = Pki::new(3);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    Running::start(&pki, vec![plain()], Some(&store))
        .stop()
        .unwrap();
    let good = std::fs::read(&store).unwrap();
    let mut damaged = good.clone();
    damaged
        .iter_mut()
        .skip(200)
        .step_by(13)
        .for_each(|byte| *byte ^= 0xff);
    for (bytes, says) in [
        (damaged.as_slice(), "damaged"),
        (&good[..good.len() / 2], "damaged"),
        (&[b'x'; 5000], "damaged"),
    ] {
        std::fs::write(&store, bytes).unwrap();
        let error = start_fails(&pki, plain(), &store);
        assert!(error.contains(says), "{error}");
        assert_eq!(std::fs::read(&store).unwrap(), bytes);
    }
    std::fs::remove_file(&store).unwrap();
    let other = rusqlite::Connection::open(&store).unwrap();
    other.execute_batch("CREATE TABLE other (x)").unwrap();
    drop(other);
    let error = start_fails(&pki, plain(), &store);
    assert!(error.contains("not a coordinator's store"), "{error}");
}

#[test]
fn a_job_cannot_change_under_its_name() {
    let pki = Pki::new(4);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    Running::start(&pki, vec![plain()], Some(&store))
        .stop()
        .unwrap();
    let error = start_fails(&pki, JobSpec { dim: 6, ..plain() }, &store);
    assert!(error.contains("another specification"), "{error}");
}

/// Three parties: `a` is steady, `b` is killed and started again with its state folder where `c` is about to send
/// its vector, `c` is played here.
struct Mortal {
    coordinator: Running,
    steady: std::thread::JoinHandle<Result<Rounds, NetError>>,
    state: tempfile::TempDir,
    credentials: Credentials,
    last: Raw,
    input: u8,
}

impl Mortal {
    /// `grace`: the seconds that the coordinator waits for whoever is gone, and between rounds.
    fn new(spec: JobSpec, grace: f64) -> Self {
        let pki = Pki::new(5);
        let mut config = config(&pki, vec![JobSpec { rounds: 1, ..spec }], None);
        config.limits.reconnect_grace = grace;
        let coordinator = Running::with(config).unwrap();
        let url = coordinator.url();
        let last = Raw::join(&url, pki.party("c"), "c");
        Self {
            steady: run_party(party_config(&url, pki.party("a")), constant(1.0)),
            state: tempfile::tempdir().unwrap(),
            credentials: pki.party("b"),
            input: last.job.clone().unwrap().plan().input_stage().unwrap(),
            coordinator,
            last,
        }
    }

    /// How `b` joins.
    fn config(&self) -> impl Fn() -> PartyConfig + use<> {
        let (folder, url) = (self.state.path().to_owned(), self.coordinator.url());
        let credentials = self.credentials.clone();
        move || config_in(&folder, &url, &credentials)
    }

    /// Waits until everybody else has said what can be said, and kills `b`: what it knew is in its state folder, and
    /// nowhere else.
    fn kill(coordinator: &Running, waiting_for: &[&str], party: Party) {
        coordinator.wait("test", |status| status.waiting_for == waiting_for);
        drop(party);
        coordinator.wait("test", |status| status.connected.len() == 2);
    }
}

/// A party that is killed when its vector is out goes on in the same round.
fn party_dies_late(spec: JobSpec) {
    let mut world = Mortal::new(spec, 10.0);
    let config = world.config();
    let mut mortal = Some(Party::join(config()).unwrap());
    world.last.ready();
    let mut round = mortal.as_mut().unwrap().next_round().unwrap().unwrap();
    let start = world.last.started();
    round.submit(vec![4.0f32; 5], 1).unwrap();
    let (coordinator, input) = (&world.coordinator, world.input);
    world.last.play_slowly(&start, 1.0, |stage| {
        if stage != input {
            return;
        }
        Mortal::kill(coordinator, &["c"], mortal.take().unwrap());
        let mut again = mortal
            .insert(join_again(&config))
            .next_round()
            .unwrap()
            .unwrap();
        assert_eq!(again.number(), round.number());
        assert!(!again.needs_update());
        again.submit(vec![9.0f32; 5], 1).unwrap();
        round = again;
    });
    let result = round.result().unwrap();
    assert_eq!(
        (result.mean.to_doubles(), result.survivors.len()),
        (vec![2.0; 5], 3)
    );
    let steady = world.steady.join().unwrap().unwrap();
    assert_eq!(steady[0].as_ref().unwrap().mean, [2.0; 5]);
    assert_eq!(coordinator.wait_done("test").round.unwrap().number, 1);
}

/// A party that is killed before its vector is out does not come back to the round: nothing is left with which it
/// could mask, encrypt or seal in it. It takes part in the next one.
fn party_dies_early(spec: JobSpec) {
    let mut world = Mortal::new(spec, 3.0);
    let config = world.config();
    let mut mortal = Some(Party::join(config()).unwrap());
    world.last.ready();
    let round = mortal.as_mut().unwrap().next_round().unwrap().unwrap();
    assert!(round.needs_update());
    let start = world.last.started();
    let (coordinator, input) = (&world.coordinator, world.input);
    world.last.play_slowly(&start, 1.0, |stage| {
        if stage == input {
            Mortal::kill(coordinator, &["b", "c"], mortal.take().unwrap());
            mortal = Some(join_again(&config));
        }
    });
    let next = std::thread::spawn(move || {
        let mut party = mortal.unwrap();
        let mut round = party.next_round().unwrap().unwrap();
        assert_eq!((round.number(), round.needs_update()), (2, true));
        round.submit(vec![4.0f32; 5], 1).unwrap();
        round.result().unwrap()
    });
    world.last.ready();
    let start = world.last.started();
    world.last.play_slowly(&start, 1.0, |_| {});
    let result = next.join().unwrap();
    assert_eq!(
        (result.mean.to_doubles(), result.survivors.len()),
        (vec![2.0; 5], 3)
    );
    let steady = world.steady.join().unwrap().unwrap();
    let lost = steady[0].as_ref().unwrap_err();
    assert!(
        matches!(lost, NetError::Job(JobError::RoundAborted { round: 1, .. })),
        "{lost}"
    );
    assert_eq!(steady[1].as_ref().unwrap().mean, [2.0; 5]);
    assert_eq!(coordinator.wait_done("test").round.unwrap().number, 2);
}

#[test]
fn case_03_a_party_killed_before_its_update_joins_the_next_round_plain() {
    party_dies_early(plain());
}

#[test]
fn case_03_a_party_killed_before_its_update_joins_the_next_round_secagg() {
    party_dies_early(secagg());
}

#[test]
fn case_03_a_party_killed_before_its_update_joins_the_next_round_fssa() {
    party_dies_early(ramp(ProtocolName::Fssa));
}

#[test]
fn case_03_a_party_killed_before_its_update_joins_the_next_round_pss() {
    party_dies_early(ramp(ProtocolName::Pss));
}

#[test]
fn case_03_a_party_killed_after_its_update_says_the_same_bytes_plain() {
    party_dies_late(plain());
}

#[test]
fn case_03_a_party_killed_after_its_update_says_the_same_bytes_secagg() {
    party_dies_late(secagg());
}

#[test]
fn case_03_a_party_killed_after_its_update_says_the_same_bytes_fssa() {
    party_dies_late(ramp(ProtocolName::Fssa));
}

#[test]
fn case_03_a_party_killed_after_its_update_says_the_same_bytes_pss() {
    party_dies_late(ramp(ProtocolName::Pss));
}

/// What the process of the test below does: one round, as told by its environment.
#[test]
fn party_process() {
    let Ok(folder) = std::env::var("BLINDSUM_TEST_PARTY") else {
        return;
    };
    let folder = Path::new(&folder);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let credentials = Credentials::new(read("pem"), read("key"), read("ca"));
    let mut party = Party::join(PartyConfig {
        state_dir: Some(folder.to_owned()),
        ..party_config(&read("url"), credentials)
    })
    .unwrap();
    let mut round = party.next_round().unwrap().unwrap();
    println!("\nround {} update {}", round.number(), round.needs_update());
    round.submit(vec![4.0f32; 5], 1).unwrap();
    let result = round.result().unwrap();
    println!("\nmean {:?}", result.mean.to_doubles());
}

/// A process that takes part in a round, and the lines that it says.
fn spawn_party(folder: &Path) -> (Child, impl FnMut(&str) -> String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "restarts::party_process", "--nocapture"])
        .env("BLINDSUM_TEST_PARTY", folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let says = move |start: &str| {
        let found = lines.find(|line| line.as_ref().unwrap().starts_with(start));
        found.expect("it ended").unwrap()
    };
    (child, says)
}

#[test]
fn case_03_a_process_killed_with_signal_9_goes_on_in_its_round() {
    let pki = Pki::new(6);
    let spec = JobSpec {
        rounds: 1,
        ..secagg()
    };
    let mut config = config(&pki, vec![spec], None);
    config.limits.reconnect_grace = 5.0;
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    let folder = tempfile::tempdir().unwrap();
    let credentials = pki.party("b");
    let texts = [
        ("pem", credentials.certificate.as_str()),
        ("key", credentials.key.as_str()),
        ("ca", credentials.ca.as_str()),
        ("url", url.as_str()),
    ];
    for (name, text) in texts {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let steady = run_party(party_config(&url, pki.party("a")), constant(1.0));
    let (mut process, mut says) = spawn_party(folder.path());
    let mut last = Raw::join(&url, pki.party("c"), "c");
    let start = last.begin();
    assert_eq!(says("round"), "round 1 update true");
    let wait = |stage: u8| {
        coordinator.wait("test", |status| {
            let round = status.round.as_ref();
            let here = round.is_some_and(|round| round.stages.len() == usize::from(stage) + 1);
            here && status.waiting_for == ["c"]
        });
    };
    // Before its vector is out it loses the round.
    last.play_slowly(&start, 1.0, |stage| {
        if stage == 1 {
            wait(stage);
            process.kill().unwrap();
            process.wait().unwrap();
            (process, says) = spawn_party(folder.path());
        }
    });
    last.ready();
    let start = last.started();
    assert_eq!(says("round"), "round 2 update true");
    last.play_slowly(&start, 1.0, |stage| {
        if stage < 2 {
            return;
        }
        wait(stage);
        process.kill().unwrap();
        process.wait().unwrap();
        (process, says) = spawn_party(folder.path());
        assert_eq!(says("round"), "round 2 update false");
    });
    assert_eq!(says("mean"), "mean [2.0, 2.0, 2.0, 2.0, 2.0]");
    assert!(process.wait().unwrap().success());
    let rounds = steady.join().unwrap().unwrap();
    assert_eq!(rounds[1].as_ref().unwrap().mean, [2.0; 5]);
    assert_eq!(coordinator.wait_done("test").round.unwrap().number, 2);
}

#[test]
fn where_a_job_stands_as_it_begins_is_news_to_who_watches_it() {
    let pki = Pki::new(1);
    let coordinator = Running::start(&pki, vec![plain()], None);
    assert!(coordinator.has_news("test"));
}
