//! Sealing keys are used once over many rounds and restarts; and what a party's program must prevent, since no
//! machine can: that an older snapshot comes back after a newer answer was sent.

use blindsum_crypto::audit;

use super::*;
use crate::{Answer, PartySet};

/// Case 9: a thousand rounds of one job, every party restarted at every stage.
#[test]
fn case_09_no_key_and_nonce_come_twice_in_a_thousand_rounds() {
    let mut first = Rig::new(
        JobSpec {
            dim: 1,
            ..active(3)
        },
        7,
    );
    let ((), seen) = audit::watch(|| {
        for number in 0..1000 {
            let mut rig = first.again(number);
            while rig.outcome.is_none() {
                for party in parties(0..3) {
                    restart(&mut rig, party);
                }
                rig.serve().unwrap();
                rig.answer_all().unwrap();
            }
            first.rng = rig.rng;
        }
    });
    // Two neighbours each, and a snapshot for each of five stages.
    assert_eq!(seen.sealed, 1000 * 3 * (2 + 5));
    assert_eq!(seen.repeated, 0);
}

/// Party 0 as it was after its answer of `stage`, and the rig one answer later.
fn rolled_back(spec: JobSpec, stage: u8) -> (Rig, Message) {
    let mut rig = Rig::at(spec, stage);
    rig.serve().unwrap();
    let key = storage_key();
    let old = rig.clients[&PartyId(0)].seal(&key, &mut rig.rng).unwrap();
    let Ok(Answer::Send(answer)) = rig.answer(PartyId(0)) else {
        panic!("it answers")
    };
    let client = Client::unseal(rig.cohort.setup(PartyId(0)), &key, &old).unwrap();
    rig.clients.insert(PartyId(0), client);
    (rig, answer)
}

/// Case 3, the limit of it: with an older snapshot a party shares its secrets a second time under the same
/// sealing keys. Programs keep the newest snapshot only (docs/limitations.md).
#[test]
fn case_03_an_older_snapshot_seals_under_used_keys() {
    let (answers, seen) = audit::watch(|| {
        let (mut rig, first) = rolled_back(active(4), 0);
        let Ok(Answer::Send(second)) = rig.answer(PartyId(0)) else {
            panic!("it answers")
        };
        (first, second)
    });
    assert_ne!(answers.0, answers.1);
    assert_eq!(seen.repeated, 3, "one for each neighbour");
}

/// Case 3, the limit of it: semi-honest, it reveals the other kind of share for another survivor set.
#[test]
fn case_03_an_older_snapshot_reveals_the_other_share() {
    let (mut rig, first) = rolled_back(
        spec(ProtocolName::SecAgg, Adversary::SemiHonest, 9),
        MASKED_INPUT,
    );
    let other = PartySet::of(9, parties(0..8));
    let message = with_body(&rig.down[&PartyId(0)], other.as_bitmap());
    let Ok(Answer::Send(second)) = rig.answer_to(PartyId(0), &message) else {
        panic!("it answers")
    };
    assert_ne!(first, second);
}

/// Case 3: a snapshot that was written before its answer is sent has that answer, and takes no other request;
/// at every stage.
#[test]
fn case_03_killed_between_writing_and_sending() {
    for stage in 0..UNMASK {
        let mut rig = Rig::at(active(5), stage);
        rig.serve().unwrap();
        let Ok(Answer::Send(answer)) = rig.answer(PartyId(0)) else {
            panic!("it answers")
        };
        restart(&mut rig, PartyId(0));
        assert_eq!(rig.clients[&PartyId(0)].latest(), &answer);
        let Ok(Answer::Send(again)) = rig.answer(PartyId(0)) else {
            panic!("it answers again")
        };
        assert_eq!(again, answer);
        let mut other = body(&rig.down[&PartyId(0)]).to_vec();
        other[0] ^= 1;
        let message = with_body(&rig.down[&PartyId(0)], &other);
        let fault = rig.answer_to(PartyId(0), &message).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Conflicting { stage });
        assert_ended(&mut rig, PartyId(0));
    }
}
