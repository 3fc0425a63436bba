//! Rounds without liars: exact sums, whoever is lost when, and whoever is started again.

use super::*;

const BOTH: [Adversary; 2] = [Adversary::SemiHonest, Adversary::Active];

/// Stages without that of disputes.
fn stages(adversary: Adversary) -> u8 {
    match adversary {
        Adversary::SemiHonest => 4,
        Adversary::Active => 6,
    }
}

#[test]
fn sums_of_honest_parties_are_exact_and_nobody_is_accused() {
    for adversary in BOTH {
        let [with_norm, norm_alone] = specs(adversary);
        let without = spec(adversary, 0.0);
        let jobs = [
            (&without, [1, 2, 7]),
            (&with_norm, [1, 7, 13]),
            (&norm_alone, [1, 7, 13]),
        ];
        let jobs = jobs
            .iter()
            .flat_map(|(spec, dims)| dims.map(|dim| (*spec, dim)));
        for (spec, dim) in jobs {
            let spec = JobSpec {
                dim,
                ..spec.clone()
            };
            let mut rig = rig(spec, 3, &[]);
            let outcome = rig.finish().unwrap();
            assert_sum(&rig, &outcome, &[]);
            assert_eq!(outcome.faults, []);
        }
    }
}

#[test]
fn case_05_a_party_that_is_lost_at_any_stage() {
    for spec in BOTH.into_iter().flat_map(specs) {
        for stage in 0..stages(spec.adversary) {
            let mut rig = rig_at(spec.clone(), &[], stage);
            rig.drop_out(parties([4]));
            let outcome = rig.finish().unwrap();
            let without: &[u32] = if stage <= SHARE { &[4] } else { &[] };
            assert_sum(&rig, &outcome, without);
        }
    }
}

#[test]
fn case_05_too_many_that_are_lost_end_the_round_with_a_name() {
    for adversary in BOTH {
        for stage in 0..stages(adversary) {
            let mut rig = rig_at(spec(adversary, 0.5), &[], stage);
            rig.drop_out(parties(0..5));
            let fault = rig.finish().unwrap_err();
            assert!(
                matches!(fault.kind, FaultKind::TooFewSurvivors { .. }),
                "{stage}: {fault}"
            );
        }
    }
}

#[test]
fn case_03_parties_that_are_started_again_say_the_same() {
    for spec in BOTH.into_iter().flat_map(specs) {
        for stage in SHARE..stages(spec.adversary) + 1 {
            // A liar, so that there is a dispute to be started again in.
            let lies = [(2, Deviation::WrongShare(vec![PartyId(5)]))];
            let mut rig = rig(spec.clone(), 7, &lies);
            for _ in 0..stage {
                rig.serve().unwrap();
                rig.answer_all().unwrap();
            }
            for party in [0, 5, 11] {
                assert!(restart(&mut rig, PartyId(party)), "{stage}");
            }
            let outcome = rig.finish().unwrap();
            assert_sum(&rig, &outcome, &[2]);
            assert_eq!(found(&outcome), [(2, "wrong-share")]);
        }
    }
}
