//! How long a round waits for its parties before it begins.

use crate::common::raw::Raw;
use crate::common::*;
use blindsum_protocol::ProtocolName;

#[test]
fn a_job_that_too_few_parties_are_ready_for_ends_after_its_patience() {
    let pki = Pki::new(11);
    let mut spec = spec(ProtocolName::Plain, 3);
    spec.join_deadline = 0.1;
    let mut config = config(&pki, vec![spec], None);
    config.limits.patience = 0.5;
    let coordinator = Running::with(config).unwrap();
    let url = coordinator.url();
    // It connects and is never ready.
    let idle = Raw::join(&url, pki.party("a"), "a");
    let party = run_party(party_config(&url, pki.party("b")), constant(1.0));
    let error = party.join().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("1 parties were ready within 0.5 s, 2 are needed"),
        "{error}"
    );
    drop(idle);
}

#[test]
fn a_round_starts_late_rather_than_never_while_parties_are_busy() {
    let pki = Pki::new(12);
    let mut spec = spec(ProtocolName::Plain, 3);
    spec.join_deadline = 0.1;
    let coordinator = Running::start(&pki, vec![spec], None);
    let url = coordinator.url();
    let party = run_party(party_config(&url, pki.party("a")), constant(1.0));
    let mut busy = Raw::join(&url, pki.party("b"), "b");
    std::thread::sleep(std::time::Duration::from_millis(400));
    let start = busy.begin();
    assert!(busy.play(&start, 3.0, 9).is_none());
    let rounds = party.join().unwrap().unwrap();
    assert_eq!(rounds[0].as_ref().unwrap().mean, [2.0; 5]);
    assert_eq!(coordinator.wait_done("test").round.unwrap().number, 1);
}
