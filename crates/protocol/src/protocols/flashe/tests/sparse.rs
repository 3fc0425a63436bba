//! Sparse rounds of parties that hold the key.

use blindsum_he::flashe::sparse::{EncryptedSparseSum, SparseMask};

use super::*;
use crate::protocols::flashe::sparse_rounds::{list_of_places, with_places};
use crate::testing::Given;
use crate::{Client, Culprit, Flashe, Masking, Quantised, SparseInput};

const MASKINGS: [Masking; 3] = [Masking::Cheaper, Masking::Double, Masking::Single];

fn sparse(masking: Masking, parties: u32) -> JobSpec {
    JobSpec {
        protocol: Flashe {
            masking,
            density: 0.4,
            ..Default::default()
        }
        .into(),
        ..spec(parties)
    }
}

/// Ends the round whose ciphertexts are on their way: all survivors find the sum in the clear.
fn finish(rig: &mut Rig, least: u32) -> Result<PartySet, Fault> {
    rig.serve()?;
    let outcome = rig.outcome.clone().unwrap();
    assert_eq!(outcome.sum, None);
    assert_eq!(rig.down.len(), outcome.survivors.len());
    let expected = rig.cohort.opened(&outcome.survivors, least);
    for party in outcome.survivors.iter() {
        match rig.answer(party)? {
            Answer::Done(sum) => assert_eq!(sum, expected),
            other => panic!("{other:?} instead of the sum"),
        }
    }
    Ok(outcome.survivors)
}

/// A round whose masks were listed: the server's message about them is on its way.
fn listed(held: &Rig, number: u64) -> Rig {
    let mut rig = held.again(number);
    rig.serve().unwrap();
    rig
}

/// A round whose ciphertexts are on their way.
fn uploaded(held: &Rig, number: u64) -> Rig {
    let mut rig = listed(held, number);
    rig.answer_all().unwrap();
    rig
}

#[test]
fn sums_are_exact_whoever_drops_out_in_either_stage() {
    for masking in MASKINGS {
        let held = rig(sparse(masking, 4));
        for pattern in 0..81_u64 {
            let lost_in = |party: u32| pattern / 3_u64.pow(party) % 3;
            let lost = |stage| parties((0..4).filter(move |&party| lost_in(party) == stage));
            let mut rig = held.again(3 + pattern);
            rig.drop_out(lost(0));
            if 4 - lost(0).count() < 2 {
                rig.serve().unwrap_err();
                continue;
            }
            rig.serve().unwrap();
            rig.answer_all().unwrap();
            rig.drop_out(lost(1));
            match finish(&mut rig, 2) {
                Ok(survivors) => assert_eq!(survivors, PartySet::of(4, lost(2))),
                Err(fault) => {
                    let have = lost(2).count();
                    assert!(have < 2);
                    assert_eq!(fault.kind, FaultKind::TooFewSurvivors { have, need: 2 });
                }
            }
        }
    }
}

#[test]
fn sums_are_exact_at_every_width() {
    for bits in [6, 16, 30, 32] {
        let spec = JobSpec {
            encoding: Quantised {
                bits,
                ..Default::default()
            }
            .into(),
            dim: 9000,
            ..sparse(Masking::Cheaper, 5)
        };
        let mut rig = rig(spec);
        rig.serve().unwrap();
        rig.answer_all().unwrap();
        finish(&mut rig, 2).unwrap();
    }
}

/// Once the words are encrypted. Before, a party ends with its process.
#[test]
fn restarts_change_nothing() {
    let mut rig = rig(sparse(Masking::Cheaper, 5));
    for encrypted in [false, true] {
        for party in parties(0..5) {
            assert_eq!(restart(&mut rig, party), encrypted);
            let latest = rig.clients[&party].latest().clone();
            assert_eq!(rig.up[&party], latest);
        }
        if rig.up[&PartyId(0)][1] == 0 {
            rig.serve().unwrap();
            rig.answer_all().unwrap();
        }
    }
    finish(&mut rig, 2).unwrap();
}

#[test]
fn coordinates_of_too_few_stay_closed() {
    for least in 1..=4 {
        let held = rig(JobSpec {
            protocol: Flashe {
                density: 0.4,
                min_contributors: least,
                ..Default::default()
            }
            .into(),
            ..sparse(Masking::Cheaper, 4)
        });
        let mut rig = uploaded(&held, 3);
        finish(&mut rig, least).unwrap();
        let all = rig.cohort.opened(&PartySet::of(4, parties(0..4)), 1);
        let opened = rig.cohort.opened(&PartySet::of(4, parties(0..4)), least);
        assert_eq!(
            all.sum == opened.sum,
            least == 1,
            "the test needs such coordinates"
        );
    }
}

/// What the server sees of a party's coordinates is neither them nor the same in another round.
#[test]
fn the_server_sees_places_that_change() {
    let held = rig(sparse(Masking::Cheaper, 3));
    let seen = |number| {
        let rig = held.again(number);
        let seen = SparseMask::from_bytes(101, body(&rig.up[&PartyId(1)])).unwrap();
        seen.coordinates().collect::<Vec<u32>>()
    };
    let own = &held.cohort.coordinates[1];
    let (one, other) = (seen(3), seen(4));
    assert_eq!([one.len(), other.len()], [own.len(); 2]);
    assert!(one != *own && other != *own && one != other);
}

/// Abuse case 26: an input that is no vector of some coordinates is refused before anything is sent.
#[test]
fn case_26_an_input_without_its_coordinates() {
    let held = rig(sparse(Masking::Cheaper, 3));
    let mut rng = held.rng.clone();
    let width = held.cohort.round.job().width();
    let (all, words) = (held.cohort.inputs[1].clone(), Words::zeros(width, 3));
    let none = Words::zeros(width, 0);
    let most = (0..42).collect::<Vec<u32>>();
    let many = Words::zeros(width, 42);
    let sparse = |coordinates, words| SparseInput::new(coordinates, Given(words));
    let mut refused = |input: &mut dyn crate::Input, rule: &str| {
        let setup = held.cohort.setup(PartyId(1));
        let Err(fault) = Client::start(setup, Some(input), &mut rng) else {
            panic!("{rule}");
        };
        assert_eq!(fault.culprit, Culprit::Caller);
        assert!(fault.to_string().contains(rule), "{fault}");
    };
    refused(&mut Given(&all), "coordinates must be given");
    refused(&mut sparse(&[1, 2], &words), "words = 3 must be 2");
    refused(&mut sparse(&[1, 1, 2], &words), "must increase");
    refused(&mut sparse(&[1, 2, 101], &words), "d < D = 101");
    refused(&mut sparse(&[], &none), "1 <= coordinates = 0 <= 41");
    refused(&mut sparse(&most, &many), "1 <= coordinates = 42 <= 41");
}

/// Abuse case 27: what is no set of places, or no ciphertext of them, costs its sender its place.
#[test]
fn case_27_malformed_places_and_ciphertexts() {
    let mut rig = rig(sparse(Masking::Cheaper, 4));
    let honest = rig.up[&PartyId(3)].clone();
    let all = SparseMask::new(101, &(0..101).collect::<Vec<u32>>()).unwrap();
    let none = SparseMask::new(101, &[]).unwrap();
    for wrong in [&[][..], &[2], &[0, 1], &all.to_bytes(), &none.to_bytes()] {
        let fault = rig
            .receive(PartyId(3), &with_body(&honest, wrong))
            .unwrap_err();
        assert_eq!(fault.culprit, Culprit::Party(PartyId(3)));
        assert!(fault.to_string().contains("mask"), "{fault}");
    }
    rig.drop_out([PartyId(3)]);
    rig.serve().unwrap();
    rig.answer_all().unwrap();
    let honest = rig.up[&PartyId(2)].clone();
    let longer = [body(&honest), &[0]].concat();
    for wrong in [&[][..], &body(&honest)[1..], &longer] {
        let fault = rig
            .receive(PartyId(2), &with_body(&honest, wrong))
            .unwrap_err();
        assert_eq!(fault.culprit, Culprit::Party(PartyId(2)));
        assert!(fault.to_string().contains("ciphertext"), "{fault}");
    }
    rig.drop_out([PartyId(2)]);
    assert_eq!(finish(&mut rig, 2).unwrap().len(), 2);
}

/// Abuse case 28: messages of another round or stage, and conflicting ones.
#[test]
fn case_28_messages_of_another_time() {
    let held = rig(sparse(Masking::Cheaper, 3));
    let (other, mut rig) = (uploaded(&held, 3), listed(&held, 4));
    let party = PartyId(1);
    let masks = rig.down[&party].clone();
    rig.answer_all().unwrap();
    let late = rig.receive(party, &other.up[&party]).unwrap_err();
    assert_eq!(late.kind, FaultKind::OtherRound);
    // The same again is answered by the same; another list is not answered.
    let sent = rig.up[&party].clone();
    let repeated = rig.answer_to(party, &masks).unwrap();
    assert!(matches!(repeated, Answer::Send(message) if message == sent));
    let mut single = body(&masks).to_vec();
    single[0] ^= 3;
    let fault = rig.answer_to(party, &with_body(&masks, &single));
    assert_eq!(fault.unwrap_err().kind, FaultKind::Conflicting { stage: 0 });
}

/// Abuse case 28: what the server says of places and masking is checked before anything is encrypted.
#[test]
fn case_28_changed_lists_of_places() {
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, Change); 6] = [
        ("scheme = 3", |body| body[0] = 3),
        ("must be 2, double masking", |body| body[0] = 1),
        ("too few parties are left", |body| body[1] = 1),
        ("not a bitmap", |body| body[1] |= 0x80),
        ("nothing must follow", |body| body.push(0)),
        ("cut short", |body| body.truncate(body.len() - 1)),
    ];
    let held = rig(sparse(Masking::Double, 3));
    for (number, (rule, change)) in (3..).zip(cases) {
        let mut rig = listed(&held, number);
        let before = backup(&rig, 0);
        let message = rig.down[&PartyId(0)].clone();
        let mut changed = body(&message).to_vec();
        change(&mut changed);
        let fault = rig.answer_to(PartyId(0), &with_body(&message, &changed));
        let fault = fault.expect_err(rule);
        assert_eq!(fault.culprit, Culprit::Server);
        let said = format!("{fault} {:?}", fault.kind);
        assert!(said.contains(rule), "{said} instead of {rule}");
        assert_eq!(backup(&rig, 0), before, "nothing was used: {rule}");
        assert_ended(&mut rig, PartyId(0));
    }
}

/// Abuse case 28: a party that is said to have other coordinates than it has, or none, encrypts nothing.
#[test]
fn case_28_changed_places_of_the_party_itself() {
    let held = rig(sparse(Masking::Double, 3));
    let mut rig = listed(&held, 3);
    let before = backup(&rig, 1);
    let message = rig.down[&PartyId(0)].clone();
    let swapped = with_places(&rig.cohort.round, body(&message), |places| {
        places.swap(0, 1)
    });
    let fault = rig.answer_to(PartyId(1), &with_body(&message, &swapped));
    let fault = fault.unwrap_err();
    assert_eq!(fault.culprit, Culprit::Server);
    assert!(
        fault.to_string().contains("this party sent must be listed"),
        "{fault}"
    );
    assert_eq!(backup(&rig, 1), before);
}

/// Abuse case 33: a round is encrypted in once, also by a party that has told its places twice.
#[test]
fn case_33_a_round_is_used_once() {
    let held = rig(sparse(Masking::Cheaper, 3));
    let mut rig = held.again(3);
    let party = PartyId(1);
    let input = rig.cohort.input(party);
    let again = Client::start(rig.cohort.setup(party), Some(&*input), &mut rig.rng);
    drop(input);
    rig.serve().unwrap();
    rig.answer(party).unwrap();
    rig.clients.insert(party, again.unwrap().0);
    let kind = FaultKind::RoundUsed { round: 3, next: 4 };
    assert_eq!(rig.answer(party).unwrap_err(), Fault::caller(kind));
    assert_ended(&mut rig, party);
}

/// What the server sends to party 0, with some ciphertexts added as often as said.
fn forged(rig: &Rig, times: &[(u32, usize)], names: &[u32]) -> Vec<u8> {
    let job = rig.cohort.round.job();
    let mut sum = EncryptedSparseSum::new(job.width(), job.lanes()).unwrap();
    for (party, count) in times {
        let mask = places(rig, *party);
        for _ in 0..*count {
            sum.add(&mask, body(&rig.up[&PartyId(*party)])).unwrap();
        }
    }
    let set = PartySet::of(rig.cohort.round.parties(), parties(names.iter().copied()));
    [set.as_bitmap(), &sum.to_bytes()].concat()
}

/// What the server knows of a party's coordinates.
fn places(rig: &Rig, party: u32) -> SparseMask {
    let list = list_of_places(&rig.cohort.round, body(&rig.down[&PartyId(0)]));
    list[party as usize].clone()
}

/// Abuse case 34: a sum of other ciphertexts than those of the survivors is no sum at all.
#[test]
fn case_34_a_wrong_sum_is_noticed() {
    for masking in MASKINGS {
        let held = rig(sparse(masking, 4));
        let all = &[(0, 1), (1, 1), (2, 1), (3, 1)][..];
        let everybody = &[0, 1, 2, 3][..];
        let cases = [
            ("nothing is wrong", all, everybody),
            ("doubled", &[(0, 1), (1, 2), (2, 1), (3, 1)], everybody),
            ("not listed", all, &[0, 1, 2]),
            ("left out", &all[..3], everybody),
            ("another set", &all[..3], &[0, 1, 3]),
        ];
        for (number, (what, times, names)) in (3..).zip(cases) {
            let mut rig = uploaded(&held, number);
            let forged = forged(&rig, times, names);
            rig.serve().unwrap();
            let message = with_body(&rig.down[&PartyId(0)].clone(), &forged);
            match rig.answer_to(PartyId(0), &message) {
                Ok(answer) => {
                    assert_eq!(what, "nothing is wrong");
                    assert!(matches!(answer, Answer::Done(_)));
                }
                Err(fault) => {
                    assert_eq!(fault.culprit, Culprit::Server, "{what}");
                    // Where the set has another union, the length tells already.
                    let wrong = fault.kind == FaultKind::WrongSum;
                    let length = fault.to_string().contains("it takes exactly");
                    assert!(wrong || length, "{what}: {fault}");
                    assert!(what != "nothing is wrong");
                    assert!(wrong || what != "doubled");
                }
            }
        }
    }
}

/// Abuse case 34: every bit of the sum and of its check counts.
#[test]
fn case_34_a_changed_bit_is_noticed() {
    let held = rig(sparse(Masking::Cheaper, 3));
    for (number, from_end) in (3..).zip([1, 8, 12, 17, 20, 40]) {
        let mut rig = uploaded(&held, number);
        rig.serve().unwrap();
        let message = rig.down[&PartyId(0)].clone();
        let mut changed = body(&message).to_vec();
        let at = changed.len() - from_end;
        // Not one that would make the check larger than it can be, or set a bit of padding.
        changed[at] ^= 1;
        let fault = rig.answer_to(PartyId(0), &with_body(&message, &changed));
        assert_eq!(
            fault.unwrap_err(),
            Fault::server(FaultKind::WrongSum),
            "{from_end}"
        );
    }
}

/// Abuse case 34: the server tells a party other places of another party than the others.
#[test]
fn case_34_other_places_than_were_sent_are_noticed() {
    let held = rig(sparse(Masking::Double, 3));
    let mut rig = listed(&held, 3);
    let message = rig.down[&PartyId(0)].clone();
    let lie = with_places(&rig.cohort.round, body(&message), |masks| {
        // Party 2 is said to have what party 1 has.
        masks[2] = masks[1].clone();
    });
    rig.answer_to(PartyId(0), &with_body(&message, &lie))
        .unwrap();
    rig.answer(PartyId(1)).unwrap();
    rig.answer(PartyId(2)).unwrap();
    rig.serve().unwrap();
    let fault = rig.answer(PartyId(0)).unwrap_err();
    assert_eq!(fault.culprit, Culprit::Server);
    let noticed = fault.kind == FaultKind::WrongSum || fault.to_string().contains("bytes");
    assert!(noticed, "{fault}");
    rig.answer(PartyId(1)).unwrap();
}

/// Abuse case 34: survivors are some of those whose places were listed.
#[test]
fn case_34_a_survivor_without_places() {
    let held = rig(sparse(Masking::Cheaper, 4));
    let mut rig = held.again(3);
    rig.drop_out([PartyId(3)]);
    rig.serve().unwrap();
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    let message = rig.down[&PartyId(0)].clone();
    let mut changed = body(&message).to_vec();
    changed[0] |= 8;
    let fault = rig.answer_to(PartyId(0), &with_body(&message, &changed));
    let fault = fault.unwrap_err();
    assert_eq!(fault.culprit, Culprit::Server);
    assert!(
        fault
            .to_string()
            .contains("party 3 is not one whose places"),
        "{fault}"
    );
}
