//! Lists of survivors that no honest server sends.

use super::*;
use crate::kit::consistency::{SignatureEntry, Signatures, Signed, sign_survivors};
use crate::kit::wire::{decode, encode};
use crate::protocols::secagg::messages::Revealed;
use crate::{Answer, Culprit, Fault, PartySet, SecAgg, SecAggPlus, SurvivorListError};

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
        let message = crate::kit::wire::frame(rig.cohort.round.context(), CONSISTENCY, &bytes);
        let fault = rig.answer_to(party, &message).unwrap_err();
        assert_eq!(fault.culprit, Culprit::Server);
        assert_eq!(fault.kind, FaultKind::Inconsistent { have: 6, need: 9 });
    }
    assert!(rig.up.is_empty(), "no share left any party");
}

/// Case 1, what the stage is for: without it both halves would have revealed shares, and the two halves
/// together would hold shares of both secrets of party 0. Two sets of t signers have an honest one in common,
/// with the lowest threshold that a job is let, also where many are corrupt.
#[test]
fn case_01_no_half_reaches_the_threshold() {
    for (n, corrupt) in [(12, 0.0), (12, 0.1), (30, 0.3), (30, 0.45), (31, 0.45)] {
        let with = |threshold| JobSpec {
            protocol: SecAgg { threshold }.into(),
            corrupt,
            dropout: 0.0,
            ..active(n)
        };
        let least = (1..=n).find(|&threshold| with(threshold).validate().is_ok());
        let least = least.expect("some threshold is let");
        let corrupt = with(least).corrupt_parties() as u32;
        assert!(
            2 * least > n + corrupt,
            "t = {least}, n = {n}, c = {corrupt}"
        );
    }
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

/// 60 parties, of whom each has 20 neighbours.
fn sparse() -> JobSpec {
    JobSpec {
        protocol: SecAggPlus {
            neighbours: 20,
            ..Default::default()
        }
        .into(),
        corrupt: 0.0,
        ..spec(ProtocolName::SecAggPlus, Adversary::Active, 60)
    }
}

/// They have signed the set of survivors; and the witnesses.
fn sparse_signatures() -> (Rig, Vec<PartyId>) {
    let rig = Rig::at(sparse(), CONSISTENCY);
    let graph = crate::protocols::secagg::graph_of(&rig.cohort.round);
    (rig, graph.witnesses())
}

/// On a sparse graph only the witnesses' signatures count, and all parties are shown the same ones: a
/// neighbour's does not stand in for one that is missing.
#[test]
fn case_01_only_witnesses_confirm_survivors() {
    let (mut rig, witnesses) = sparse_signatures();
    assert_eq!(witnesses.len(), 21);
    let stranger = parties(0..60)
        .find(|party| !witnesses.contains(party))
        .unwrap();
    let signed: Signed = decode("signed", body(&rig.up[&stranger])).unwrap();
    rig.serve().unwrap();
    let message = rig.down[&PartyId(0)].clone();
    assert!(rig.down.values().all(|other| *other == message));
    let mut signatures: Signatures = decode("signatures", body(&message)).unwrap();
    let listed = signatures.entries.iter().map(|entry| PartyId(entry.party));
    assert!(listed.eq(witnesses));
    // As many as before, all of them right: one of somebody else in place of a witness's.
    signatures.entries[0] = SignatureEntry {
        party: stranger.0,
        signature: signed.signature,
    };
    signatures.entries.sort_by_key(|entry| entry.party);
    let bytes = encode("signatures", &signatures).unwrap();
    let fault = rig
        .answer_to(PartyId(0), &with_body(&message, &bytes))
        .unwrap_err();
    assert!(matches!(fault.kind, FaultKind::Malformed { .. }), "{fault}");
    assert!(rig.up.is_empty(), "no share was revealed");
    rig.drop_out([PartyId(0)]);
    rig.answer_all().unwrap();
    let outcome = rig.finish().unwrap();
    assert_eq!(
        outcome.sum,
        Some(rig.cohort.sum_of(outcome.survivors.iter()))
    );
}

/// One signature less than t is not enough, and what nobody signed does not count for one.
#[test]
fn case_01_fewer_signatures_than_the_threshold() {
    let (mut rig, _) = sparse_signatures();
    let graph = crate::protocols::secagg::graph_of(&rig.cohort.round);
    let need = graph.parameters().threshold();
    rig.serve().unwrap();
    let fault = signatures_changed(&mut rig, |signatures| signatures.entries.truncate(need - 1));
    let have = need - 1;
    assert_eq!(fault, FaultKind::TooFewSurvivors { have, need });
}

/// The signatures that party 0 is shown after `change`; gives its fault.
fn signatures_changed(rig: &mut Rig, change: impl FnOnce(&mut Signatures)) -> FaultKind {
    let message = rig.down[&PartyId(0)].clone();
    let mut signatures: Signatures = decode("signatures", body(&message)).unwrap();
    change(&mut signatures);
    let bytes = encode("signatures", &signatures).unwrap();
    let fault = rig.answer_to(PartyId(0), &with_body(&message, &bytes));
    assert!(rig.up.is_empty(), "no share was revealed");
    fault.unwrap_err().kind
}

/// Case 1: what parties signed in an earlier round about the same set confirms nothing in this one.
#[test]
fn case_01_signatures_of_another_round() {
    let mut earlier = Rig::new(active(12), 7).again(6);
    for _ in 0..CONSISTENCY {
        earlier.serve().unwrap();
        earlier.answer_all().unwrap();
    }
    let mut rig = Rig::at(active(12), CONSISTENCY);
    rig.serve().unwrap();
    let fault = signatures_changed(&mut rig, |signatures| {
        for entry in &mut signatures.entries {
            let signed = &earlier.up[&PartyId(entry.party)];
            let signed: Signed = decode("signed", body(signed)).unwrap();
            entry.signature = signed.signature;
        }
    });
    assert_eq!(fault, FaultKind::Inconsistent { have: 0, need: 9 });
}

/// Case 1: whoever is not in the set does not confirm it.
#[test]
fn case_01_only_survivors_confirm_survivors() {
    let mut rig = Rig::at(active(12), MASKED_INPUT);
    rig.drop_out(parties([11]));
    for _ in 0..2 {
        rig.serve().unwrap();
        if rig.down[&PartyId(0)][1] == MASKED_INPUT {
            rig.answer_all().unwrap();
        }
    }
    let survivors = PartySet::of(12, parties(0..11));
    let signature = sign_survivors(&rig.cohort.round, &rig.cohort.identities[11], &survivors);
    let fault = signatures_changed(&mut rig, |signatures| {
        let last = signatures.entries.last_mut().unwrap();
        *last = SignatureEntry {
            party: 11,
            signature: signature.into(),
        };
    });
    assert!(matches!(fault, FaultKind::Malformed { .. }), "{fault}");
}

/// Case 1: enough survive, but of a party's own holders one too few: nobody could take its self mask off, and its
/// shares would only serve a server that lies.
#[test]
fn case_01_a_party_without_enough_holders_reveals_nothing() {
    for missing in [0, 1] {
        let mut rig = Rig::at(sparse(), MASKED_INPUT);
        rig.serve().unwrap();
        let graph = crate::protocols::secagg::graph_of(&rig.cohort.round);
        let need = graph.parameters().threshold();
        let mut neighbours = graph.neighbours(PartyId(0));
        // The party itself is one of its holders.
        let lost = neighbours.split_off(need - 1 - missing);
        let survivors = PartySet::of(60, parties(0..60).filter(|party| !lost.contains(party)));
        assert!(survivors.len() >= rig.cohort.round.job().min_parties());
        let answer = show(&mut rig, PartyId(0), survivors.as_bitmap());
        if missing == 0 {
            assert!(matches!(answer, Ok(Answer::Send(_))));
            continue;
        }
        let (fault, have) = (answer.unwrap_err(), need - 1);
        assert_eq!(fault.culprit, Culprit::Server);
        assert_eq!(fault.kind, FaultKind::TooFewSurvivors { have, need });
        assert!(rig.up.is_empty(), "nothing was signed");
        assert_ended(&mut rig, PartyId(0));
    }
}
