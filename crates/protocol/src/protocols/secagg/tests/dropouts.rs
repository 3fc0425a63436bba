//! Sums with parties lost at every stage, exactly as many as are tolerated and one more.

use super::*;
use crate::{Fault, Fixed64, Quantised};

const VARIANTS: [(ProtocolName, Adversary); 4] = [
    (ProtocolName::SecAgg, Adversary::SemiHonest),
    (ProtocolName::SecAgg, Adversary::Active),
    (ProtocolName::SecAggPlus, Adversary::SemiHonest),
    (ProtocolName::SecAggPlus, Adversary::Active),
];

/// Runs a round where parties are lost before their answer of `stage` arrives.
fn run(spec: JobSpec, stage: u8, lost: &[u32]) -> Result<(), Fault> {
    let mut rig = Rig::at(spec, stage);
    rig.drop_out(parties(lost.iter().copied()));
    let outcome = rig.finish()?;
    assert_eq!(
        outcome.sum,
        Some(rig.cohort.sum_of(outcome.survivors.iter()))
    );
    let counted = |party: &u32| outcome.survivors.contains(PartyId(*party));
    // Whoever uploaded is in the sum, whoever did not is not.
    assert_eq!(
        lost.iter().all(counted),
        stage > MASKED_INPUT || lost.is_empty()
    );
    assert_eq!(
        lost.iter().any(counted),
        stage > MASKED_INPUT && !lost.is_empty()
    );
    Ok(())
}

#[test]
fn nobody_lost() {
    for (protocol, adversary) in VARIANTS {
        for n in [3, 5, 20] {
            run(spec(protocol, adversary, n), 0, &[]).unwrap();
        }
        // Of two parties each learns the other's vector: semi-honest ones only.
        let two = spec(protocol, adversary, 2);
        match adversary {
            Adversary::SemiHonest => run(two, 0, &[]).unwrap(),
            Adversary::Active => assert_eq!(two.validate().unwrap_err().field, "parties"),
        }
    }
}

#[test]
fn p256_suite_and_64_bit_words() {
    let base = active(6);
    run(
        JobSpec {
            suite: crate::SuiteName::P256,
            ..base.clone()
        },
        2,
        &[1],
    )
    .unwrap();
    let fixed = JobSpec {
        encoding: Fixed64 {
            clip: 1000.0,
            ..Default::default()
        }
        .into(),
        ..base.clone()
    };
    run(fixed, 2, &[1]).unwrap();
    run(
        JobSpec {
            encoding: Quantised {
                bits: 32,
                max_weight: 1000,
                ..Default::default()
            }
            .into(),
            ..base
        },
        2,
        &[1],
    )
    .unwrap();
}

/// Case 5: d losses at any stage give the exact sum, d + 1 a named abort.
#[test]
fn case_05_dropouts_at_every_stage() {
    for (protocol, adversary) in VARIANTS {
        let spec = spec(protocol, adversary, 10);
        let tolerated = 10
            - match adversary {
                Adversary::Active => 7,
                Adversary::SemiHonest => 6,
            };
        let stages = spec.clone().validate().unwrap().plan().answers().count() as u8;
        for stage in 0..stages {
            let lost: Vec<u32> = (0..tolerated).map(|i| (3 * i + 1) % 10).collect();
            run(spec.clone(), stage, &lost).unwrap();
            let lost: Vec<u32> = (0..=tolerated).map(|i| (3 * i + 1) % 10).collect();
            let fault = run(spec.clone(), stage, &lost).unwrap_err();
            assert!(
                matches!(fault.kind, FaultKind::TooFewSurvivors { .. }),
                "{fault}"
            );
        }
    }
}

/// Losses at several stages of one round add up.
#[test]
fn case_05_dropouts_spread_over_the_stages() {
    let mut rig = Rig::at(active(13), 0);
    for lost in [0u32, 1, 2, 3] {
        rig.drop_out(parties([lost]));
        rig.serve().unwrap();
        rig.answer_all().unwrap();
    }
    let outcome = rig.finish().unwrap();
    let expected: Vec<PartyId> = parties(3..13).collect();
    assert_eq!(outcome.survivors.iter().collect::<Vec<_>>(), expected);
    assert_eq!(outcome.sum, Some(rig.cohort.sum_of(expected)));
}

/// A sparse graph: 60 parties, fewer neighbours than parties, several lost.
#[test]
fn sparse_graph_with_losses() {
    let spec = JobSpec {
        corrupt: 0.05,
        ..spec(ProtocolName::SecAggPlus, Adversary::SemiHonest, 60)
    };
    let mut rig = Rig::at(spec, MASKED_INPUT);
    let graph = super::super::graph_of(&rig.cohort.round);
    assert!(graph.parameters().neighbours() < 59);
    rig.drop_out(parties([3, 14, 15, 58]));
    let outcome = rig.finish().unwrap();
    assert_eq!(outcome.survivors.len(), 56);
    assert_eq!(
        outcome.sum,
        Some(rig.cohort.sum_of(outcome.survivors.iter()))
    );
}

/// Case 4: a server that goes on with too few cannot make clients reveal anything, neither with fewer than rebuild
/// a secret nor with fewer than the job's minimum.
#[test]
fn case_04_clients_refuse_too_few_survivors() {
    for (min_parties, few, need) in [(0, 6, 7), (8, 7, 8)] {
        let spec = JobSpec {
            min_parties,
            ..active(9)
        };
        let mut rig = Rig::at(spec, MASKED_INPUT);
        rig.serve().unwrap();
        let set = crate::PartySet::of(9, parties(0..few));
        for party in parties(0..few) {
            let message = with_body(&rig.down[&party], set.as_bitmap());
            let fault = rig.answer_to(party, &message).unwrap_err();
            let have = few as usize;
            assert_eq!(fault.kind, FaultKind::TooFewSurvivors { have, need });
            assert_ended(&mut rig, party);
        }
        assert!(rig.up.is_empty());
    }
}
