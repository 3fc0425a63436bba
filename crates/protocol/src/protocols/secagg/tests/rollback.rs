//! Sealing keys are used once over many rounds and restarts; an older snapshot that comes back after a newer answer
//! was sent masks and seals nothing, but what it reveals no machine can prevent.

use blindsum_crypto::audit;

use super::*;
use crate::{Answer, PartySet};

/// Case 9: a thousand rounds of one job, every party restarted at every stage from which it can go on.
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
                    let stage = rig.clients[&party].stage();
                    assert_eq!(restart(&mut rig, party), stage >= Some(MASKED_INPUT));
                }
                rig.serve().unwrap();
                rig.answer_all().unwrap();
            }
            first.rng = rig.rng;
        }
    });
    // Two neighbours each, and a snapshot for each of the last three stages.
    assert_eq!(seen.sealed, 1000 * 3 * (2 + 3));
    assert_eq!(seen.repeated, 0);
}

/// Case 48: before the masked vector is out there is no snapshot, so that none that is put back can seal shares or
/// mask a vector a second time.
#[test]
fn case_48_nothing_goes_on_to_seal_or_mask() {
    for stage in [0, SHARE_KEYS] {
        let mut rig = Rig::at(active(4), stage);
        let sealed = rig.clients[&PartyId(0)].seal(&storage_key(), &mut rig.rng);
        assert_eq!(sealed, Ok(None));
    }
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
    let client = Client::unseal(rig.cohort.setup(PartyId(0)), &key, &old.unwrap()).unwrap();
    rig.clients.insert(PartyId(0), client);
    (rig, answer)
}

/// Case 3, the limit of it: semi-honest, a party that was put back to after its upload reveals the other kind of
/// share for another survivor set (docs/limitations.md).
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
/// at every stage from the masked vector on.
#[test]
fn case_03_killed_between_writing_and_sending() {
    for stage in SHARE_KEYS..UNMASK {
        let mut rig = Rig::at(active(5), stage);
        rig.serve().unwrap();
        let Ok(Answer::Send(answer)) = rig.answer(PartyId(0)) else {
            panic!("it answers")
        };
        assert!(restart(&mut rig, PartyId(0)));
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
