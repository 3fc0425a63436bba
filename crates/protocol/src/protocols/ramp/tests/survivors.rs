//! A server that tells parties different things about who shared.

use std::collections::BTreeMap;

use blindsum_math::field::{Field, batch_invert};
use blindsum_math::prime_field::Field31;
use blindsum_math::transform::CosetTransform;

use super::*;
use crate::Outgoing;
use crate::kit::consistency::{SignatureEntry, Signatures, Signed, sign_survivors};
use crate::kit::wire::{decode, encode};
use crate::protocols::ramp::sharing_of;
use crate::{Answer, Closed, Fault, PartySet, SurvivorListError};

/// Party 5 has vanished before it shared or, earlier still, before it advertised a key; party 0 is told
/// this bitmap.
fn told(bitmap: u8, lost_at: u8) -> Fault {
    let mut rig = Rig::at(active(6), lost_at);
    rig.drop_out(parties([5]));
    for _ in lost_at..SHARE_VECTOR {
        rig.serve().unwrap();
        rig.answer_all().unwrap();
    }
    rig.serve().unwrap();
    let message = rig.down[&PartyId(0)].clone();
    let mut bytes = body(&message).to_vec();
    bytes[0] = bitmap;
    let fault = rig
        .answer_to(PartyId(0), &with_body(&message, &bytes))
        .unwrap_err();
    assert!(!rig.up.contains_key(&PartyId(0)), "no sum was sent");
    assert_ended(&mut rig, PartyId(0));
    fault
}

/// Case 20: sets that no honest server names.
#[test]
fn case_20_impossible_sets() {
    let list = |error| FaultKind::BadSurvivorList(error);
    let told_late = |bitmap| told(bitmap, SHARE_VECTOR).kind;
    assert_eq!(told_late(0b01_1110), list(SurvivorListError::SelfDropped));
    assert_eq!(
        told_late(0b101_1111),
        list(SurvivorListError::OutsideRoster)
    );
    let (have, need) = (3, 5);
    assert_eq!(
        told_late(0b00_0111),
        FaultKind::TooFewSurvivors { have, need }
    );
    let without_column = told_late(0b11_1111);
    assert!(matches!(without_column, FaultKind::Malformed { .. }));
    let revived = SurvivorListError::Revived(PartyId(5));
    assert_eq!(told(0b10_1111, 0).kind, list(revived));
}

/// The answers, sums of columns or signatures, that a server gets which tells `second` that the victim did not share, and
/// all others that everybody did.
fn equivocate(rig: &mut Rig, second: &[u32], victim: u32) -> BTreeMap<u32, Vec<u8>> {
    let mut server = rig.server.take().unwrap();
    let answers = std::mem::take(&mut rig.up);
    for (party, message) in &answers {
        server.receive(*party, message).unwrap();
    }
    let Ok(Closed::Next { messages, .. }) = server.close(&mut rig.rng) else {
        panic!("columns come next");
    };
    for (seat, outgoing) in messages {
        let party = seat.party().unwrap();
        let outgoing = match second.contains(&party.0) {
            true => without(outgoing, answers.len(), victim),
            false => outgoing,
        };
        let message = outgoing.assemble(|from| answers.get(&from).map(|m| &m[..]));
        rig.answer_to(party, &message.unwrap()).unwrap();
    }
    let sums = rig.up.iter();
    sums.map(|(party, sum)| (party.0, body(sum).to_vec()))
        .collect()
}

/// The same message with the victim left out.
fn without(outgoing: Outgoing, n: usize, victim: u32) -> Outgoing {
    let others = (0..n as u32).filter(|&party| party != victim).map(PartyId);
    let pieces = outgoing.pieces.into_iter();
    Outgoing {
        head: with_body(&outgoing.head, PartySet::of(n, others).as_bitmap()),
        pieces: pieces.filter(|piece| piece.from.0 != victim).collect(),
    }
}

/// The first block's share in a packed column.
fn first_share(column: &[u8]) -> Field31 {
    Field31::read_from(&column[..Field31::ENCODED_LEN]).unwrap()
}

/// Σ_j w_j·η_j^−l·value(j) over r + 1 holders, with w_j = 1/∏(η_j − η_i): the random coefficients cancel,
/// so that shares of any f go to a fixed linear function of its words.
fn cancel_randomness(
    points: &[Field31],
    packing: usize,
    value: impl Fn(usize) -> Field31,
) -> Field31 {
    let mut weights: Vec<Field31> = (0..points.len())
        .map(|j| {
            let others = (0..points.len()).filter(|&i| i != j);
            let slope = others.fold(Field31::ONE, |p, i| p * (points[j] - points[i]));
            slope * points[j].power(packing as u64)
        })
        .collect();
    batch_invert(&mut weights).unwrap();
    let terms = weights.iter().enumerate();
    terms.fold(Field31::ZERO, |sum, (j, &weight)| sum + weight * value(j))
}

/// Case 20: two survivor sets to two groups, n = 10, c = 2 (parties 8 and 9), d = 2. The first group and the
/// corrupt ones open everybody's sum. What the second group says, r + 1 shares of the sum without the
/// victim, then gives away a linear function of the victim's vector alone. k = 8 > (n + c)/2 = 6 alone does not
/// prevent it, which is why the active mode confirms the set first.
#[test]
fn case_20_two_survivor_sets() {
    let (victim, second) = (3, [6, 7, 8, 9]);
    let mut rig = Rig::at(
        spec((ProtocolName::Fssa, Adversary::SemiHonest), 10),
        SHARE_VECTOR,
    );
    let parameters = *sharing_of(&rig.cohort.round).unwrap().parameters();
    let (random, packing) = (parameters.random(), parameters.packing());
    assert_eq!((parameters.threshold(), random), (8, 2));
    let sums = equivocate(&mut rig, &second, victim);

    // What the server learns rightly from the first set, cut down to the first block.
    let blocks = parameters.blocks(101);
    let word = |sum: &blindsum_math::words::Words, e: usize| {
        Field31::from_canonical(if e * blocks < 101 {
            sum.get(e * blocks)
        } else {
            0
        })
        .unwrap()
    };
    let everybody = rig.cohort.sum_of(rig.cohort.round.everyone());
    let transform = CosetTransform::<Field31>::new(8, 10).unwrap();
    let told = &second[..random + 1];
    let points: Vec<Field31> = told.iter().map(|&j| transform.point(j as usize)).collect();
    let function = |words: &dyn Fn(usize) -> Field31| {
        cancel_randomness(&points, packing, |j| {
            (0..packing).fold(Field31::ZERO, |s, e| {
                s + words(e) * points[j].power(e as u64)
            })
        })
    };
    let of_rest = cancel_randomness(&points, packing, |j| first_share(&sums[&told[j]]));
    let of_victim = function(&|e| word(&everybody, e)) - of_rest;
    let secret = &rig.cohort.inputs[victim as usize];
    assert_eq!(of_victim, function(&|e| word(secret, e)));
}

/// Case 20: in active mode the two groups sign different sets, and at most one is confirmed by ⌊(n + c)/2⌋ + 1 = 7,
/// though the corrupt parties sign both: a group that is too small sends no sum.
#[test]
fn case_20_two_survivor_sets_are_not_confirmed() {
    for protocol in [ProtocolName::Fssa, ProtocolName::Pss] {
        // The honest parties from this one on are told the set without the victim.
        for (border, confirmed) in [(4, [false, false]), (5, [false, true])] {
            let spec = spec((protocol, Adversary::Active), 10);
            let mut rig = Rig::at(spec, SHARE_VECTOR);
            let second: Vec<u32> = (border..10).collect();
            let signed = equivocate(&mut rig, &second, 3);
            let everybody = PartySet::of(10, rig.cohort.round.everyone());
            let groups = [(without_victim(3), border..8), (everybody, 0..border)];
            for ((set, group), confirmed) in groups.into_iter().zip(confirmed) {
                let answers = confirm(&mut rig, &signed, &set, group);
                for answer in answers {
                    assert_eq!(answer.is_ok(), confirmed, "{answer:?}");
                }
            }
        }
    }
}

/// Shows a group of honest parties all signatures over a set that there are: their own and those of the corrupt
/// parties 8 and 9. Who refuses them sends no sum.
fn confirm(
    rig: &mut Rig,
    signed: &BTreeMap<u32, Vec<u8>>,
    set: &PartySet,
    group: std::ops::Range<u32>,
) -> Vec<Result<Answer, Fault>> {
    let of_honest = group.clone().map(|party| {
        let Signed { signature } = decode("signature", &signed[&party]).unwrap();
        SignatureEntry { party, signature }
    });
    let of_corrupt = [8, 9].map(|party| {
        let identity = &rig.cohort.identities[party as usize];
        let signature = sign_survivors(&rig.cohort.round, identity, set).into();
        SignatureEntry { party, signature }
    });
    let entries: Vec<SignatureEntry> = of_honest.chain(of_corrupt).collect();
    let (have, need) = (entries.len(), 7);
    let body = encode("signatures", &Signatures { entries }).unwrap();
    let frame = rig.clients[&PartyId(0)].latest().clone();
    let show = |party: u32| {
        rig.up.remove(&PartyId(party));
        let answer = rig.answer_to(PartyId(party), &framed_at(&frame, CONSISTENCY, &body));
        if let Err(fault) = &answer {
            assert_eq!(fault.kind, FaultKind::TooFewSurvivors { have, need });
            assert!(!rig.up.contains_key(&PartyId(party)), "no sum was sent");
        }
        answer
    };
    group.map(show).collect()
}

/// Case 20: signatures over another set do not count.
#[test]
fn case_20_signatures_over_another_set() {
    let mut rig = Rig::at(active(10), CONSISTENCY);
    rig.serve().unwrap();
    let message = rig.down[&PartyId(0)].clone();
    let mut signatures: Signatures = decode("signatures", body(&message)).unwrap();
    assert_eq!(signatures.entries.len(), 7, "as many as are needed");
    let other = without_victim(3);
    for entry in &mut signatures.entries[..3] {
        let identity = &rig.cohort.identities[entry.party as usize];
        entry.signature = sign_survivors(&rig.cohort.round, identity, &other).into();
    }
    let bytes = encode("signatures", &signatures).unwrap();
    let fault = rig
        .answer_to(PartyId(0), &with_body(&message, &bytes))
        .unwrap_err();
    let (have, need) = (4, 7);
    assert_eq!(fault.kind, FaultKind::Inconsistent { have, need });
    assert_ended(&mut rig, PartyId(0));
}

/// Everybody of ten but one.
fn without_victim(victim: u32) -> PartySet {
    let others = (0..10).filter(|&party| party != victim);
    PartySet::of(10, others.map(PartyId))
}

/// A message of the round's server at a stage.
fn framed_at(of_round: &crate::Message, stage: u8, body: &[u8]) -> crate::Message {
    let mut bytes = with_body(of_round, body).to_vec();
    bytes[1] = stage;
    bytes.into()
}
