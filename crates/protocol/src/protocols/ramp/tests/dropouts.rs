//! Sums with parties lost at every stage, exactly as many as are tolerated and one more.

use super::*;
use crate::{Fault, Fixed64, Quantised, SuiteName};

/// Runs a round where parties are lost before their answer of `stage` arrives.
fn run(spec: JobSpec, stage: u8, lost: &[u32]) -> Result<(), Fault> {
    let mut rig = Rig::at(spec, stage);
    rig.drop_out(parties(lost.iter().copied()));
    let outcome = rig.finish()?;
    assert_eq!(
        outcome.sum,
        Some(rig.cohort.sum_of(outcome.survivors.iter()))
    );
    assert_eq!(outcome.faults, []);
    for &party in lost {
        // Whoever shared is in the sum, whoever did not is not.
        let counted = outcome.survivors.contains(PartyId(party));
        assert_eq!(counted, stage > SHARE_VECTOR);
    }
    Ok(())
}

#[test]
fn nobody_lost() {
    for variant in VARIANTS {
        for n in [4, 5, 8, 9, 16, 20, 27] {
            run(spec(variant, n), 0, &[]).unwrap();
        }
        // Of two parties each learns the other's vector: semi-honest ones only.
        let few = if variant.1 == Adversary::Active { 3 } else { 2 };
        let few = JobSpec {
            dropout: 0.0,
            ..spec(variant, few)
        };
        run(few, 0, &[]).unwrap();
    }
}

/// Case 5: d parties lost at any boundary leave the sum of the others; one more ends the round.
#[test]
fn case_05_dropouts_at_every_stage() {
    for variant in VARIANTS {
        for stage in 0..=aggregate(variant.1) {
            run(spec(variant, 10), stage, &[3, 7]).unwrap();
            run(spec(variant, 10), stage, &[0, 9]).unwrap();
            let fault = run(spec(variant, 10), stage, &[3, 7, 8]).unwrap_err();
            let (have, need) = (7, 8);
            assert_eq!(fault.kind, FaultKind::TooFewSurvivors { have, need });
        }
    }
}

/// Case 5: some at every stage, as many as are tolerated altogether.
#[test]
fn case_05_dropouts_spread_over_the_stages() {
    for variant in VARIANTS {
        let mut rig = Rig::new(spec(variant, 20), 3);
        for stage in 0..=aggregate(variant.1) {
            rig.drop_out(parties([4 * u32::from(stage)]));
            rig.serve().unwrap();
            rig.answer_all().unwrap();
        }
        let outcome = rig.outcome.take().unwrap();
        assert_eq!(outcome.survivors.len(), 18);
        assert_eq!(
            outcome.sum,
            Some(rig.cohort.sum_of(outcome.survivors.iter()))
        );
    }
}

#[test]
fn every_field_and_suite() {
    for variant in VARIANTS {
        for dim in [1, 2, 3, 97, 1021] {
            let narrow = JobSpec {
                dim,
                ..spec(variant, 7)
            };
            let wide = JobSpec {
                encoding: Quantised {
                    bits: 32,
                    max_weight: 1000,
                    ..Default::default()
                }
                .into(),
                ..narrow.clone()
            };
            let pair = JobSpec {
                encoding: Fixed64 {
                    clip: 1000.0,
                    ..Default::default()
                }
                .into(),
                suite: SuiteName::P256,
                ..narrow.clone()
            };
            for spec in [narrow, wide, pair] {
                run(spec, SHARE_VECTOR, &[2]).unwrap();
            }
        }
    }
}

/// More than one tile of blocks, the last one cut short.
#[test]
fn many_tiles() {
    for variant in VARIANTS {
        let spec = JobSpec {
            dim: 4_007,
            ..with(spec(variant, 10), 0, 2)
        };
        run(spec, aggregate(variant.1), &[1, 2]).unwrap();
    }
}

/// Once its vector is shared, a party goes on after a restart as if nothing had happened.
#[test]
fn a_restart_at_every_stage_changes_nothing() {
    for variant in VARIANTS {
        let mut rig = Rig::new(spec(variant, 6), 11);
        while rig.outcome.is_none() {
            let ranks: Vec<PartyId> = rig.clients.keys().copied().collect();
            for party in ranks {
                let stage = rig.clients[&party].stage();
                assert_eq!(restart(&mut rig, party), stage >= Some(SHARE_VECTOR));
            }
            rig.serve().unwrap();
            rig.answer_all().unwrap();
        }
        let outcome = rig.outcome.take().unwrap();
        assert_eq!(
            outcome.sum,
            Some(rig.cohort.sum_of(outcome.survivors.iter()))
        );
        assert_eq!(outcome.survivors.len(), 6);
    }
}

/// Case 5: a threshold below n − d lets the sum be rebuilt from fewer columns, not be of fewer parties: neither does
/// the server go on with fewer, nor does a party add up the columns of fewer.
#[test]
fn case_05_a_low_threshold_opens_no_smaller_sum() {
    for variant in VARIANTS {
        let spec = with(spec(variant, 10), 7, 0);
        let too_few = FaultKind::TooFewSurvivors { have: 7, need: 8 };
        let last = aggregate(variant.1);
        run(spec.clone(), last, &[3, 7, 8]).unwrap();
        let mut rig = Rig::at(spec.clone(), SHARE_VECTOR);
        rig.drop_out(parties([3, 7, 8]));
        assert_eq!(rig.serve().unwrap_err().kind, too_few);
        let mut rig = Rig::at(spec, SHARE_VECTOR);
        rig.serve().unwrap();
        let message = rig.down[&PartyId(0)].clone();
        let mut seven = body(&message).to_vec();
        (seven[0], seven[1]) = (0b0111_1111, 0);
        let fault = rig.answer_to(PartyId(0), &with_body(&message, &seven));
        assert_eq!(fault.unwrap_err().kind, too_few);
        assert!(rig.up.is_empty(), "no sum was sent");
    }
}
