//! Results that parties alone learn.

use blindsum_math::words::Words;

use super::rules::{BOTH, assert_right, keys_of, rig, with};
use crate::testing::{Rig, body, parties, with_body};
use crate::{
    Adversary, Answer, Culprit, Mpc3, Outcome, PartyId, ResultName, RuleName, ServerIndex,
    ServerRole,
};

/// A sum that parties alone learn.
fn for_parties() -> Mpc3 {
    Mpc3 {
        result: ResultName::Parties,
        ..Mpc3::default()
    }
}

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
    let told = || {
        let mut rig = rig(with(for_parties(), Adversary::Active), 7, |_| ());
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
    let mut rig = rig(with(for_parties(), Adversary::Active), 7, |_| ());
    rig.serve().unwrap();
    rig.serve().unwrap();
    assert!(passed_on(&rig, 6) != rig.cohort.sum_of(parties(0..6)));
}

/// The sum of what goes through the coordinator's hands, for so many survivors.
fn passed_on(rig: &Rig, survivors: usize) -> Words {
    let job = rig.cohort.round.job();
    let (told, packed) = (body(&rig.down[&PartyId(1)]), job.packed_len());
    let mut sum = job.zeros();
    for from in [65, 65 + packed, 65 + 2 * packed + survivors * 32] {
        sum.add_packed(&told[from..from + packed]).unwrap();
    }
    sum
}

/// Abuse case 38: other survivors have other keys of components, also where the servers have the same keys: the coordinator
/// does not learn the difference of two results from what it passes on.
#[test]
fn case_38_other_survivors_have_other_keys_of_components() {
    let play = |without: Option<PartyId>| {
        let mut rig = rig(with(for_parties(), Adversary::Active), 7, |_| ());
        rig.drop_out(without);
        let keys = keys_of(&mut rig);
        rig.serve().unwrap();
        rig.serve().unwrap();
        let keys = keys.lock().unwrap().clone();
        (keys, rig)
    };
    let (keys, all) = play(None);
    let (again, others) = play(Some(PartyId(5)));
    assert_eq!(keys, again);
    let mut sum = passed_on(&others, 5);
    sum.add(&all.cohort.inputs[5]).unwrap();
    assert!(sum != passed_on(&all, 6));
}

/// Abuse case 38: the coordinator cannot name a party as a survivor that is none, in the place of one that is.
#[test]
fn case_38_servers_vouch_for_the_survivors_of_a_result_for_parties() {
    let told = || {
        let mut rig = rig(with(for_parties(), Adversary::Active), 7, |_| ());
        rig.drop_out([PartyId(5)]);
        rig.serve().unwrap();
        rig.serve().unwrap();
        rig
    };
    let honest = told().down[&PartyId(1)].clone();
    let mut changed = body(&honest).to_vec();
    assert_eq!(changed[0], 0b01_1111);
    changed[0] = 0b10_1111;
    let fault = told().answer_to(PartyId(1), &with_body(&honest, &changed));
    assert_eq!(fault.unwrap_err().culprit, Culprit::Server);
    assert!(told().answer_to(PartyId(1), &honest).is_ok());
}

/// Abuse case 38: a server that says another hash of a component than its other holder is found by the one that lacks it,
/// which gives nobody its word then.
#[test]
fn case_38_holders_of_a_component_say_the_same_hash() {
    let all = ServerIndex::ALL;
    for (liar, to) in all
        .into_iter()
        .flat_map(|it| [(it, it.next()), (it, it.previous())])
    {
        let mut rig = rig(with(for_parties(), Adversary::Active), 7, |_| ());
        rig.on_letter = Box::new(move |from, hears, letter| {
            let mut changed = body(&letter).to_vec();
            if (from, hears) != (liar, to) || !changed.ends_with(&2u32.to_be_bytes()) {
                return Some(letter);
            }
            changed[0] ^= 1;
            Some(with_body(&letter, &changed))
        });
        let ended = rig.finish().unwrap_err();
        let found = match ServerRole::at(to) {
            None => ended,
            Some(_) => {
                let (server, fault) = rig.server_faults.remove(0);
                assert_eq!(server, to);
                fault
            }
        };
        assert!(
            found.to_string().contains("other holder"),
            "{liar} to {to}: {found}"
        );
    }
}
