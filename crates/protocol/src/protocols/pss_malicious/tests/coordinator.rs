//! A coordinator that lies: honest parties end their rounds before they tell it anything.

use std::collections::BTreeMap;

use super::*;
use crate::kit::wire::{Opaque, decode, encode};
use crate::protocols::pss_malicious::messages::{ACCUSED, COMMITMENT, HASH, Keys};

const ADVERTISE: u8 = 0;
const CONFIRM: u8 = 2;
const RESPOND: u8 = 3;

/// A party hears what `change` makes of the message on its way to it.
fn hears(rig: &mut Rig, party: u32, change: impl FnOnce(&mut Vec<u8>)) -> Fault {
    let party = PartyId(party);
    let message = rig.down[&party].clone();
    let mut bytes = body(&message).to_vec();
    change(&mut bytes);
    let fault = rig
        .answer_to(party, &with_body(&message, &bytes))
        .unwrap_err();
    assert!(!rig.up.contains_key(&party), "nothing was said");
    assert_ended(rig, party);
    fault
}

/// A round in which everybody has heard of stage `stage` what it will answer next.
fn told(lies: &[(u32, Deviation)], stage: u8) -> Rig {
    let mut rig = rig_at(spec(Adversary::Active, 0.5), lies, stage);
    rig.serve().unwrap();
    rig
}

/// Case 6: another party's signature over party 2's key, and none at all. Keys are signed in every round.
#[test]
fn case_06_keys_are_signed_in_every_round() {
    let anothers = |keys: &mut Keys| keys.entries[2].keys.signature = signature_of_3(keys);
    let none = |keys: &mut Keys| keys.entries[2].keys.signature = Vec::new().into();
    for adversary in [Adversary::SemiHonest, Adversary::Active] {
        for change in [&anothers as &dyn Fn(&mut Keys), &none] {
            let mut rig = rig_at(spec(adversary, 0.5), &[], ADVERTISE);
            rig.serve().unwrap();
            let fault = hears(&mut rig, 0, |bytes| {
                let mut keys: Keys = decode("keys", bytes).unwrap();
                change(&mut keys);
                *bytes = encode("keys", &keys).unwrap();
            });
            assert_eq!(fault.culprit, Culprit::Server);
            let signer = PartyId(2);
            assert_eq!(fault.kind, FaultKind::BadSignature { signer });
        }
    }
}

fn signature_of_3(keys: &Keys) -> Opaque {
    keys.entries[3].keys.signature.clone()
}

#[test]
fn case_21_a_nonce_that_was_not_committed_to() {
    let mut rig = told(&[], SHARE);
    let fault = hears(&mut rig, 0, |bytes| bytes[2] ^= 1);
    assert_eq!(fault.culprit, Culprit::Server);
    assert!(
        fault
            .kind
            .to_string()
            .contains("committed to before vectors were shared"),
        "{fault}"
    );
}

#[test]
fn case_20_a_commitment_that_is_not_the_provers() {
    // That of another party, and that of this one.
    for place in [5, 0] {
        let mut rig = told(&[], SHARE);
        let fault = hears(&mut rig, 0, |bytes| {
            bytes[2 + HASH + place * COMMITMENT] ^= 1
        });
        assert_eq!(fault.culprit, Culprit::Server);
        let signer = PartyId(place as u32);
        assert_eq!(fault.kind, FaultKind::BadSignature { signer });
    }
}

#[test]
fn case_57_a_coordinator_that_changes_a_column_accuses_nobody() {
    for at in [3, 40] {
        let mut rig = told(&[], SHARE);
        let fault = hears(&mut rig, 0, |bytes| {
            let last = bytes.len() - at;
            bytes[last] ^= 1;
        });
        assert_eq!(fault.culprit, Culprit::Server, "{fault}");
    }
}

/// Two groups are told of different parties that shared, hence of two challenges: neither has a quorum for it.
#[test]
fn case_20_two_challenges() {
    let mut rig = rig_at(spec(Adversary::Active, 0.5), &[], SHARE);
    rig.serve().unwrap();
    // To half of them the coordinator does not tell of party 11.
    let honest = rig.down.clone();
    for party in 0..6 {
        let message = honest[&PartyId(party)].clone();
        let mut bytes = body(&message).to_vec();
        bytes[1] &= !(1 << 3);
        let commitments = 2 + HASH;
        let at = commitments + 11 * COMMITMENT;
        bytes.drain(at..at + COMMITMENT);
        let pieces = commitments + 11 * COMMITMENT;
        let piece = (bytes.len() - pieces) / 11;
        bytes.truncate(pieces + 10 * piece);
        rig.down.insert(PartyId(party), with_body(&message, &bytes));
    }
    rig.answer_all().unwrap();
    // Signatures over another challenge are refused, and too few are left.
    let fault = rig.serve().unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::TooFewSurvivors { .. }),
        "{fault}"
    );
}

#[test]
fn case_20_a_challenge_without_a_quorum() {
    let mut rig = told(&[], CONFIRM);
    // One signature is over something else; as many as are needed are sent.
    let fault = hears(&mut rig, 0, |bytes| {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    });
    assert_eq!(fault.kind, FaultKind::Inconsistent { have: 7, need: 8 });
}

#[test]
fn case_20_a_set_of_survivors_without_a_quorum() {
    let mut rig = told(&[], RESPOND);
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    let fault = hears(&mut rig, 0, |bytes| {
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
    });
    assert_eq!(fault.kind, FaultKind::Inconsistent { have: 7, need: 8 });
}

/// Accusations that an honest party refuses to answer: it shows the columns of liars only.
#[test]
fn case_17_accusations_that_nobody_made() {
    // Party 6 answers wrongly about all, so that all are accused by it.
    let lies = [(6, Deviation::LyingVerifier)];
    let honest = told(&lies, RESPOND).down;
    assert_eq!(honest.len(), 11);
    let responses: BTreeMap<PartyId, Vec<u8>> = {
        let rig = rig_at(spec(Adversary::Active, 0.5), &lies, RESPOND);
        rig.up
            .iter()
            .map(|(party, message)| (*party, body(message).to_vec()))
            .collect()
    };
    let accusation = |by: u32, response: &[u8]| [&by.to_be_bytes(), response].concat();
    let refused = |bytes: Vec<u8>| {
        let mut rig = told(&lies, RESPOND);
        let fault = hears(&mut rig, 0, |body| *body = bytes);
        assert_eq!(fault.culprit, Culprit::Server, "{fault}");
        fault.kind.to_string()
    };
    let accused = |accusations: &[Vec<u8>]| [vec![ACCUSED], accusations.concat()].concat();
    // An honest verifier's response.
    let of_five = accusation(5, &responses[&PartyId(5)]);
    assert!(refused(accused(&[of_five])).contains("party 5 has answered rightly"));
    // One that the verifier did not sign, or signed as another.
    let mut changed = responses[&PartyId(5)].clone();
    changed[4] ^= 1;
    assert!(refused(accused(&[accusation(5, &changed)])).contains("bad signature of party 5"));
    let of_six = accusation(5, &responses[&PartyId(6)]);
    assert!(refused(accused(&[of_six])).contains("bad signature of party 5"));
    // None, one twice, one of the party itself, one of nobody.
    let of_six = accusation(6, &responses[&PartyId(6)]);
    assert!(refused(accused(&[])).contains("list of accusers is empty"));
    assert!(refused(accused(&[of_six.clone(), of_six.clone()])).contains("occurs twice"));
    let of_itself = accusation(0, &responses[&PartyId(0)]);
    assert!(refused(accused(&[of_itself])).contains("no party that may accuse"));
    let of_nobody = accusation(77, &responses[&PartyId(6)]);
    assert!(refused(accused(&[of_nobody])).contains("no party that may accuse"));
    assert!(refused(vec![2]).contains("neither accusations"));
}

/// Where projections are proved, too: what a verifier has answered rightly depends on the party's seed.
#[test]
fn case_17_columns_of_honest_verifiers_are_not_shown() {
    for job in specs(Adversary::Active) {
        let lies = [(6, Deviation::LyingVerifier)];
        let mut rig = rig_at(job, &lies, RESPOND);
        let response = body(&rig.up[&PartyId(5)]).to_vec();
        rig.serve().unwrap();
        let accusation = [&[ACCUSED][..], &5_u32.to_be_bytes(), &response].concat();
        let fault = hears(&mut rig, 0, |body| *body = accusation);
        assert!(
            fault
                .kind
                .to_string()
                .contains("party 5 has answered rightly"),
            "{fault}"
        );
    }
}

/// More accusers than may lie: the round does not withstand them, and what they are shown together would be too much.
#[test]
fn case_17_more_accusers_than_may_lie() {
    let lies = [5, 6, 7].map(|liar| (liar, Deviation::LyingVerifier));
    let liars = rig_at(spec(Adversary::Active, 0.5), &lies, RESPOND);
    let accusation = |by: u32| {
        let response = body(&liars.up[&PartyId(by)]);
        [&by.to_be_bytes(), response].concat()
    };
    let mut rig = told(&lies[..1], RESPOND);
    let accusations = [5, 6, 7].map(accusation).concat();
    let fault = hears(&mut rig, 0, |body| {
        *body = [&[ACCUSED][..], &accusations].concat()
    });
    assert!(
        fault
            .kind
            .to_string()
            .contains("3 accuse, but at most 2 may"),
        "{fault}"
    );
}

#[test]
fn case_17_a_party_is_accused_once() {
    let lies = [(6, Deviation::LyingVerifier)];
    let mut rig = told(&lies, RESPOND);
    let accusation = rig.down[&PartyId(0)].clone();
    rig.answer_all().unwrap();
    rig.serve().unwrap();
    // It remembers when it is started again.
    assert!(restart(&mut rig, PartyId(0)));
    let verdict = rig.down[&PartyId(0)].clone();
    let again = with_body(&verdict, body(&accusation));
    let fault = rig.answer_to(PartyId(0), &again).unwrap_err();
    assert!(fault.kind.to_string().contains("once at most"), "{fault}");
}

#[test]
fn case_20_impossible_survivors() {
    let refused = |change: fn(&mut Vec<u8>)| {
        let mut rig = told(&[], RESPOND);
        hears(&mut rig, 0, change).kind.to_string()
    };
    assert!(refused(|bytes| bytes[1] = 0b1111_1110).contains("this party itself as dropped out"));
    assert!(refused(|bytes| bytes[2] = 0b1111_1111).contains("not a bitmap"));
    assert!(refused(|bytes| bytes[2] = 0).contains("too few"));
    assert!(refused(|bytes| bytes.push(0)).contains("cut short"));
    // Columns that nobody lacked.
    let more = |bytes: &mut Vec<u8>| bytes.extend([0; 500]);
    assert!(refused(more).contains("does not match the commitment of party 0"));
}

/// Two sets of survivors: without a quorum, sums of columns over both would give the difference away.
#[test]
fn case_20_two_sets_of_survivors() {
    let mut rig = told(&[], RESPOND);
    for party in 0..6 {
        let message = rig.down[&PartyId(party)].clone();
        let mut bytes = body(&message).to_vec();
        bytes[2] &= !(1 << 3);
        rig.down.insert(PartyId(party), with_body(&message, &bytes));
    }
    rig.answer_all().unwrap();
    let fault = rig.serve().unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::TooFewSurvivors { .. }),
        "{fault}"
    );
}
