//! Clipping bounds that follow from earlier rounds are part of the model: whoever has it has them.

use crate::common::*;
use blindsum_encode::Reals;
use blindsum_net::Model;
use blindsum_net::party::{Party, RoundResult};
use blindsum_net::store::{SqliteStore, Store};
use blindsum_protocol::{Clipping, JobSpec, ProtocolName, Quantised};

const UPDATE: [f32; 5] = [0.01, -0.02, 0.03, 0.0, 0.05];

/// Eight bits between -4 and 4 to begin with: updates of this size are lost in the rounding.
fn narrowing(protocol: ProtocolName, rounds: u32) -> JobSpec {
    JobSpec {
        rounds,
        encoding: Quantised {
            bits: 8,
            clip: 4.0,
            clipping: Clipping::Aciq,
            max_weight: 1,
            ..Default::default()
        }
        .into(),
        input_deadline: 20.0,
        ..spec(protocol, 4)
    }
}

/// Levels are no longer 8 / 255 apart, but nearer than a tenth of that.
fn is_precise(result: &RoundResult) -> bool {
    let pairs = result.mean.iter().zip(UPDATE);
    pairs.fold(true, |all, (mean, exact)| {
        all && (mean - f64::from(exact)).abs() < 0.003
    })
}

#[test]
fn late_joiners_and_restarted_coordinators_have_the_same_bounds() {
    same_bounds(ProtocolName::SecAggPlus);
}

#[test]
fn late_joiners_have_the_bounds_that_the_coordinator_does_not_know() {
    same_bounds(ProtocolName::Flashe);
}

fn same_bounds(protocol: ProtocolName) {
    let (pki, folder) = (Pki::new(21), tempfile::tempdir().unwrap());
    let path = folder.path().join("store.db");
    let coordinator = Running::start(&pki, vec![narrowing(protocol, 6)], Some(&path));
    let url = coordinator.url();
    let config = |name| party_config(&url, pki.party(name));
    let early = ["b", "c"].map(|name| run_party(config(name), |_| UPDATE.to_vec()));
    let mut party = Party::join(config("a")).unwrap();
    let (mut late, mut last) = (None, None);
    while let Some(mut round) = party.next_round().unwrap() {
        if late.is_none() && round.model().version() == 2 {
            late = Some(run_party(config("d"), |_| UPDATE.to_vec()));
            coordinator.wait("test", |status| status.connected.len() == 4);
        }
        round.submit(UPDATE.to_vec(), 1).unwrap();
        last = Some(round.result().unwrap());
    }
    let last = last.unwrap();
    assert_eq!((last.survivors.len(), last.model.version()), (4, 6));
    assert!(is_precise(&last), "{:?}", last.mean);
    for party in early.into_iter().chain(late) {
        let rounds = party.join().unwrap().unwrap();
        assert_eq!(rounds.last().unwrap().as_ref().unwrap().model, last.model);
    }
    coordinator.stop().unwrap();
    let store = SqliteStore::open(&path, 2).unwrap();
    let stored = store.model("test", 6).unwrap().unwrap();
    assert_eq!(stored.hash(), last.model.hash());
    if stored.is_hidden() {
        return;
    }
    assert_eq!(stored, last.model);
    // The values alone are another model.
    let Reals::Single(values) = &**stored.values() else {
        panic!("{stored:?} has another precision");
    };
    assert_ne!(Model::new(6, values.clone()).hash(), stored.hash());
}

#[test]
fn a_coordinator_goes_on_with_the_bounds_it_had() {
    let (pki, folder) = (Pki::new(22), tempfile::tempdir().unwrap());
    let path = folder.path().join("store.db");
    let coordinator = Running::start(
        &pki,
        vec![narrowing(ProtocolName::SecAggPlus, 5)],
        Some(&path),
    );
    rounds_of_everybody(&pki, &coordinator.url(), 4);
    coordinator.kill();
    let coordinator = Running::start(
        &pki,
        vec![narrowing(ProtocolName::SecAggPlus, 5)],
        Some(&path),
    );
    for result in rounds_of_everybody(&pki, &coordinator.url(), 1) {
        assert_eq!(result.model.version(), 5);
        assert!(is_precise(&result), "{:?}", result.mean);
    }
}

/// Four parties do so many rounds and leave; the last result of each.
fn rounds_of_everybody(pki: &Pki, url: &str, rounds: usize) -> Vec<RoundResult> {
    let parties = ["a", "b", "c", "d"].map(|name| {
        let config = party_config(url, pki.party(name));
        std::thread::spawn(move || {
            let mut party = Party::join(config).unwrap();
            let results = (0..rounds).map(|_| {
                let mut round = party.next_round().unwrap().unwrap();
                round.submit(UPDATE.to_vec(), 1).unwrap();
                round.result().unwrap()
            });
            results.last().unwrap()
        })
    });
    parties.map(|party| party.join().unwrap()).into()
}
