//! Models of which only the parties know: who is asked for one, and who gets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::raw::Raw;
use crate::common::*;
use crate::flashe::{one, together};
use blindsum_net::party::Party;
use blindsum_net::pb;

/// Abuse case 27: a model that nobody asked for costs its sender its connection, and the others nothing.
#[test]
fn case_27_a_model_that_was_not_asked_for() {
    let pki = Pki::new(1);
    let coordinator = Running::start(&pki, vec![flashe(1)], None);
    let mut raw = Raw::join(&coordinator.url(), pki.party("c"), "c");
    let chunk = |version| pb::ModelChunk {
        version,
        offset: 0,
        total: 4,
        data: vec![0; 4].into(),
    };
    // One of a version that was may be on its way; that is no fault.
    raw.send(chunk(9));
    raw.send(chunk(0));
    let (code, reason) = raw.refusal();
    assert_eq!(code, pb::RefusalCode::RefusalBadFrame);
    assert!(reason.contains("was not asked for"), "{reason}");
    let mut parties = join(&pki, &coordinator.url(), &["a", "b"]);
    assert_eq!(together(&mut parties), (2, vec![1.0; 5]));
}

/// Abuse case 27: a party that is asked for the model and stays silent does not keep others out for long.
#[test]
fn case_27_a_party_that_does_not_send_the_model() {
    let pki = Pki::new(1);
    let coordinator = Running::start(&pki, vec![flashe(9)], None);
    let url = coordinator.url();
    // It is the first to be asked.
    let mut silent = Raw::join(&url, pki.party("a"), "a");
    let done = Arc::new(AtomicBool::new(false));
    let stop = done.clone();
    let playing = std::thread::spawn(move || {
        while !stop.load(Ordering::SeqCst) {
            let start = silent.begin();
            silent.play(&start, 1.0, u8::MAX);
        }
    });
    let _steady = run_party(party_config(&url, pki.party("b")), constant(1.0));
    coordinator.wait("test", |status| status.rounds_done > 0);
    let mut late = join(&pki, &url, &["c"]).remove(0);
    let result = one(&mut late).unwrap();
    assert_eq!(result.survivors, ["a", "b", "c"]);
    done.store(true, Ordering::SeqCst);
    coordinator.stop().unwrap();
    drop(playing.join());
}

/// Who was away in the last round of a job hears that it is over, and has the model only if it was kept.
#[test]
fn a_party_that_comes_when_the_job_is_done() {
    let pki = Pki::new(1);
    let folder = tempfile::tempdir().unwrap();
    let coordinator = Running::start(&pki, vec![flashe(1)], None);
    let url = coordinator.url();
    let credentials = ["a", "b", "c"].map(|name| pki.party(name));
    let mut parties = join(&pki, &url, &["b", "c"]);
    let kept = || config_in(folder.path(), &url, &credentials[0]);
    parties.push(Party::join(kept()).unwrap());
    assert_eq!(together(&mut parties), (3, vec![1.0; 5]));
    drop(parties);
    coordinator.wait_done("test");
    let final_model = |mut party: Party| {
        assert!(party.next_round().unwrap().is_none());
        party.final_model().map(|model| model.values().to_doubles())
    };
    assert_eq!(final_model(join_again(kept)), Some(vec![1.0; 5]));
    let without = join(&pki, &url, &["b"]).remove(0);
    assert_eq!(final_model(without), None);
}
