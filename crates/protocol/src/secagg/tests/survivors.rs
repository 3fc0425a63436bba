//! Lists of survivors that no honest server sends.

use super::*;
use crate::consistency::{SignatureEntry, Signatures, Signed};
use crate::secagg::messages::Revealed;
use crate::wire::{decode, encode};
use crate::{Answer, Culprit, Fault, PartySet, SurvivorListError};

/// What party `party` says when it is shown this survivor bitmap.
fn show(rig: &mut Rig, party: PartyId, bitmap: &[u8]) -> Result<Answer, Fault> {
    let message = with_body(&rig.down[&party], bitmap);
    rig.answer_to(party, &message)
}

/// Survivors are about to be announced; party 5 never shared, party 6 never uploaded.
fn at_survivors() -> Rig {
    let mut rig = Rig::at(active(12), SHARE_KEYS);
    rig.drop_out(parties([5]));
    rig.serve().unwrap();
    rig.answer_all().unwrap();
    rig.drop_out(parties([6]));
    rig.serve().unwrap();
    rig
}

fn refused(rig: &mut Rig, party: u32, bitmap: &[u8], error: SurvivorListError) {
    let fault = show(rig, PartyId(party), bitmap).unwrap_err();
    assert_eq!(fault.culprit, Culprit::Server);
    assert_eq!(fault.kind, FaultKind::BadSurvivorList(error));
    assert!(!rig.up.contains_key(&PartyId(party)));
    assert_ended(rig, PartyId(party));
}

/// Case 1: party 0 is alive to one half and dropped to the other. Nobody finds enough signatures, so
/// nobody reveals any share.
#[test]
fn case_01_two_stories_about_one_party() {
    let mut rig = Rig::at(active(12), MASKED_INPUT);
    rig.serve().unwrap();
    let alive = PartySet::of(12, parties(0..12));
    let dropped = PartySet::of(12, parties(1..12));
    let story = |party: PartyId| if party.0 < 6 { &alive } else { &dropped };
    for party in parties(0..12) {
        show(&mut rig, party, story(party).as_bitmap()).unwrap();
    }
    // The server keeps every signature and gives each party all it can.
    let signatures: Vec<(PartyId, Message)> = std::mem::take(&mut rig.up).into_iter().collect();
    for party in parties(0..12) {
        let entries = signatures
            .iter()
            .filter(|(signer, _)| story(party).contains(*signer))
            .map(|(signer, message)| {
                let signed: Signed = decode("signed", body(message)).unwrap();
                SignatureEntry {
                    party: signer.0,
                    signature: signed.signature,
                }
            })
            .collect();
        let bytes = encode("signatures", &Signatures { entries }).unwrap();
        let message = crate::wire::frame(rig.cohort.round.context(), CONSISTENCY, &bytes);
        let fault = rig.answer_to(party, &message).unwrap_err();
        assert_eq!(fault.culprit, Culprit::Server);
        assert_eq!(fault.kind, FaultKind::Inconsistent { have: 6, need: 9 });
    }
    assert!(rig.up.is_empty(), "no share left any party");
}

/// Case 1, what the stage is for: without it both halves would have revealed shares, and the two halves
/// together would hold shares of both secrets of party 0. The threshold alone keeps either secret safe:
/// each half is smaller than t.
#[test]
fn case_01_no_half_reaches_the_threshold() {
    let rig = Rig::at(active(12), 0);
    let graph = crate::secagg::graph_of(&rig.cohort.round).unwrap();
    let parameters = graph.parameters();
    let corrupt = 2; // ⌈0.1 · 12⌉
    assert!(2 * parameters.threshold() > parameters.holders() + corrupt);
}

/// Case 2: the receiver itself is listed as dropped.
#[test]
fn case_02_self_dropped() {
    let mut rig = at_survivors();
    let set = PartySet::of(12, parties((1..5).chain(7..12)));
    refused(&mut rig, 0, set.as_bitmap(), SurvivorListError::SelfDropped);
}

/// Case 2: a party that dropped before is listed as alive.
#[test]
fn case_02_revived() {
    let mut rig = at_survivors();
    let set = PartySet::of(12, parties((0..6).chain(7..12)));
    refused(
        &mut rig,
        0,
        set.as_bitmap(),
        SurvivorListError::Revived(PartyId(5)),
    );
}

/// Case 2: unknown parties, and bitmaps of another length. Duplicates and a party on both lists have no
/// encoding: the list is one bitmap.
#[test]
fn case_02_outside_the_roster() {
    let mut rig = at_survivors();
    refused(&mut rig, 0, &[0xff, 0x1f], SurvivorListError::OutsideRoster);
    refused(
        &mut rig,
        1,
        &[0xff, 0x0f, 0],
        SurvivorListError::OutsideRoster,
    );
    refused(&mut rig, 2, &[0xff], SurvivorListError::OutsideRoster);
    refused(&mut rig, 3, &[], SurvivorListError::OutsideRoster);
}

/// Every client reveals for each neighbour one share, of the secret that the set calls for.
#[test]
fn one_kind_of_share_per_neighbour() {
    let mut rig = at_survivors();
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    rig.answer_all().unwrap();
    for message in rig.up.values() {
        let revealed: Revealed = decode("revealed", body(message)).unwrap();
        let listed: Vec<u32> = revealed.shares.iter().map(|entry| entry.party).collect();
        let shared: Vec<u32> = (0..12).filter(|party| *party != 5).collect();
        assert_eq!(listed, shared);
    }
    rig.finish().unwrap();
}

/// Repeated and forged signatures do not count.
#[test]
fn case_01_signatures_cannot_be_padded() {
    let mut rig = Rig::at(active(12), CONSISTENCY);
    rig.serve().unwrap();
    let message = rig.down[&PartyId(0)].clone();
    let mut doubled: Signatures = decode("signatures", body(&message)).unwrap();
    doubled.entries.truncate(5);
    let more: Signatures = decode("signatures", body(&message)).unwrap();
    doubled.entries.extend(more.entries.into_iter().take(5));
    let bytes = encode("signatures", &doubled).unwrap();
    let fault = rig
        .answer_to(PartyId(0), &with_body(&message, &bytes))
        .unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Malformed { .. }));

    let message = rig.down[&PartyId(1)].clone();
    let mut forged: Signatures = decode("signatures", body(&message)).unwrap();
    let last = forged.entries.last().unwrap().signature.clone();
    forged
        .entries
        .iter_mut()
        .for_each(|entry| entry.signature = last.clone());
    let bytes = encode("signatures", &forged).unwrap();
    let fault = rig
        .answer_to(PartyId(1), &with_body(&message, &bytes))
        .unwrap_err();
    assert_eq!(fault.kind, FaultKind::Inconsistent { have: 1, need: 9 });
}

/// On a sparse graph only the witnesses' signatures count, and all parties are shown the same ones: a
/// neighbour's does not stand in for one that is missing.
#[test]
fn case_01_only_witnesses_confirm_survivors() {
    let sparse = JobSpec {
        neighbours: 20,
        corrupt: 0.0,
        ..spec(ProtocolName::SecAggPlus, Adversary::Active, 60)
    };
    let mut rig = Rig::at(sparse, CONSISTENCY);
    let graph = crate::secagg::graph_of(&rig.cohort.round).unwrap();
    let witnesses = graph.witnesses();
    assert_eq!(witnesses.len(), 21);
    let stranger = parties(0..60)
        .find(|party| !witnesses.contains(party))
        .unwrap();
    let message = rig.up[&stranger].clone();
    let signed: Signed = decode("signed", body(&message)).unwrap();
    rig.serve().unwrap();
    assert!(
        rig.down
            .values()
            .all(|message| message == &rig.down[&stranger])
    );
    let message = rig.down[&PartyId(0)].clone();
    let mut signatures: Signatures = decode("signatures", body(&message)).unwrap();
    let listed = signatures.entries.iter().map(|entry| PartyId(entry.party));
    assert!(listed.eq(witnesses));
    signatures.entries.retain(|entry| entry.party != stranger.0);
    signatures.entries.push(SignatureEntry {
        party: stranger.0,
        signature: signed.signature,
    });
    signatures.entries.sort_by_key(|entry| entry.party);
    let bytes = encode("signatures", &signatures).unwrap();
    let fault = rig
        .answer_to(PartyId(0), &with_body(&message, &bytes))
        .unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Malformed { .. }), "{fault}");
    rig.drop_out([PartyId(0)]);
    rig.answer_all().unwrap();
    let outcome = rig.finish().unwrap();
    assert_eq!(
        outcome.sum,
        Some(rig.cohort.sum_of(outcome.survivors.iter()))
    );
}
