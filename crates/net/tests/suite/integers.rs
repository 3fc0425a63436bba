//! Exact sums of integers over real connections.

use crate::common::*;
use blindsum_net::party::{Party, Update};
use blindsum_net::{JobError, NetError};
use blindsum_protocol::{Integers, JobSpec, ModelUpdate, ProtocolName};

fn integers(protocol: ProtocolName) -> JobSpec {
    JobSpec {
        encoding: Integers {
            bits: 64,
            max_weight: 1,
        }
        .into(),
        dropout: 0.0,
        min_parties: 3,
        model_update: ModelUpdate::Nothing,
        ..spec(protocol, 3)
    }
}

#[test]
fn everybody_learns_the_exact_sums() {
    for protocol in [ProtocolName::Plain, ProtocolName::SecAgg] {
        let pki = Pki::new(1);
        let coordinator = Running::start(&pki, vec![integers(protocol)], None);
        let parties: Vec<_> = ["a", "b", "c"]
            .iter()
            .map(|name| {
                let values = vec![u64::MAX, 1 << 53, 1, 0, 7];
                run_party(
                    party_config(&coordinator.url(), pki.party(name)),
                    move |_| values.clone(),
                )
            })
            .collect();
        for party in parties {
            let rounds = party.join().unwrap().unwrap();
            let round = rounds[0].as_ref().unwrap();
            let sums = vec![3 * u128::from(u64::MAX), 3 << 53, 3, 0, 21];
            let mean = [(1_u128 << 64) as f64, (1_u64 << 53) as f64, 1.0, 0.0, 7.0];
            assert_eq!(round.sums.as_ref(), Some(&sums), "{protocol}");
            assert_eq!(round.mean, mean, "{protocol}");
            assert_eq!(round.total_weight, 3);
            assert_eq!(round.model.values().len(), 0);
        }
        coordinator.stop().unwrap();
    }
}

/// What does not fit is refused before anything is sent, and something else may be submitted.
#[test]
fn updates_of_the_wrong_kind_are_refused() {
    let pki = Pki::new(2);
    let spec = JobSpec {
        parties: 2,
        min_parties: 2,
        encoding: Integers {
            bits: 8,
            max_weight: 1,
        }
        .into(),
        ..integers(ProtocolName::Plain)
    };
    let coordinator = Running::start(&pki, vec![spec], None);
    let other = run_party(party_config(&coordinator.url(), pki.party("a")), |_| {
        vec![1_u32; 5]
    });
    let mut party = Party::join(party_config(&coordinator.url(), pki.party("b"))).unwrap();
    let mut round = party.next_round().unwrap().unwrap();
    for (update, text) in [
        (Update::from(vec![1.0_f32; 5]), "not floating-point"),
        (
            vec![1_u64, 1, 256, 1, 1].into(),
            "coordinate 2 must be < 2^8",
        ),
        (vec![1_u64; 4].into(), "4 coordinates"),
    ] {
        match round.submit(update, 1) {
            Err(NetError::Job(JobError::Input(rule))) => assert!(rule.contains(text), "{rule}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    round.submit(vec![255_u64; 5], 1).unwrap();
    let sums = round.result().unwrap().sums.unwrap();
    assert_eq!(sums, [256; 5]);
    other.join().unwrap().unwrap();
    coordinator.stop().unwrap();
}
