//! Keys that were tampered with.

use super::*;
use crate::kit::advertise::Advert;
use crate::kit::wire::{decode, encode};
use crate::protocols::ramp::messages::Keys;
use crate::{Culprit, Fault};

/// Party 0 receives everybody's keys after `change`; gives its fault.
fn keys_changed(spec: JobSpec, change: impl FnOnce(&mut Keys)) -> Fault {
    let mut rig = Rig::at(spec, 0);
    rig.serve().unwrap();
    let message = rig.down[&PartyId(0)].clone();
    let mut keys: Keys = decode("keys", body(&message)).unwrap();
    change(&mut keys);
    let message = with_body(&message, &encode("keys", &keys).unwrap());
    let fault = rig.answer_to(PartyId(0), &message).unwrap_err();
    assert!(!rig.up.contains_key(&PartyId(0)), "no column was sent");
    assert_ended(&mut rig, PartyId(0));
    assert_eq!(fault.culprit, Culprit::Server);
    fault
}

fn semi_honest() -> JobSpec {
    spec((ProtocolName::Fssa, Adversary::SemiHonest), 6)
}

fn bad_key(fault: Fault, party: u32, part: &str) {
    match fault.kind {
        FaultKind::BadKey { owner, reason } => {
            assert_eq!(owner, PartyId(party));
            assert!(reason.contains(part), "{reason}");
        }
        other => panic!("{other}"),
    }
}

/// Case 6: a fresh, well-formed key in place of party 2's, and a signature taken away.
#[test]
fn case_06_replaced_key() {
    let other = Rig::new(active(6), 99).up[&PartyId(2)].clone();
    let other: Advert = decode("keys", body(&other)).unwrap();
    let refused = FaultKind::BadSignature { signer: PartyId(2) };
    let key = other.key.clone();
    let fault = keys_changed(active(6), |keys| keys.entries[2].keys.key = key);
    assert_eq!(fault.kind, refused);
    let fault = keys_changed(active(6), |keys| keys.entries[2].keys = other);
    assert_eq!(fault.kind, refused);
    let fault = keys_changed(active(6), |keys| {
        keys.entries[2].keys.signature = Vec::new().into();
    });
    assert_eq!(fault.kind, refused);
}

/// Case 7: one error for each unusable key.
#[test]
fn case_07_unusable_keys() {
    let fault = keys_changed(semi_honest(), |keys| {
        keys.entries[2].keys = keys.entries[3].keys.clone();
    });
    bad_key(fault, 3, "also a key of party 2");
    let fault = keys_changed(semi_honest(), |keys| drop(keys.entries.remove(0)));
    bad_key(fault, 0, "does not list this party's key");
    let fault = keys_changed(semi_honest(), |keys| {
        keys.entries[0].keys = keys.entries.remove(1).keys;
    });
    bad_key(fault, 0, "another key than this party sent");
    for (key, part) in [(vec![0; 32], "order"), (vec![1; 31], "31")] {
        let fault = keys_changed(semi_honest(), |keys| {
            keys.entries[4].keys.key = key.into();
        });
        bad_key(fault, 4, part);
    }
}

/// Case 7: an entry twice, parties out of order, parties outside the roster.
#[test]
fn case_07_list_is_not_one_entry_per_party() {
    for change in [
        |keys: &mut Keys| keys.entries[1].party = 0,
        |keys: &mut Keys| keys.entries.swap(1, 2),
        |keys: &mut Keys| keys.entries[5].party = 6,
    ] {
        let fault = keys_changed(semi_honest(), change);
        assert!(matches!(fault.kind, FaultKind::Malformed { .. }), "{fault}");
    }
}

/// Case 7: the server refuses the same things, from one party, and goes on without it.
#[test]
fn case_07_the_server_goes_on_without_the_copy() {
    let mut rig = Rig::new(spec((ProtocolName::Pss, Adversary::SemiHonest), 6), 5);
    let copied = rig.up[&PartyId(1)].clone();
    rig.up.insert(PartyId(2), copied);
    rig.serve().unwrap();
    rig.drop_out(parties([2]));
    rig.answer_all().unwrap();
    let outcome = rig.finish().unwrap();
    assert!(!outcome.survivors.contains(PartyId(2)));
    assert_eq!(outcome.faults.len(), 1);
    bad_key(outcome.faults[0].clone(), 2, "also a key of party 1");
}
