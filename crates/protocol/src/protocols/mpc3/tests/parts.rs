//! Results that parties alone learn.

use super::rules::{BOTH, assert_right, rig, with};
use crate::testing::{body, parties, with_body};
use crate::{Adversary, Answer, Mpc3, Outcome, PartyId, ResultName, RuleName};

/// What parties alone are told, of a sum and of a rule: the right result, which no server has.
#[test]
fn parties_alone_learn_the_result() {
    for adversary in BOTH {
        for rule in [RuleName::FedAvg, RuleName::Clipped, RuleName::Median] {
            let options = Mpc3 {
                rule,
                result: ResultName::Parties,
                ..Mpc3::default()
            };
            let mut rig = rig(with(options, adversary), 7, |_| ());
            let mut told = Vec::new();
            rig.serve().unwrap();
            rig.serve().unwrap();
            let outcome = rig.outcome.take().unwrap();
            assert_eq!(outcome.sum, None);
            for party in parties(0..6) {
                let Ok(Answer::Done(sum)) = rig.answer(party) else {
                    panic!("{rule} {adversary}: no result");
                };
                told.push(sum.sum);
            }
            assert!(told.iter().all(|it| *it == told[0]));
            let sum = Some(told[0].clone());
            match rule {
                RuleName::FedAvg => assert_eq!(sum, Some(rig.cohort.sum_of(parties(0..6)))),
                _ => assert_right(&rig, &Outcome { sum, ..outcome }, rule.as_str()),
            }
        }
    }
}

/// Abuse case 38: whatever the coordinator changes of what parties alone learn, they take no other result; and what one
/// party is told is of no use to another one.
#[test]
fn case_38_a_result_for_parties_is_not_changed_on_its_way() {
    let options = || Mpc3 {
        result: ResultName::Parties,
        ..Mpc3::default()
    };
    let told = || {
        let mut rig = rig(with(options(), Adversary::Active), 7, |_| ());
        rig.serve().unwrap();
        rig.serve().unwrap();
        rig
    };
    let honest = told().down[&PartyId(1)].clone();
    let length = body(&honest).len();
    // Survivors, salts, two components; tags of the second server, component 2, its keys; tags of the third server.
    let packed = told().cohort.round.job().packed_len();
    let (tags, keys) = (1 + 64 + 2 * packed, 1 + 64 + 3 * packed + 6 * 32);
    let of_another =
        |at: usize, from: usize| (from..from + 6 * 32).contains(&at) && (at - from) / 32 != 1;
    for at in 0..length {
        let harmless =
            of_another(at, tags) || of_another(at, keys) || of_another(at, length - 6 * 32);
        let mut changed = body(&honest).to_vec();
        changed[at] ^= 1;
        let answer = told().answer_to(PartyId(1), &with_body(&honest, &changed));
        assert_eq!(answer.is_ok(), harmless, "byte {at} of {length}");
    }
    let mut rig = told();
    rig.parts.clear();
    let cut = with_body(&honest, &body(&honest)[..length - 1]);
    assert!(rig.answer_to(PartyId(1), &cut).is_err());
}

/// Abuse case 38: what goes through the coordinator's hands is not the result: the third component is masked.
#[test]
fn case_38_the_coordinator_does_not_learn_what_parties_learn() {
    let options = Mpc3 {
        result: ResultName::Parties,
        ..Mpc3::default()
    };
    let mut rig = rig(with(options, Adversary::Active), 7, |_| ());
    rig.serve().unwrap();
    rig.serve().unwrap();
    let job = rig.cohort.round.job().clone();
    let (told, packed) = (body(&rig.down[&PartyId(1)]), job.packed_len());
    let mut sum = job.zeros();
    for from in [65, 65 + packed, 65 + 2 * packed + 6 * 32] {
        sum.add_packed(&told[from..from + packed]).unwrap();
    }
    assert!(sum != rig.cohort.sum_of(parties(0..6)));
}
