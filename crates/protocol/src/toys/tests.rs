//! Rounds of the toys, stage by stage.

use blindsum_math::words::Words;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::testing::{Cohort, Rig, body, parties, restart, with_body};
use crate::{Answer, Client, FaultKind, JobSpec, Message, PartyId, Seat, ServerRole, Who};

fn toy(name: &str) -> JobSpec {
    JobSpec {
        job: name.into(),
        protocol: crate::ProtocolName::Plain.into(),
        parties: 4,
        dim: 9,
        ..JobSpec::default()
    }
}

#[test]
fn a_ring_has_a_stage_for_each_party_and_one_for_the_decryptor() {
    let job = toy("toy-ring").validate().unwrap();
    assert_eq!(job.plan().stages(), ["hop", "hop", "hop", "hop", "open"]);
    assert_eq!(job.servers().collect::<Vec<_>>(), [ServerRole::Decryptor]);
    let smaller = job.plan_of(crate::RoundKind::Sum, 2);
    assert_eq!(smaller.stages(), ["hop", "hop", "open"]);
    let last = smaller.reply(1).unwrap();
    assert_eq!(last.hearer, Who::Server(ServerRole::Decryptor));
    // No user can choose a toy.
    assert!(
        crate::ProtocolName::ALL
            .iter()
            .all(|name| !name.to_string().contains("toy"))
    );
}

#[test]
fn a_ring_sums_and_hears_only_what_is_for_it() {
    for name in ["toy-ring", "toy-three"] {
        let mut rig = Rig::new(toy(name), 3);
        let outcome = rig.finish().unwrap();
        assert_eq!(outcome.survivors.len(), 4, "{name}");
        assert_eq!(
            outcome.sum,
            Some(rig.cohort.sum_of(parties(0..4))),
            "{name}"
        );
    }
}

#[test]
fn whoever_is_not_spoken_to_says_nothing() {
    let mut rig = Rig::new(toy("toy-ring"), 3);
    assert_eq!(rig.up.keys().copied().collect::<Vec<_>>(), [PartyId(0)]);
    let silent = &rig.clients[&PartyId(2)];
    assert_eq!((silent.stage(), silent.heard()), (None, 0));
    assert!(silent.needs_input() && silent.latest().is_empty());
    rig.serve().unwrap();
    assert_eq!(rig.down.keys().copied().collect::<Vec<_>>(), [PartyId(1)]);
    rig.answer(PartyId(1)).unwrap();
    let spoken = &rig.clients[&PartyId(1)];
    assert_eq!((spoken.stage(), spoken.heard()), (Some(1), 1));
    assert!(!spoken.needs_input());
}

#[test]
fn case_28_what_is_for_all_cannot_be_skipped() {
    // A message that the plan has for another party, one that is out of turn, and the end before the hop.
    for (party, stage) in [(2, 0), (3, 0), (1, 1), (2, 4)] {
        let mut rig = Rig::new(toy("toy-ring"), 3);
        rig.serve().unwrap();
        let mut bytes = rig.down[&PartyId(1)].to_vec();
        bytes[1] = stage;
        let fault = rig.answer_to(PartyId(party), &bytes).unwrap_err();
        let expected = FaultKind::OtherStage {
            got: stage,
            expected: 0,
        };
        assert_eq!(fault.kind, expected, "{party} hears {stage}");
    }
}

#[test]
fn a_hop_opens_for_the_next_one_only() {
    let mut rig = Rig::at(toy("toy-ring"), 1);
    let hop = rig.up[&PartyId(1)].clone();
    rig.serve().unwrap();
    // Sealed for party 2, and brought to party 3 as one of party 2.
    let mut wrong = with_body(&hop, body(&hop)).to_vec();
    wrong[1] = 2;
    let fault = rig.answer_to(PartyId(3), &wrong).unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::Malformed { field: "seal", .. }),
        "{fault}"
    );
}

#[test]
fn a_party_that_is_lost_before_its_hop_ends_a_ring() {
    for lost in 0..4 {
        let mut rig = Rig::new(toy("toy-ring"), 3);
        rig.drop_out([PartyId(lost)]);
        let fault = rig.finish().unwrap_err();
        assert_eq!(
            fault.kind,
            FaultKind::TooFewSurvivors { have: 0, need: 1 },
            "{lost}"
        );
    }
    // After it the sum is opened all the same.
    let mut rig = Rig::at(toy("toy-ring"), 2);
    rig.drop_out([PartyId(0)]);
    assert_eq!(rig.finish().unwrap().survivors.len(), 4);
}

#[test]
fn a_party_goes_on_from_a_snapshot_after_its_hop_and_not_before() {
    let mut rig = Rig::at(toy("toy-ring"), 2);
    assert!(
        !restart(&mut rig, PartyId(3)),
        "it will still pad its vector"
    );
    for party in parties(0..3) {
        let before = rig.clients[&party].latest().clone();
        assert!(restart(&mut rig, party));
        let restored = &rig.clients[&party];
        assert_eq!(*restored.latest(), before);
        assert_eq!(restored.stage(), Some(party.0 as u8));
    }
    assert_eq!(rig.finish().unwrap().survivors.len(), 4);
}

#[test]
fn three_servers_agree_on_whom_all_of_them_have() {
    let mut rig = Rig::new(toy("toy-three"), 3);
    rig.drop_out([PartyId(2)]);
    // The third server cannot open the seed of party 0.
    let mut spoilt = rig.up[&PartyId(0)].to_vec();
    *spoilt.last_mut().unwrap() ^= 1;
    rig.up.insert(PartyId(0), Message::from(spoilt));
    let outcome = rig.finish().unwrap();
    let ranks: Vec<u32> = outcome.survivors.iter().map(|party| party.0).collect();
    assert_eq!(ranks, [1, 3]);
    assert_eq!(
        outcome.sum,
        Some(rig.cohort.sum_of(outcome.survivors.iter()))
    );
}

#[test]
fn without_one_of_the_servers_there_is_no_sum() {
    for (name, role) in [
        ("toy-ring", ServerRole::Decryptor),
        ("toy-three", ServerRole::Second),
        ("toy-three", ServerRole::Third),
    ] {
        let mut rig = Rig::new(toy(name), 3);
        rig.followers.remove(&role);
        let fault = rig.finish().unwrap_err();
        assert!(
            matches!(fault.kind, FaultKind::TooFewSurvivors { .. }),
            "{name}: {fault}"
        );
    }
}

#[test]
fn case_28_only_who_is_waited_for_is_heard() {
    let mut rig = Rig::at(toy("toy-ring"), 1);
    let hop = rig.up[&PartyId(1)].clone();
    let server = rig.server.as_mut().unwrap();
    for seat in [Seat::from(PartyId(2)), ServerRole::Decryptor.into()] {
        let fault = server.receive(seat, &hop).unwrap_err();
        assert_eq!(fault.kind, FaultKind::NotAMember, "{seat}");
    }
    let waiting = server.waiting();
    assert_eq!(
        (waiting.missing, waiting.servers),
        (vec![PartyId(1)], vec![])
    );
    // Another server than the one whose turn it is.
    let mut rig = Rig::at(toy("toy-ring"), 4);
    let opened = rig.up_of_servers[&ServerRole::Decryptor].clone();
    let server = rig.server.as_mut().unwrap();
    let fault = server.receive(ServerRole::Second, &opened).unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotAMember);
    server.receive(ServerRole::Decryptor, &opened).unwrap();
}

#[test]
fn who_must_speak_first_needs_its_vector_first() {
    let rig = Rig::new(toy("toy-ring"), 3);
    let start = |party| {
        let setup = rig.cohort.setup(PartyId(party));
        Client::start(setup, None, &mut rig.rng.clone())
    };
    assert_eq!(start(0).err().unwrap().kind, FaultKind::InputMissing);
    assert!(matches!(start(1), Ok((_, Answer::Wait))));
}

/// A round of `toy-dispute` in which parties send vectors that begin with these bytes.
fn disputed(first: [u64; 4]) -> Rig {
    let integers = crate::Integers {
        bits: 8,
        ..Default::default()
    };
    let spec = JobSpec {
        encoding: integers.into(),
        model_update: crate::ModelUpdate::Nothing,
        ..toy("toy-dispute")
    };
    let mut cohort = Cohort::new(spec, 3);
    for (words, first) in cohort.inputs.iter_mut().zip(first) {
        let mut values: Vec<u64> = words.iter().collect();
        values[0] = first;
        *words = Words::from_values(words.width(), &values).unwrap();
    }
    Rig::of_parties(cohort, ChaCha20Rng::seed_from_u64(4), &[0, 1, 2, 3])
}

#[test]
fn a_stage_in_which_nobody_has_anything_to_say_is_skipped() {
    let mut rig = disputed([1, 2, 3, 4]);
    rig.serve().unwrap();
    assert_eq!(rig.server.as_ref().unwrap().waiting().stage, 2);
    assert_eq!(rig.down[&PartyId(0)][1], 1, "said at the end of stage 1");
    rig.answer_all().unwrap();
    assert_eq!(rig.clients[&PartyId(0)].stage(), Some(2));
    assert_eq!(rig.finish().unwrap().survivors.len(), 4);
}

#[test]
fn few_are_asked_and_the_others_wait() {
    let mut rig = disputed([1, 130, 3, 140]);
    rig.serve().unwrap();
    let asked: Vec<u32> = rig.down.keys().map(|party| party.0).collect();
    assert_eq!(asked, [1, 3]);
    let waiting = rig.server.as_ref().unwrap().waiting();
    assert_eq!(
        (waiting.stage, waiting.missing),
        (1, vec![PartyId(1), PartyId(3)])
    );
    rig.answer_all().unwrap();
    // Who was not asked goes on from a snapshot of before, and hears the next message.
    assert!(restart(&mut rig, PartyId(0)));
    assert_eq!(rig.clients[&PartyId(0)].heard(), 0);
    rig.serve().unwrap();
    assert_eq!(rig.excused, []);
    rig.answer_all().unwrap();
    let heard = [0, 1].map(|party| rig.clients[&PartyId(party)].heard());
    assert_eq!(heard, [2, 2]);
    let outcome = rig.finish().unwrap();
    assert_eq!(outcome.sum, Some(rig.cohort.sum_of(parties(0..4))));
}

#[test]
fn case_05_whom_the_server_goes_on_without_is_said() {
    let mut rig = disputed([1, 130, 3, 200]);
    rig.serve().unwrap();
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    let excused: Vec<u32> = rig.excused.iter().map(|excuse| excuse.party.0).collect();
    assert_eq!(excused, [3]);
    rig.answer_all().unwrap();
    let outcome = rig.finish().unwrap();
    assert_eq!(outcome.sum, Some(rig.cohort.sum_of(parties(0..3))));
}

#[test]
fn case_28_a_client_does_not_go_back_in_stages() {
    let mut rig = disputed([1, 130, 3, 140]);
    rig.serve().unwrap();
    let question = rig.down[&PartyId(1)].clone();
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    rig.answer(PartyId(0)).unwrap();
    // The question of the stage before the one whose end it has heard.
    let fault = rig.answer_to(PartyId(0), &question).unwrap_err();
    let (got, expected) = (0, 2);
    assert_eq!(fault.kind, FaultKind::OtherStage { got, expected });
}
