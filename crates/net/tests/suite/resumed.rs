//! Jobs that have failed and are started again: nobody has to start parties or servers by hand.

use blindsum_net::NetError;
use blindsum_net::party::PartyConfig;
use blindsum_net::report::JobState;
use blindsum_protocol::{JobSpec, ProtocolName};

use crate::common::*;

/// Three parties, all of them needed.
fn three() -> JobSpec {
    JobSpec {
        rounds: 2,
        min_parties: 3,
        input_deadline: 20.0,
        ..spec(ProtocolName::Plain, 3)
    }
}

fn patient(url: &str, pki: &Pki, name: &str) -> PartyConfig {
    PartyConfig {
        give_up_after: 300.0,
        ..party_config(url, pki.party(name))
    }
}

#[test]
fn parties_of_a_failed_job_go_on_when_it_is_started_again() {
    let pki = Pki::new(71);
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store.db");
    let mut failing = config(&pki, vec![three()], Some(&store));
    failing.limits.patience = 0.5;
    let coordinator = Running::with(failing).unwrap();
    let (url, port) = (coordinator.url(), coordinator.port);
    let waiting = ["a", "b"].map(|name| run_party(patient(&url, &pki, name), constant(1.0)));
    assert_eq!(coordinator.wait_done("test").state, JobState::Failed);
    let error = coordinator.stop().unwrap_err().to_string();
    assert!(error.contains("3 are needed"), "{error}");
    let mut resumed = config(&pki, vec![three()], Some(&store));
    resumed.listen = format!("127.0.0.1:{port}");
    let coordinator = Running::with(resumed).unwrap();
    let third = run_party(patient(&url, &pki, "c"), constant(1.0));
    for party in waiting.into_iter().chain([third]) {
        let rounds = party.join().unwrap().unwrap();
        let last = rounds.last().unwrap().as_ref().unwrap();
        assert_eq!(last.mean, [1.0; 5]);
    }
    assert_eq!(coordinator.wait_done("test").state, JobState::Done);
    coordinator.stop().unwrap();
}

/// A party waits as long as it would for a coordinator that is away, and then says what it was told.
#[test]
fn a_party_of_a_failed_job_gives_up_in_the_end() {
    let pki = Pki::new(72);
    let mut failing = config(&pki, vec![three()], None);
    failing.limits.patience = 0.3;
    let coordinator = Running::with(failing).unwrap();
    let config = PartyConfig {
        give_up_after: 1.0,
        ..party_config(&coordinator.url(), pki.party("a"))
    };
    let party = run_party(config, constant(1.0));
    assert_eq!(coordinator.wait_done("test").state, JobState::Failed);
    coordinator.stop().unwrap_err();
    let error = party.join().unwrap().unwrap_err();
    assert!(matches!(error, NetError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("the job has failed"), "{error}");
}
