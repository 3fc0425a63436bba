//! Rounds of parties that hold the key.

use blindsum_crypto::secret::Secret;
use blindsum_he::flashe::{JobKey, Survivors};

use std::sync::Arc;

use super::*;
use crate::protocols::flashe::shape;
use crate::testing::{Given, storage_key};
use crate::{
    Client, ClientSetup, Culprit, EncodingChoice, EncodingName, Flashe, Integers, Masking,
    MemoryVault, Quantised, Round, SurvivorListError,
};

const MASKINGS: [Masking; 2] = [Masking::Double, Masking::Single];

fn masked(masking: Masking, parties: u32) -> JobSpec {
    JobSpec {
        protocol: Flashe {
            masking,
            ..Default::default()
        }
        .into(),
        ..spec(parties)
    }
}

#[test]
fn sums_are_exact_whoever_drops_out() {
    for masking in MASKINGS {
        let held = rig(masked(masking, 7));
        for (number, dropped) in (3..).zip([&[][..], &[0], &[6], &[1, 3, 5], &[0, 1, 2, 3, 4]]) {
            let mut rig = held.again(number);
            rig.drop_out(parties(dropped.iter().copied()));
            let (_, survivors) = sum(&mut rig).unwrap();
            assert_eq!(survivors.len(), 7 - dropped.len());
        }
        let mut rig = held.again(9);
        rig.drop_out(parties(0..6));
        let (have, need) = (1, 2);
        let fault = rig.serve().unwrap_err();
        assert_eq!(fault.kind, FaultKind::TooFewSurvivors { have, need });
    }
}

#[test]
fn sums_are_exact_at_every_width() {
    let quantised = |bits| {
        EncodingChoice::Quantised(Quantised {
            bits,
            ..Default::default()
        })
    };
    let integers = Integers {
        bits: 61,
        ..Default::default()
    };
    for encoding in [
        quantised(6),
        quantised(30),
        quantised(32),
        integers.into(),
        EncodingName::Fixed64.into(),
    ] {
        let model_update = crate::ModelUpdate::Nothing;
        let spec = JobSpec {
            encoding,
            model_update,
            ..spec(5)
        };
        sum(&mut rig(spec)).unwrap();
    }
}

/// Case 11: a party with other clipping bounds, which the coordinator does not know, has another key: the sum is
/// noticed to be wrong, where it would be a number of no meaning.
#[test]
fn case_11_other_bounds_make_no_silent_sum() {
    for density in [1.0, 0.5] {
        let clipping = crate::Clipping::Aciq;
        let held = rig(JobSpec {
            encoding: Quantised {
                clipping,
                bits: 8,
                ..Default::default()
            }
            .into(),
            protocol: Flashe {
                density,
                ..Default::default()
            }
            .into(),
            ..spec(4)
        });
        let (job, roster) = (held.cohort.round.job(), held.cohort.round.roster());
        let round = || Round::new(job.clone(), 5, roster.clone(), &[9; 32]).unwrap();
        let cohort = held.cohort.begin(round());
        let mut rig = Rig::of_parties(cohort, held.rng.clone(), &[0, 1, 3]);
        let other = round().with_clips(&[0.5]).unwrap();
        assert_eq!(other.context(), rig.cohort.round.context());
        let strange = PartyId(2);
        let setup = ClientSetup {
            round: Arc::new(other),
            ..rig.cohort.setup(strange)
        };
        let input = rig.cohort.input(strange);
        let began = Client::start(setup, Some(&*input), &mut rig.rng);
        drop(input);
        let (client, answer) = began.unwrap();
        rig.clients.insert(strange, client);
        rig.up.insert(strange, answer.message().unwrap());
        let told = loop {
            rig.serve().unwrap();
            match rig.answer_all() {
                Ok(()) if rig.outcome.is_none() => {}
                told => break told,
            }
        };
        assert_eq!(told.unwrap_err().kind, FaultKind::WrongSum);
    }
}

#[test]
fn a_restart_changes_nothing() {
    let mut rig = rig(spec(5));
    for party in parties(0..5) {
        assert!(restart(&mut rig, party));
        let latest = rig.clients[&party].latest().clone();
        assert_eq!(rig.up[&party], latest);
    }
    sum(&mut rig).unwrap();
}

#[test]
fn who_lacks_the_key_cannot_begin() {
    let held = rig(spec(5));
    let (mut rng, inputs) = (held.rng.clone(), &held.cohort.inputs);
    let mut setup = held.cohort.setup(PartyId(1));
    setup.vault = std::sync::Arc::new(crate::MemoryVault::default());
    let Err(fault) = Client::start(setup, Some(&Given(&inputs[1])), &mut rng) else {
        panic!("it has no key");
    };
    assert_eq!(fault, Fault::caller(FaultKind::NoKey));
}

/// Abuse case 26: a vector of another length is refused before a mask is used.
#[test]
fn case_26_an_input_of_another_length() {
    let held = rig(spec(5));
    let mut rng = held.rng.clone();
    let width = held.cohort.round.job().width();
    let before = backup(&held, 1);
    let setup = || held.cohort.begin(next_round(&held)).setup(PartyId(1));
    let short = Words::zeros(width, 100);
    let Err(fault) = Client::start(setup(), Some(&Given(&short)), &mut rng) else {
        panic!("it is too short");
    };
    assert!(
        fault.to_string().contains("words = 100 must be 101"),
        "{fault}"
    );
    assert_eq!(backup(&held, 1), before);
    let input = &held.cohort.inputs[1];
    Client::start(setup(), Some(&Given(input)), &mut rng).unwrap();
}

fn next_round(rig: &Rig) -> crate::Round {
    let round = &rig.cohort.round;
    let (job, roster) = (round.job().clone(), round.roster().clone());
    crate::Round::new(job, round.number() + 1, roster, &[9; 32]).unwrap()
}

/// Abuse case 33: one round is encrypted in once, whatever the caller does.
#[test]
fn case_33_a_round_is_used_once() {
    let rig = rig(spec(5));
    let mut rng = rig.rng.clone();
    let input = Given(&rig.cohort.inputs[3]);
    let again = Client::start(rig.cohort.setup(PartyId(3)), Some(&input), &mut rng);
    let kind = FaultKind::RoundUsed { round: 2, next: 3 };
    assert_eq!(again.map(drop), Err(Fault::caller(kind)));
}

/// Abuse case 33: contents of a vault from before the round are refused, and so is a round that the server
/// begins again.
#[test]
fn case_33_an_old_vault_is_refused() {
    let held = rig(spec(5));
    let old = backup(&held, 0);
    let mut later = held.again(6);
    sum(&mut later).unwrap();
    // The file is put back, but not what is kept apart from it.
    held.cohort.vaults[0].write(&old, 0).unwrap();
    let mut rng = held.rng.clone();
    for number in [6, 7] {
        let round = crate::Round::new(
            held.cohort.round.job().clone(),
            number,
            held.cohort.round.roster().clone(),
            &[9; 32],
        );
        let setup = held.cohort.begin(round.unwrap()).setup(PartyId(0));
        let input = Given(&held.cohort.inputs[0]);
        let Err(fault) = Client::start(setup, Some(&input), &mut rng) else {
            panic!("round {number} with an old vault");
        };
        let kind = FaultKind::RoundUsed { round: 3, next: 7 };
        assert_eq!(fault, Fault::caller(kind));
    }
}

/// Abuse case 33: a snapshot only sends again what was sent.
#[test]
fn case_33_a_snapshot_encrypts_nothing() {
    let mut rig = rig(spec(5));
    let party = PartyId(2);
    let sealed = rig.clients[&party]
        .seal(&storage_key(), &mut rig.rng)
        .unwrap()
        .unwrap();
    let sent = rig.up[&party].clone();
    for _ in 0..2 {
        let client = Client::unseal(rig.cohort.setup(party), &storage_key(), &sealed).unwrap();
        assert_eq!(*client.latest(), sent);
    }
}

/// What the server sends to party 0, with some ciphertexts added as often as said.
fn forged(rig: &Rig, times: &[(u32, usize)], listed: &[u32]) -> Vec<u8> {
    let round = &rig.cohort.round;
    let shape = shape(round.job(), round.parties()).unwrap();
    let mut sum = blindsum_he::flashe::EncryptedSum::new(shape);
    for (party, count) in times {
        for _ in 0..*count {
            sum.add(body(&rig.up[&PartyId(*party)])).unwrap();
        }
    }
    let set = PartySet::of(round.parties(), parties(listed.iter().copied()));
    [set.as_bitmap(), &sum.to_bytes()].concat()
}

/// Abuse case 48: a number comes again where a whole folder was put back. Its round is another one, with other masks.
#[test]
fn case_48_a_number_that_comes_again_has_other_masks() {
    for masking in MASKINGS {
        let held = rig(masked(masking, 5));
        let encrypted = |model_hash: [u8; 32]| {
            let (job, roster) = (held.cohort.round.job(), held.cohort.round.roster());
            let round = Round::new(job.clone(), 3, roster.clone(), &model_hash).unwrap();
            let mut cohort = held.cohort.begin(round);
            let vault = MemoryVault::default();
            vault.write(&backup(&held, 1), 0).unwrap();
            cohort.vaults[1] = Arc::new(vault);
            let rig = Rig::of_parties(cohort, held.rng.clone(), &[1]);
            let message = rig.up[&PartyId(1)].clone();
            // The check, which comes last, has masks of its own.
            body(&message)[..128].to_vec()
        };
        assert_eq!(encrypted([9; 32]), encrypted([9; 32]));
        assert_ne!(encrypted([9; 32]), encrypted([8; 32]));
    }
}

/// Abuse case 34: a sum of other ciphertexts than those of the survivors is no sum at all.
#[test]
fn case_34_a_wrong_sum_is_noticed() {
    for masking in MASKINGS {
        let held = rig(masked(masking, 5));
        let all = &[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)][..];
        let everybody = &[0, 1, 2, 3, 4][..];
        let cases = [
            ("nothing is wrong", all, everybody),
            ("left out", &all[..4], everybody),
            (
                "doubled",
                &[(0, 1), (1, 2), (2, 1), (3, 1), (4, 1)],
                everybody,
            ),
            (
                "one in place of another",
                &[(0, 1), (1, 2), (3, 1), (4, 1)],
                everybody,
            ),
            ("not listed", all, &[0, 1, 2, 3]),
            ("another set of that size", &all[..4], &[0, 1, 2, 4]),
        ];
        for (number, (what, times, listed)) in (3..).zip(cases) {
            let mut rig = held.again(number);
            let forged = forged(&rig, times, listed);
            rig.serve().unwrap();
            let message = with_body(&rig.down[&PartyId(0)].clone(), &forged);
            let answer = rig.answer_to(PartyId(0), &message);
            if what == "nothing is wrong" {
                assert!(matches!(answer, Ok(Answer::Done(_))));
                continue;
            }
            assert_eq!(
                answer.unwrap_err(),
                Fault::server(FaultKind::WrongSum),
                "{what}"
            );
            assert_ended(&mut rig, PartyId(0));
        }
    }
}

/// Abuse case 34: a right sum of the others is none for a party that is not among them.
#[test]
fn case_34_a_sum_without_the_party_is_refused() {
    let mut rig = rig(spec(5)).again(3);
    rig.up.remove(&PartyId(4));
    rig.serve().unwrap();
    let of_others = rig.down[&PartyId(0)].clone();
    let fault = rig.answer_to(PartyId(4), &of_others).unwrap_err();
    let left_out = FaultKind::BadSurvivorList(SurvivorListError::SelfDropped);
    assert_eq!(fault, Fault::server(left_out));
    let again = rig.answer_to(PartyId(4), &of_others).unwrap_err();
    assert_eq!(again, Fault::caller(FaultKind::Ended));
    let counted = rig.answer_to(PartyId(0), &of_others);
    assert!(matches!(counted, Ok(Answer::Done(_))));
}

/// Abuse case 34: every bit of the sum and of its check counts.
#[test]
fn case_34_a_changed_bit_is_noticed() {
    let held = rig(spec(3));
    let reference = {
        let mut rig = held.again(3);
        rig.serve().unwrap();
        body(&rig.down[&PartyId(0)]).to_vec()
    };
    let last = reference.len() - 1;
    for (number, at) in (4..).zip([1, 2, 57, 200, last - 16, last - 8]) {
        let mut rig = held.again(number);
        rig.serve().unwrap();
        let message = rig.down[&PartyId(0)].clone();
        let mut changed = body(&message).to_vec();
        changed[at] ^= 1;
        let fault = rig.answer_to(PartyId(0), &with_body(&message, &changed));
        assert_eq!(
            fault.unwrap_err(),
            Fault::server(FaultKind::WrongSum),
            "byte {at}"
        );
    }
}

/// Abuse case 27: what is no ciphertext costs its sender its place and nobody else anything.
#[test]
fn case_27_malformed_ciphertexts() {
    let mut rig = rig(spec(5));
    let honest = rig.up[&PartyId(4)].clone();
    let mut padded = body(&honest).to_vec();
    padded.push(0);
    let mut above = body(&honest).to_vec();
    let check = above.len() - 1;
    above[check] = 0xff;
    for wrong in [&[][..], &body(&honest)[1..], &padded, &above] {
        let fault = rig
            .receive(PartyId(4), &with_body(&honest, wrong))
            .unwrap_err();
        assert_eq!(fault.culprit, Culprit::Party(PartyId(4)));
        assert!(fault.to_string().contains("ciphertext"), "{fault}");
    }
    rig.drop_out([PartyId(4)]);
    let (_, survivors) = sum(&mut rig).unwrap();
    assert_eq!(survivors.len(), 4);
}

/// Abuse case 28: messages of another round or stage, repeated and conflicting ones.
#[test]
fn case_28_messages_of_another_time() {
    let held = rig(spec(5));
    let (mut rig, other) = (held.again(3), held.again(4));
    let party = PartyId(1);
    let late = rig.receive(party, &other.up[&party]).unwrap_err();
    assert_eq!(late.kind, FaultKind::OtherRound);
    let first = rig.up[&party].clone();
    rig.receive(party, &first).unwrap();
    rig.receive(party, &first).unwrap();
    let second = with_body(&first, body(&rig.up[&PartyId(2)].clone()));
    let fault = rig.receive(party, &second).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Conflicting { stage: 0 });
    let stranger = rig.receive(PartyId(5), &first).unwrap_err();
    assert_eq!(stranger.kind, FaultKind::NotAMember);
    sum(&mut rig).unwrap();
}

/// Abuse case 35, the stated limit: the server together with any one party reads everybody's vector.
#[test]
fn case_35_server_and_one_party_read_everything() {
    let rig = rig(spec(5));
    let round = &rig.cohort.round;
    // Party 0 gives its key to the server, which has party 3's ciphertext.
    let key: [u8; 32] = backup(&rig, 0)[1..33].try_into().unwrap();
    let key = JobKey::from(Secret::from(key)).round(round.number(), round.context());
    let shape = shape(round.job(), round.parties()).unwrap();
    let only = Survivors::new(5, &[3]).unwrap();
    let read = key
        .decrypt(shape, &only, body(&rig.up[&PartyId(3)]))
        .unwrap();
    assert_eq!(read, rig.cohort.inputs[3]);
}

#[test]
fn what_is_computed_ahead_changes_nothing() {
    // One tile of masks of 4 bytes, which is more than the words need.
    let tile = 4 * 4096;
    for masking in MASKINGS {
        let held = rig(masked(masking, 5));
        let unused = backup(&held, 1);
        let mut rig = held.again(3);
        // The same round of party 1 once more, with a vault that does not know of it.
        let mut setup = rig.cohort.setup(PartyId(1));
        let vault = std::sync::Arc::new(crate::MemoryVault::default());
        vault.write(&unused, 0).unwrap();
        setup.vault = vault;
        assert_eq!(Client::prepare(&setup, 2 * tile), Ok(tile));
        let input = Given(&rig.cohort.inputs[1]);
        let (_, ahead) = Client::start(setup, Some(&input), &mut rig.rng.clone()).unwrap();
        assert_eq!(ahead.message().unwrap(), rig.up[&PartyId(1)]);
        for client in rig.clients.values_mut() {
            assert_eq!(client.prepare_answer(2 * tile, &mut rig.rng), tile);
        }
        rig.drop_out([PartyId(2)]);
        sum(&mut rig).unwrap();
    }
    let held = rig(spec(5));
    let setup = held.cohort.begin(next_round(&held)).setup(PartyId(1));
    assert_eq!(Client::prepare(&setup, tile - 1), Ok(0));
}
