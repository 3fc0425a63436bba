//! Key set-ups.

use std::sync::Arc;

use super::*;
use crate::protocols::flashe::setup::{ListedAdvert, adverts_of};
use crate::testing::Cohort;
use crate::{Adversary, Culprit, Flashe, MemoryVault, Round};

const ADVERTISE: u8 = 0;
const DELIVER: u8 = 1;
const CONFIRM: u8 = 2;

/// A first key set-up where everything has happened up to the answers of a stage.
fn at(spec: JobSpec, stage: u8) -> Rig {
    let mut rig = Rig::first_key_setup(spec, 7);
    for _ in 0..stage {
        rig.serve().unwrap();
        rig.answer_all().unwrap();
    }
    rig
}

#[test]
fn everybody_gets_one_key() {
    for adversary in [Adversary::SemiHonest, Adversary::Active] {
        let mut setup = Rig::first_key_setup(
            JobSpec {
                adversary,
                ..spec(5)
            },
            7,
        );
        assert_eq!(key_id(&setup, 0, 2), None);
        let holders = hold(&mut setup);
        let everybody = PartySet::of(5, parties(0..5));
        assert_eq!(holders.len(), 5);
        assert!(holders.values().all(|set| *set == everybody));
        let id = key_id(&setup, 0, 2);
        assert!(id.is_some());
        assert!((1..5).all(|party| key_id(&setup, party, 2) == id));
        // Not in the set-up's own round or before.
        assert_eq!(key_id(&setup, 0, 1), None);
        sum(&mut setup.again(2)).unwrap();
    }
}

/// Once nothing is to be sealed any more. The leader seals in its answer to everybody's fresh keys.
#[test]
fn a_restart_at_every_stage_changes_nothing() {
    let mut rig = Rig::first_key_setup(spec(4), 7);
    for stage in ADVERTISE..=CONFIRM {
        for party in parties(0..4) {
            assert_eq!(restart(&mut rig, party), stage >= DELIVER);
        }
        rig.serve().unwrap();
        rig.answer_all().unwrap();
    }
    sum(&mut rig.again(2)).unwrap();
}

/// Its process is killed when the key is in the vault, and before its answer is written down: that set-up is lost.
#[test]
fn a_leader_that_restarts_delivers_the_key_it_made() {
    let mut rig = Rig::first_key_setup(spec(4), 7);
    rig.serve().unwrap();
    rig.answer(PartyId(0)).unwrap();
    let made = key_id(&rig, 0, 2).unwrap();
    let mut next = rig.key_setup(2);
    hold(&mut next);
    assert!((0..4).all(|party| key_id(&next, party, 3) == Some(made)));
}

#[test]
fn dropouts_at_every_stage() {
    for stage in [ADVERTISE, DELIVER, CONFIRM] {
        let mut rig = at(spec(5), stage);
        rig.drop_out(parties([2, 4]));
        let holders = hold(&mut rig);
        assert_eq!(holders.len(), 3);
        let mut round = {
            let cohort = rig.cohort.begin(
                Round::new(
                    rig.cohort.round.job().clone(),
                    2,
                    rig.cohort.round.roster().clone(),
                    &[9; 32],
                )
                .unwrap(),
            );
            Rig::of_parties(cohort, rig.rng.clone(), &[0, 1, 3])
        };
        let (_, survivors) = sum(&mut round).unwrap();
        assert_eq!(survivors, PartySet::of(5, parties([0, 1, 3])));
    }
}

#[test]
fn without_its_leader_a_set_up_fails_and_the_next_one_goes_on() {
    let mut rig = at(spec(5), DELIVER);
    rig.drop_out([PartyId(0)]);
    let (have, need) = (0, 1);
    let fault = rig.serve().unwrap_err();
    assert_eq!(fault.kind, FaultKind::TooFewSurvivors { have, need });
    // The lost leader had made a key. It holds it alone, and delivers it where it is back.
    let made = key_id(&rig, 0, 3);
    assert!(made.is_some());
    let mut again = rig.key_setup(2);
    hold(&mut again);
    assert!((0..5).all(|party| key_id(&again, party, 3) == made));
}

#[test]
fn a_late_joiner_gets_the_key_from_a_party() {
    let mut first = Rig::first_key_setup(spec(5), 7);
    hold(&mut first);
    let id = key_id(&first, 0, 4);
    // Party 0 has lost what it had; it would be the leader of a new job.
    let mut cohort: Cohort = first.cohort.begin(
        Round::key_setup(
            first.cohort.round.job().clone(),
            3,
            first.cohort.round.roster().clone(),
        )
        .unwrap(),
    );
    cohort.vaults[0] = Arc::new(MemoryVault::default());
    let mut rig = Rig::of_parties(cohort, first.rng.clone(), &[0, 1, 2, 3, 4]);
    hold(&mut rig);
    assert!((0..5).all(|party| key_id(&rig, party, 4) == id));
    sum(&mut rig.again(4)).unwrap();
    // It cannot be led back to rounds before it got the key again.
    let mut rng = rig.rng.clone();
    let old = rig.again(5).cohort.begin(
        Round::new(
            rig.cohort.round.job().clone(),
            2,
            rig.cohort.round.roster().clone(),
            &[9; 32],
        )
        .unwrap(),
    );
    let input = crate::testing::Given(&old.inputs[0]);
    let Err(fault) = crate::Client::start(old.setup(PartyId(0)), Some(&input), &mut rng) else {
        panic!("round 2 was before");
    };
    assert!(
        matches!(fault.kind, FaultKind::RoundUsed { round: 2, .. }),
        "{fault}"
    );
}

/// A server that begins a set-up with a number of long ago, and has a key delivered to a party that holds it, does
/// not spoil what the party keeps: neither may it encrypt twice, nor is it locked out for good.
#[test]
fn a_set_up_from_long_ago_spoils_nothing() {
    let semi_honest = JobSpec {
        adversary: Adversary::SemiHonest,
        ..spec(4)
    };
    let mut first = Rig::first_key_setup(semi_honest, 7);
    hold(&mut first);
    let id = key_id(&first, 2, 9);
    sum(&mut first.again(8)).unwrap();
    let mut rig = first.key_setup(3);
    rig.serve().unwrap();
    let message = rig.down[&PartyId(0)].clone();
    let hidden = adverts_of(body(&message), |list| list[2].1.clear());
    rig.down.insert(PartyId(0), with_body(&message, &hidden));
    rig.answer_all().unwrap();
    hold(&mut rig);
    assert_eq!(key_id(&rig, 2, 9), id);
    let (mut rng, input) = (rig.rng.clone(), &rig.cohort.inputs[2]);
    let again = rig.cohort.begin(numbered(&rig, 8)).setup(PartyId(2));
    let again = crate::Client::start(again, Some(&crate::testing::Given(input)), &mut rng);
    let kind = FaultKind::RoundUsed { round: 8, next: 9 };
    assert_eq!(again.map(drop), Err(Fault::caller(kind)));
    sum(&mut rig.again(9)).unwrap();
}

fn numbered(rig: &Rig, number: u64) -> Round {
    let (job, roster) = (rig.cohort.round.job(), rig.cohort.round.roster());
    Round::new(job.clone(), number, roster.clone(), &[9; 32]).unwrap()
}

#[test]
fn keys_are_replaced_after_their_rounds() {
    let mut setup = Rig::first_key_setup(
        JobSpec {
            protocol: Flashe {
                key_rounds: 3,
                ..Default::default()
            }
            .into(),
            ..spec(3)
        },
        7,
    );
    hold(&mut setup);
    let first = key_id(&setup, 1, 4);
    assert!(first.is_some());
    assert_eq!(key_id(&setup, 1, 5), None);
    let mut next = setup.key_setup(4);
    hold(&mut next);
    let second = key_id(&next, 1, 5);
    assert!(second.is_some() && second != first);
    sum(&mut next.again(5)).unwrap();
}

/// Abuse case 7: fresh keys that the server changes, repeats or leaves out.
#[test]
fn case_07_changed_fresh_keys() {
    type Change = fn(&mut Vec<ListedAdvert>);
    let cases: [(Change, &str); 6] = [
        (
            |list| drop(list.remove(2)),
            "does not list the key that this party sent",
        ),
        (
            |list| list[2].2 = list[3].2.clone(),
            "unusable key of party 3: it is also a key of party 2",
        ),
        (|list| list[3].2 = vec![0; 32], "unusable key of party 3"),
        (|list| list.swap(0, 1), "parties must ascend"),
        (|list| list[4].0 = 5, "party 5 is not in the roster"),
        (|list| list[1].1 = vec![7; 3], "0 or 16 bytes, not 3"),
    ];
    for (change, text) in cases {
        let spec = JobSpec {
            adversary: Adversary::SemiHonest,
            ..spec(5)
        };
        let mut rig = Rig::first_key_setup(spec, 7);
        rig.serve().unwrap();
        let message = rig.down[&PartyId(2)].clone();
        let changed = adverts_of(body(&message), change);
        let fault = rig
            .answer_to(PartyId(2), &with_body(&message, &changed))
            .unwrap_err();
        assert_eq!(fault.culprit, Culprit::Server);
        assert!(fault.to_string().contains(text), "{fault}");
        assert_ended(&mut rig, PartyId(2));
    }
}

/// Abuse case 7: what is signed is the fresh key and the name of the key that is held. Each party checks its own
/// signature and the leader's; the leader also those of all that it seals to.
#[test]
fn case_07_signed_fresh_keys() {
    type Change = fn(&mut Vec<ListedAdvert>);
    // Whom the list is shown to, what is changed in it, and whose signature does not fit then.
    let cases: [(u32, Change, u32); 6] = [
        (2, |list| list[0].2 = vec![9; 32], 0),
        (2, |list| list[0].1 = vec![9; 16], 0),
        (2, |list| list[2].1 = vec![9; 16], 2),
        (0, |list| list[3].2 = vec![9; 32], 3),
        (0, |list| list[3].3[5] ^= 1, 3),
        (0, |list| list[0].1 = vec![9; 16], 0),
    ];
    for (shown, change, signer) in cases {
        let (shown, signer) = (PartyId(shown), PartyId(signer));
        let mut rig = Rig::first_key_setup(spec(5), 7);
        rig.serve().unwrap();
        let message = rig.down[&shown].clone();
        let other = adverts_of(body(&message), change);
        let refused = rig.answer_to(shown, &with_body(&message, &other));
        assert_eq!(
            refused.unwrap_err(),
            Fault::server(FaultKind::BadSignature { signer })
        );
        assert!(!rig.up.contains_key(&shown), "no key was sealed");
        assert_ended(&mut rig, shown);
    }
}

/// Signatures that nobody relies on are not checked: n parties check 3n signatures together, not n².
#[test]
fn who_does_not_lead_checks_two_signatures() {
    let mut rig = Rig::first_key_setup(spec(5), 7);
    rig.serve().unwrap();
    let message = rig.down[&PartyId(2)].clone();
    let other = adverts_of(body(&message), |list| list[3].3[5] ^= 1);
    let answer = rig.answer_to(PartyId(2), &with_body(&message, &other));
    assert!(matches!(answer, Ok(Answer::Wait)));
}

/// A leader that delivers another key than the one that it said it holds.
#[test]
fn case_07_another_key_than_the_leader_named() {
    let mut first = Rig::first_key_setup(spec(5), 7);
    hold(&mut first);
    let mut others = Rig::first_key_setup(spec(5), 8);
    hold(&mut others);
    let mut rig = first.key_setup(3);
    let (leader, lacking) = (PartyId(0), PartyId(3));
    rig.cohort.vaults[lacking.rank()] = Arc::new(MemoryVault::default());
    let mut rig = Rig::of_parties(rig.cohort, rig.rng, &[0, 1, 2, 3, 4]);
    rig.serve().unwrap();
    let other = others.cohort.vaults[0].read().unwrap();
    let vault = &rig.cohort.vaults[leader.rank()];
    vault.write(&other.contents.unwrap(), other.mark).unwrap();
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    let fault = rig.answer(lacking).unwrap_err();
    assert_eq!(fault, Fault::party(leader, FaultKind::OtherKey));
    assert_eq!(key_id(&rig, lacking.0, 4), None);
}

/// Abuse case 8: a sealed key that is delivered to another party, or changed.
#[test]
fn case_08_moved_sealed_keys() {
    let mut rig = at(spec(5), DELIVER);
    rig.serve().unwrap();
    let (leader, one, other) = (PartyId(0), PartyId(1), PartyId(2));
    let moved = rig.down[&other].clone();
    let fault = rig.answer_to(one, &moved).unwrap_err();
    assert_eq!(
        fault,
        Fault::server_or(leader, FaultKind::Sealed { from: leader })
    );
    assert_ended(&mut rig, one);
    let mut changed = body(&moved).to_vec();
    changed[20] ^= 1;
    let fault = rig
        .answer_to(other, &with_body(&moved, &changed))
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::Sealed { from: leader });
    // What is sealed for a party does not come back to the leader.
    let fault = rig.answer_to(leader, &moved).unwrap_err();
    assert!(
        fault.to_string().contains("the leader is sent a key"),
        "{fault}"
    );
    assert_eq!(key_id(&rig, 1, 2), None);
    // The key of an earlier set-up does not open in a later one.
    let mut later = rig.key_setup(2);
    later.serve().unwrap();
    later.answer_all().unwrap();
    later.serve().unwrap();
    let now = later.down[&one].clone();
    let fault = later
        .answer_to(one, &with_body(&now, body(&moved)))
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::Sealed { from: leader });
}

/// Abuse case 27: bytes that are no message of the set-up.
#[test]
fn case_27_malformed_messages() {
    for stage in [ADVERTISE, DELIVER, CONFIRM] {
        let mut rig = at(spec(5), stage);
        let party = *rig.up.keys().next().unwrap();
        let honest = rig.up[&party].clone();
        let longer = [body(&honest), &[0]].concat();
        for wrong in [
            &[][..],
            &[0xff; 3],
            &body(&honest)[1..],
            &longer,
            &vec![0xbf; 5000],
        ] {
            let fault = rig.receive(party, &with_body(&honest, wrong)).unwrap_err();
            assert_eq!(fault.culprit, Culprit::Party(party), "stage {stage}");
        }
        rig.receive(party, &honest).unwrap();
        hold(&mut rig);
    }
}

/// Abuse case 27: a delivery to somebody who has not advertised a key.
#[test]
fn case_27_a_delivery_to_a_stranger() {
    let mut rig = at(spec(5), ADVERTISE);
    rig.drop_out([PartyId(4)]);
    rig.serve().unwrap();
    rig.answer_all().unwrap();
    let mut delivery = body(&rig.up[&PartyId(0)]).to_vec();
    // The last entry is party 3's: `party: u32 ‖ length ‖ sealed key`.
    let at = delivery.len() - (4 + 4 + 56);
    delivery[at + 3] = 4;
    let message = with_body(&rig.up[&PartyId(0)].clone(), &delivery);
    let fault = rig.receive(PartyId(0), &message).unwrap_err();
    assert!(
        fault
            .to_string()
            .contains("party 4 has not advertised a key"),
        "{fault}"
    );
}

#[test]
fn who_confirms_another_key_is_left_out() {
    let mut rig = at(spec(5), CONFIRM);
    let message = rig.up[&PartyId(3)].clone();
    rig.up.insert(PartyId(3), with_body(&message, &[5; 32]));
    rig.serve().unwrap();
    let outcome = rig.outcome.clone().unwrap();
    assert_eq!(outcome.survivors, PartySet::of(5, parties([0, 1, 2, 4])));
    let expected = Fault::party(PartyId(3), FaultKind::OtherKey);
    assert_eq!(outcome.faults, [expected]);
    let fault = rig.answer(PartyId(3)).unwrap_err();
    assert_eq!(fault, Fault::server(FaultKind::OtherKey));
    assert!(matches!(rig.answer(PartyId(0)), Ok(Answer::KeyHeld(_))));
}

/// A server that hides who holds the key, which is noticed where it is signed, gets another one made; nobody gets a
/// key from it.
#[test]
fn a_server_that_hides_the_holders() {
    let semi_honest = JobSpec {
        adversary: Adversary::SemiHonest,
        ..spec(5)
    };
    let mut first = Rig::first_key_setup(semi_honest, 7);
    hold(&mut first);
    let before = key_id(&first, 0, 4);
    let mut rig = first.key_setup(3);
    rig.serve().unwrap();
    for party in parties(0..5) {
        let message = rig.down[&party].clone();
        let hidden = adverts_of(body(&message), |list| {
            list.iter_mut().for_each(|entry| entry.1.clear());
        });
        rig.down.insert(party, with_body(&message, &hidden));
    }
    rig.answer_all().unwrap();
    // Party 0 holds a key that serves the next round: it delivers that one.
    hold(&mut rig);
    assert!((0..5).all(|party| key_id(&rig, party, 4) == before));
}

/// A server that says another tag than the party's makes it out to hold another key than the others.
#[test]
fn another_tag_than_the_own_is_another_key() {
    let mut rig = at(spec(5), CONFIRM);
    rig.serve().unwrap();
    let message = rig.down[&PartyId(1)].clone();
    let mut changed = body(&message).to_vec();
    changed[1] ^= 1;
    let fault = rig
        .answer_to(PartyId(1), &with_body(&message, &changed))
        .unwrap_err();
    assert_eq!(fault, Fault::server(FaultKind::OtherKey));
    assert_ended(&mut rig, PartyId(1));
}

/// Only who lacks the key is sent it.
#[test]
fn holders_are_not_sent_the_key_again() {
    let mut first = Rig::first_key_setup(spec(5), 7);
    hold(&mut first);
    let (job, roster) = (first.cohort.round.job(), first.cohort.round.roster());
    let round = Round::key_setup(job.clone(), 3, roster.clone()).unwrap();
    let mut cohort = first.cohort.begin(round);
    cohort.vaults[3] = Arc::new(MemoryVault::default());
    let mut rig = Rig::of_parties(cohort, first.rng.clone(), &[0, 1, 2, 3, 4]);
    rig.serve().unwrap();
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    let lengths = rig.down.values().map(|message| body(message).len());
    // A length, and the sealed key of 40 bytes with its tag.
    assert_eq!(lengths.collect::<Vec<_>>(), [4, 4, 4, 60, 4]);
}

/// Who has nothing to say to the list of keys has nothing to say to it again.
#[test]
fn a_message_without_an_answer_is_old_when_it_comes_again() {
    let mut rig = at(spec(5), ADVERTISE);
    rig.serve().unwrap();
    let party = PartyId(2);
    assert!(matches!(rig.answer(party), Ok(Answer::Wait)));
    assert!(matches!(rig.answer(party), Ok(Answer::Old)));
    assert!(rig.clients[&party].latest().is_empty());
    // The leader says the same again.
    assert!(matches!(rig.answer(PartyId(0)), Ok(Answer::Send(_))));
    assert!(matches!(rig.answer(PartyId(0)), Ok(Answer::Send(_))));
    rig.answer_all().unwrap();
    hold(&mut rig);
}
