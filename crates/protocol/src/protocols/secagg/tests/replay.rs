//! Repeated, conflicting, late and foreign messages; processes that are killed and go on.

use super::*;
use crate::{Answer, Culprit, PartySet, Receipt};

fn sent(answer: Answer) -> Message {
    match answer {
        Answer::Send(message) => message,
        other => panic!("{other:?}"),
    }
}

/// Case 3: the unmask request twice gives the same bytes, a different one nothing; also after the
/// process was killed and restored between the two.
#[test]
fn case_03_second_unmask_request() {
    for restarted in [false, true] {
        let spec = spec(ProtocolName::SecAgg, Adversary::SemiHonest, 9);
        let mut rig = Rig::at(spec, MASKED_INPUT);
        rig.serve().unwrap();
        let first = sent(rig.answer(PartyId(0)).unwrap());
        if restarted {
            assert!(restart(&mut rig, PartyId(0)));
        }
        assert_eq!(sent(rig.answer(PartyId(0)).unwrap()), first);
        rig.up.clear();
        let other = PartySet::of(9, parties(0..8));
        let message = with_body(&rig.down[&PartyId(0)], other.as_bitmap());
        let fault = rig.answer_to(PartyId(0), &message).unwrap_err();
        assert_eq!(fault.culprit, Culprit::Server);
        assert_eq!(
            fault.kind,
            FaultKind::Conflicting {
                stage: MASKED_INPUT
            }
        );
        assert_ended(&mut rig, PartyId(0));
        assert!(rig.up.is_empty());
    }
}

/// A client restored after its vector is out goes on as if nothing had happened, with the same bytes. Before, there
/// is nothing to restore it from.
#[test]
fn every_stage_from_the_masked_vector_on_survives_a_restart() {
    for adversary in [Adversary::SemiHonest, Adversary::Active] {
        for suite in [crate::SuiteName::X25519, crate::SuiteName::P256] {
            let spec = JobSpec {
                suite,
                ..spec(ProtocolName::SecAggPlus, adversary, 5)
            };
            let mut plain = Rig::new(spec.clone(), 7);
            let mut killed = Rig::new(spec, 7);
            while plain.outcome.is_none() {
                for party in parties(0..5) {
                    let before = killed.clients[&party].latest().clone();
                    let rng = killed.rng.clone();
                    let stage = killed.clients[&party].stage();
                    assert_eq!(restart(&mut killed, party), stage >= Some(MASKED_INPUT));
                    killed.rng = rng;
                    assert_eq!(killed.clients[&party].latest(), &before);
                }
                assert_eq!(plain.up, killed.up);
                for rig in [&mut plain, &mut killed] {
                    rig.serve().unwrap();
                    rig.answer_all().unwrap();
                }
            }
            assert_eq!(plain.outcome, killed.outcome);
        }
    }
}

/// A snapshot opens for its party and round only, and not when a bit of it changed.
#[test]
fn snapshots_are_bound_to_party_and_round() {
    use blindsum_crypto::{seal::StorageKey, secret::Secret};
    let key = StorageKey::from(Secret::from([3; 32]));
    let mut rig = Rig::at(active(5), MASKED_INPUT);
    let sealed = rig.clients[&PartyId(0)].seal(&key, &mut rig.rng);
    let mut sealed = sealed.unwrap().unwrap();
    let other = Rig::new(active(5), 8);
    let kind = |result: Result<Client, crate::Fault>| result.err().unwrap().kind;
    for setup in [rig.cohort.setup(PartyId(1)), other.cohort.setup(PartyId(0))] {
        assert!(matches!(
            kind(Client::unseal(setup, &key, &sealed)),
            FaultKind::Snapshot(_)
        ));
    }
    let setup = || rig.cohort.setup(PartyId(0));
    assert!(Client::unseal(setup(), &key, &sealed).is_ok());
    sealed[40] ^= 1;
    assert!(matches!(
        kind(Client::unseal(setup(), &key, &sealed)),
        FaultKind::Snapshot(_)
    ));
    assert!(matches!(
        kind(Client::unseal(setup(), &key, &[])),
        FaultKind::Snapshot(_)
    ));
}

/// Case 28 at the server: repeated bytes are no fault; different ones, early and late stages, other
/// rounds and strangers are, and they cost the others nothing.
#[test]
fn case_28_out_of_turn_at_the_server() {
    let mut rig = Rig::at(active(6), SHARE_KEYS);
    let early = Rig::at(active(6), MASKED_INPUT).up[&PartyId(0)].clone();
    let foreign = Rig::new(active(6), 50).up[&PartyId(0)].clone();
    let shares = rig.up.clone();
    let server = rig.server.as_mut().unwrap();
    let kind = |result: Result<Receipt, crate::Fault>| result.unwrap_err().kind;
    assert_eq!(
        server.receive(PartyId(0), &shares[&PartyId(0)]),
        Ok(Receipt::Taken)
    );
    assert_eq!(
        server.receive(PartyId(0), &shares[&PartyId(0)]),
        Ok(Receipt::Repeated)
    );
    let changed = with_body(&shares[&PartyId(0)], &[1, 2, 3]);
    assert_eq!(
        kind(server.receive(PartyId(0), &changed)),
        FaultKind::Conflicting { stage: 1 }
    );
    assert_eq!(
        kind(server.receive(PartyId(1), &early)),
        FaultKind::OtherStage {
            got: 2,
            expected: 1
        }
    );
    assert_eq!(
        kind(server.receive(PartyId(1), &foreign)),
        FaultKind::OtherRound
    );
    assert_eq!(
        kind(server.receive(PartyId(6), &shares[&PartyId(1)])),
        FaultKind::NotAMember
    );
    assert!(matches!(
        kind(server.receive(PartyId(1), &shares[&PartyId(2)])),
        FaultKind::Malformed { .. }
    ));
    let outcome = rig.finish().unwrap();
    assert_eq!(outcome.sum, Some(rig.cohort.sum_of(parties(0..6))));
    assert_eq!(outcome.faults.len(), 5);
}

/// Case 28: a party, or a stranger, that keeps sending costs no memory; its first faults are kept.
#[test]
fn case_28_spam_is_not_kept() {
    let mut rig = Rig::at(active(6), SHARE_KEYS);
    let message = rig.up[&PartyId(0)].clone();
    let server = rig.server.as_mut().unwrap();
    for number in 0..1000u32 {
        let bytes = [&message[..], &number.to_be_bytes()].concat();
        for party in [PartyId(0), PartyId(6 + number)] {
            server.receive(party, &bytes).unwrap_err();
            server
                .receive(party, &bytes[..number as usize % 34])
                .unwrap_err();
        }
    }
    let outcome = rig.finish().unwrap();
    assert_eq!(outcome.sum, Some(rig.cohort.sum_of(parties(0..6))));
    let own = Culprit::Party(PartyId(0));
    let (of_member, of_strangers): (Vec<_>, Vec<_>) = outcome
        .faults
        .iter()
        .partition(|fault| fault.culprit == own);
    assert_eq!((of_member.len(), of_strangers.len()), (8, 8));
}

/// Case 28 at the client: old messages again are ignored, others of the wrong stage or round end it.
#[test]
fn case_28_out_of_turn_at_the_client() {
    let mut rig = Rig::at(active(6), 0);
    rig.serve().unwrap();
    let keys = rig.down.clone();
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    rig.answer_all().unwrap();
    let old = rig.answer_to(PartyId(0), &keys[&PartyId(0)]).unwrap();
    assert!(matches!(old, Answer::Old));
    let other = with_body(&keys[&PartyId(1)], &[0]);
    let fault = rig.answer_to(PartyId(1), &other).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Conflicting { stage: 0 });
    rig.drop_out([PartyId(1)]);
    rig.serve().unwrap();
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    let ahead = crate::kit::wire::frame(rig.cohort.round.context(), UNMASK, &[]);
    let fault = rig.answer_to(PartyId(2), &ahead).unwrap_err();
    assert_eq!(
        fault.kind,
        FaultKind::OtherStage {
            got: UNMASK,
            expected: CONSISTENCY
        }
    );
    let foreign =
        crate::kit::wire::frame(&blindsum_crypto::kdf::Context([0; 32]), CONSISTENCY, &[]);
    assert_eq!(
        rig.answer_to(PartyId(3), &foreign).unwrap_err().kind,
        FaultKind::OtherRound
    );
}

/// Case 27: any message cut short or lengthened, or with another version, is refused by type.
#[test]
fn case_27_truncated_and_trailing_bytes() {
    for stage in 0..=UNMASK {
        let mut rig = Rig::at(active(5), stage);
        let up = rig.up.clone();
        let server = rig.server.as_mut().unwrap();
        for (party, message) in &up {
            for cut in [0, 1, 33, 34, message.len() / 2, message.len() - 1] {
                let kind = server.receive(*party, &message[..cut]).unwrap_err().kind;
                assert!(matches!(kind, FaultKind::Malformed { .. }), "{kind}");
            }
            let longer = [message.as_ref(), &[0]].concat();
            let kind = server.receive(*party, &longer).unwrap_err().kind;
            assert!(matches!(kind, FaultKind::Malformed { .. }), "{kind}");
            let mut version = message.to_vec();
            version[0] = 2;
            let kind = server.receive(*party, &version).unwrap_err().kind;
            assert_eq!(
                kind,
                FaultKind::Version {
                    got: 2,
                    supported: 1
                }
            );
        }
        rig.serve().unwrap();
        for (party, message) in rig.down.clone() {
            let cut = message.len() - 1 - party.rank();
            let fault = rig.answer_to(party, &message[..cut]).unwrap_err();
            assert_eq!(fault.culprit, Culprit::Server);
        }
    }
}

/// Case 27: a list of a million tiny entries, which would take many times its bytes to hold, is not read.
#[test]
fn case_27_lists_are_bounded_by_the_round() {
    let entry = [0u8, 0, 0, 0, 0];
    let bytes = entry.len() as u32 * 1_000_000;
    let list = [
        &(bytes | 0x8000_0000).to_be_bytes()[..],
        &entry.repeat(1_000_000),
    ]
    .concat();
    let refused = |kind: &FaultKind| match kind {
        FaultKind::Malformed { rule, .. } => assert!(rule.contains("at most"), "{rule}"),
        other => panic!("{other}"),
    };
    for stage in 0..=UNMASK {
        let mut rig = Rig::at(active(5), stage);
        let message = with_body(&rig.up[&PartyId(0)], &list);
        let kind = rig
            .server
            .as_mut()
            .unwrap()
            .receive(PartyId(0), &message)
            .unwrap_err()
            .kind;
        if stage != MASKED_INPUT {
            refused(&kind);
        }
        rig.serve().unwrap();
        let message = with_body(&rig.down[&PartyId(0)], &list);
        let kind = rig.answer_to(PartyId(0), &message).unwrap_err().kind;
        if stage != MASKED_INPUT && stage != UNMASK {
            refused(&kind);
        }
    }
}

/// The same seed gives the same bytes.
#[test]
fn rounds_are_deterministic() {
    let run = || {
        let mut rig = Rig::at(active(5), UNMASK);
        (rig.up.clone(), rig.finish().unwrap())
    };
    assert_eq!(run(), run());
}
