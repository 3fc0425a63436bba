//! Orders to a coordinator while parties train, over real connections.

use std::sync::mpsc;

use crate::common::*;
use blindsum_net::coordinator::{Coordinator, JobConfig};
use blindsum_net::orders::{Change, Command, OrderError};
use blindsum_net::party::{NextRound, Party};
use blindsum_net::report::{JobState, RoundState};
use blindsum_net::{Limits, NetError};
use blindsum_protocol::{JobSpec, ModelUpdate, ProtocolName};

const NAMES: [&str; 3] = ["a", "b", "c"];

fn training(rounds: u32) -> JobSpec {
    JobSpec {
        rounds,
        min_parties: 3,
        model_update: ModelUpdate::Add,
        input_deadline: 60.0,
        ..spec(ProtocolName::Plain, 3)
    }
}

/// Parties that train in round 1 until they are let go; gives how to tell that they train, and to let them go.
fn train(pki: &Pki, url: &str) -> (Vec<Played>, mpsc::Receiver<u64>, Vec<mpsc::Sender<()>>) {
    let (trains, told) = mpsc::channel();
    let (mut parties, mut go) = (Vec::new(), Vec::new());
    for name in NAMES {
        let (let_go, wait) = mpsc::channel();
        let trains = trains.clone();
        let config = party_config(url, pki.party(name));
        parties.push(run_party(config, move |round| {
            let _ = trains.send(round);
            if round == 1 {
                wait.recv().unwrap();
            }
            vec![1.0_f32; 5]
        }));
        go.push(let_go);
    }
    (parties, told, go)
}

fn all_train(told: &mpsc::Receiver<u64>) {
    for _ in NAMES {
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), 1);
    }
}

fn extend(rounds: u32) -> Command {
    Command::Extend(Change {
        rounds: Some(rounds),
        ..Change::default()
    })
}

/// Every party has the results of these rounds, and of nothing else.
fn assert_results(parties: Vec<Played>, rounds: usize) {
    for party in parties {
        let played = party.join().unwrap().unwrap();
        assert_eq!(played.len(), rounds);
        for (i, result) in played.into_iter().enumerate() {
            let model = result.unwrap().model;
            assert_eq!(model.values().to_doubles(), [i as f64 + 1.0; 5]);
        }
    }
}

#[test]
fn a_coordinator_that_drains_while_parties_train_loses_no_round() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let coordinator = Running::start(&pki, vec![training(2)], Some(&store));
    let port = coordinator.port;
    let (parties, told, go) = train(&pki, &coordinator.url());
    all_train(&told);
    let control = coordinator.control();
    let drained = std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(control.drain("olga", "a test", None));
    });
    // Only then are there updates.
    let status = coordinator.wait("test", |status| !status.held.is_empty());
    assert_eq!(status.round.unwrap().state, RoundState::Running);
    for go in go {
        go.send(()).unwrap();
    }
    drained.join().unwrap();
    let status = coordinator.wait("test", |_| true);
    assert_eq!((status.rounds_done, status.state), (1, JobState::Running));
    assert_eq!(status.unconfirmed.len(), 0, "everybody has confirmed");
    coordinator.stop().unwrap();
    let mut again = config(&pki, vec![training(2)], Some(&store));
    again.listen = format!("127.0.0.1:{port}");
    let again = Running::with(again).unwrap();
    again.wait_done("test");
    assert_results(parties, 2);
    again.stop().unwrap();
}

#[test]
fn a_job_is_extended_while_its_last_round_runs_and_its_parties_go_on() {
    let pki = Pki::new(1);
    let coordinator = Running::start(&pki, vec![training(1)], None);
    let (parties, told, go) = train(&pki, &coordinator.url());
    all_train(&told);
    let extended = coordinator.order("test", extend(3)).unwrap();
    assert_eq!(extended.to_string(), "rounds: 1 → 3");
    for go in go {
        go.send(()).unwrap();
    }
    let status = coordinator.wait_done("test");
    assert_eq!((status.rounds_done, status.rounds), (3, 3));
    assert_results(parties, 3);
}

#[test]
fn a_banned_party_comes_back_once_it_may() {
    let pki = Pki::new(1);
    let coordinator = Running::start(&pki, vec![training(1)], None);
    coordinator
        .order(
            "test",
            Command::Ban {
                party: "c".into(),
                seconds: None,
            },
        )
        .unwrap();
    let (parties, told, go) = train(&pki, &coordinator.url());
    let two = |status: &blindsum_net::report::JobStatus| status.connected == ["a", "b"];
    coordinator.wait("test", two);
    assert!(told.try_recv().is_err(), "a round needs all three");
    let party = "c".to_owned();
    coordinator.order("test", Command::Unban { party }).unwrap();
    for go in go {
        go.send(()).unwrap();
    }
    assert_results(parties, 1);
}

#[test]
fn orders_to_no_job_are_refused() {
    let pki = Pki::new(1);
    let coordinator = coordinator(&pki);
    let error = coordinator.order("other", Command::Pause {}).unwrap_err();
    assert!(matches!(error, OrderError::UnknownJob { .. }), "{error}");
    let control = coordinator.control();
    coordinator.order("test", Command::Pause {}).unwrap();
    assert!(control.status("test").unwrap().held.contains("olga"));
    coordinator.stop().unwrap();
    let order = blindsum_net::orders::Order {
        command: Command::Resume {},
        by: "olga".into(),
        reason: "a test".into(),
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let error = runtime.block_on(control.order("test", order)).unwrap_err();
    assert!(matches!(error, OrderError::Stopping { .. }), "{error}");
}

#[test]
fn a_job_is_added_while_another_one_runs() {
    let pki = Pki::new(1);
    let coordinator = coordinator(&pki);
    let added = |name: &str| JobConfig {
        spec: JobSpec {
            job: name.into(),
            ..training(1)
        },
        initial_model: None,
        results: None,
        hosted: false,
    };
    let control = coordinator.control();
    coordinator.block_on(control.add(added("more"))).unwrap();
    let error = coordinator
        .block_on(control.add(added("more")))
        .unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    let parties: Vec<Played> = NAMES
        .iter()
        .map(|name| {
            let mut config = party_config(&coordinator.url(), pki.party(name));
            config.job = "more".into();
            run_party(config, constant(1.0))
        })
        .collect();
    assert_results(parties, 1);
    assert_eq!(coordinator.wait_done("more").state, JobState::Done);
    assert_eq!(control.status("test").unwrap().state, JobState::Running);
}

/// Two jobs, of which the first is drained while parties of the second train: the coordinator stays until they are done.
#[test]
fn a_job_that_has_drained_ends_no_other_one() {
    let pki = Pki::new(1);
    let first = JobSpec {
        job: "aa".into(),
        ..training(1)
    };
    let mut config = config(&pki, vec![first, training(2)], None);
    (config.stop_when_done, config.limits.farewell) = (true, 0.1);
    let coordinator = Running::with(config).unwrap();
    let (parties, told, go) = train(&pki, &coordinator.url());
    all_train(&told);
    coordinator
        .order("aa", Command::Drain { within: None })
        .unwrap();
    let (ended, has_ended) = mpsc::channel();
    let finishing = std::thread::spawn(move || {
        let finished = coordinator.finish();
        let _ = ended.send(());
        finished
    });
    // Longer than it stays for those who are still connected once it ends.
    let early = has_ended.recv_timeout(std::time::Duration::from_secs(7));
    assert!(early.is_err(), "it ended while parties trained");
    for let_go in go {
        let_go.send(()).unwrap();
    }
    assert_results(parties, 2);
    finishing.join().unwrap().unwrap();
}

#[test]
fn limits_change_in_a_running_coordinator_where_they_can() {
    let pki = Pki::new(1);
    let coordinator = coordinator(&pki);
    let other = Limits {
        patience: 0.2,
        connections: 7,
        ..limits()
    };
    let control = coordinator.control();
    let (changed, left) = coordinator.block_on(control.set_limits(&other)).unwrap();
    assert_eq!(
        (changed, left),
        (
            vec!["limits.patience: 3600.0 → 0.2".into()],
            vec!["connections".into()]
        )
    );
    let none = coordinator.block_on(control.set_limits(&Limits {
        patience: -1.0,
        ..other.clone()
    }));
    assert!(matches!(none, Err(NetError::Config { .. })));
    // The wait that began with the old patience ends by it; the next one has the new one.
    coordinator.order("test", Command::Pause {}).unwrap();
    coordinator.order("test", Command::Resume {}).unwrap();
    assert_eq!(coordinator.wait_done("test").state, JobState::Failed);
    coordinator.block_on(control.set_limits(&limits())).unwrap();
    coordinator.order("test", Command::Resume {}).unwrap();
    honest_round_works(&pki, &coordinator);
}

#[test]
fn a_check_looks_into_the_store() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let checked = |rounds| Coordinator::check(config(&pki, vec![training(rounds)], Some(&store)));
    assert_eq!(checked(8).unwrap(), 1, "there is no store yet");
    let coordinator = Running::start(&pki, vec![training(8)], Some(&store));
    assert_eq!(
        checked(8).unwrap(),
        1,
        "a running coordinator is in nobody's way"
    );
    for error in [checked(10).unwrap_err(), {
        coordinator.stop().unwrap();
        let other = config(&pki, vec![training(10)], Some(&store));
        Running::with(other).err().unwrap()
    }] {
        let error = error.to_string();
        assert!(error.contains("rounds: 8 → 10"), "{error}");
        assert!(error.contains("blindsum admin extend"), "{error}");
    }
}

/// A party that waits for a round hears at once that the job is paused and that it goes on, also over another connection.
#[test]
fn parties_that_wait_are_told_that_the_job_is_paused() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let coordinator = Running::start(&pki, vec![training(1)], Some(&store));
    let port = coordinator.port;
    let mut party = Party::join(party_config(&coordinator.url(), pki.party("a"))).unwrap();
    let holding = party.holding();
    assert_eq!(holding.reason(), "");
    let mut told = move || match party.wait_round(PATIENCE).unwrap() {
        NextRound::Held(reason) => reason,
        _ => panic!("no word of operators"),
    };
    coordinator.order("test", Command::Pause {}).unwrap();
    assert_eq!(told(), "paused by olga: a test");
    assert_eq!(holding.reason(), "paused by olga: a test");
    coordinator.stop().unwrap();
    let mut again = config(&pki, vec![training(1)], Some(&store));
    again.listen = format!("127.0.0.1:{port}");
    let again = Running::with(again).unwrap();
    again.wait("test", |status| status.connected == ["a"]);
    again.order("test", Command::Resume {}).unwrap();
    assert_eq!(told(), "");
    assert_eq!(holding.reason(), "");
    again.stop().unwrap();
}
