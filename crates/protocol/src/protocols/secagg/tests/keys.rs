//! Keys and sealed shares that were tampered with.

use super::*;
use crate::kit::wire::{decode, encode};
use crate::protocols::secagg::messages::{NeighbourKeys, Revealed, SharesIn};
use crate::{Culprit, Fault};

/// Party 0 receives the neighbours' keys after `change`; gives its fault.
fn keys_changed(spec: JobSpec, change: impl FnOnce(&mut NeighbourKeys)) -> Fault {
    let mut rig = Rig::at(spec, 0);
    rig.serve().unwrap();
    let message = rig.down[&PartyId(0)].clone();
    let mut keys: NeighbourKeys = decode("keys", body(&message)).unwrap();
    change(&mut keys);
    let message = with_body(&message, &encode("keys", &keys).unwrap());
    let fault = rig.answer_to(PartyId(0), &message).unwrap_err();
    assert!(!rig.up.contains_key(&PartyId(0)), "no share was sent");
    assert_ended(&mut rig, PartyId(0));
    assert_eq!(fault.culprit, Culprit::Server);
    fault
}

fn semi_honest() -> JobSpec {
    spec(ProtocolName::SecAgg, Adversary::SemiHonest, 6)
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

/// Case 6: a fresh, well-formed key in place of party 2's.
#[test]
fn case_06_replaced_key() {
    let other = Rig::new(active(6), 99).up[&PartyId(2)].clone();
    let other: crate::protocols::secagg::messages::Advertise =
        decode("keys", body(&other)).unwrap();
    let fault = keys_changed(active(6), |keys| {
        keys.entries[2].keys.seal_key = other.seal_key.clone();
    });
    assert_eq!(fault.kind, FaultKind::BadSignature { signer: PartyId(2) });
    let fault = keys_changed(active(6), |keys| keys.entries[2].keys = other);
    assert_eq!(fault.kind, FaultKind::BadSignature { signer: PartyId(2) });
}

/// Case 6: the two keys of a party exchanged, and a signature taken away.
#[test]
fn case_06_swapped_keys_and_missing_signature() {
    let fault = keys_changed(active(6), |keys| {
        let keys = &mut keys.entries[2].keys;
        std::mem::swap(&mut keys.seal_key, &mut keys.mask_key);
    });
    assert_eq!(fault.kind, FaultKind::BadSignature { signer: PartyId(2) });
    let fault = keys_changed(active(6), |keys| {
        keys.entries[2].keys.signature = Vec::new().into();
    });
    assert_eq!(fault.kind, FaultKind::BadSignature { signer: PartyId(2) });
}

/// Case 6: keys that the party itself has signed, for another round.
#[test]
fn case_06_keys_of_another_round() {
    let earlier = Rig::new(active(6), 7).again(6).up[&PartyId(2)].clone();
    let earlier: crate::protocols::secagg::messages::Advertise =
        decode("keys", body(&earlier)).unwrap();
    let fault = keys_changed(active(6), |keys| keys.entries[2].keys = earlier);
    assert_eq!(fault.kind, FaultKind::BadSignature { signer: PartyId(2) });
}

/// Case 7: one error for each unusable key.
#[test]
fn case_07_unusable_keys() {
    let fault = keys_changed(semi_honest(), |keys| {
        let keys = &mut keys.entries[2].keys;
        keys.mask_key = keys.seal_key.clone();
    });
    bad_key(fault, 2, "its two keys are the same");
    let fault = keys_changed(semi_honest(), |keys| {
        keys.entries[2].keys = keys.entries[3].keys.clone();
    });
    bad_key(fault, 3, "also a key of party 2");
    let fault = keys_changed(semi_honest(), |keys| drop(keys.entries.remove(0)));
    bad_key(fault, 0, "does not list this party's keys");
    let fault = keys_changed(semi_honest(), |keys| {
        keys.entries[0].keys = keys.entries[1].keys.clone();
    });
    bad_key(fault, 0, "other keys than this party sent");
    let fault = keys_changed(semi_honest(), |keys| {
        keys.entries[4].keys.mask_key = vec![0; 32].into();
    });
    bad_key(fault, 4, "order");
    let fault = keys_changed(semi_honest(), |keys| {
        keys.entries[4].keys.mask_key = vec![1; 31].into();
    });
    bad_key(fault, 4, "31");
    let p256 = JobSpec {
        suite: crate::SuiteName::P256,
        ..semi_honest()
    };
    let fault = keys_changed(p256, |keys| {
        // No point of the curve has x = 4.
        let mut point = vec![0; 33];
        (point[0], point[32]) = (2, 4);
        keys.entries[4].keys.mask_key = point.into();
    });
    bad_key(fault, 4, "curve");
}

/// Case 7: the own entry twice, parties out of order, parties that are no neighbours.
#[test]
fn case_07_list_is_not_one_entry_per_neighbour() {
    for change in [
        |keys: &mut NeighbourKeys| keys.entries[1].party = 0,
        |keys: &mut NeighbourKeys| keys.entries.swap(1, 2),
        |keys: &mut NeighbourKeys| keys.entries[5].party = 6,
    ] {
        let fault = keys_changed(semi_honest(), change);
        assert!(matches!(fault.kind, FaultKind::Malformed { .. }), "{fault}");
    }
}

/// Party 0 receives shares after `change`; gives its fault.
fn shares_changed(change: impl FnOnce(&mut SharesIn, &Rig)) -> Fault {
    let mut rig = Rig::at(active(6), SHARE_KEYS);
    rig.serve().unwrap();
    let message = rig.down[&PartyId(0)].clone();
    let mut shares: SharesIn = decode("shares", body(&message)).unwrap();
    change(&mut shares, &rig);
    let message = with_body(&message, &encode("shares", &shares).unwrap());
    let fault = rig.answer_to(PartyId(0), &message).unwrap_err();
    assert!(
        !rig.up.contains_key(&PartyId(0)),
        "no masked vector was sent"
    );
    assert_ended(&mut rig, PartyId(0));
    if let FaultKind::Sealed { from } = fault.kind {
        let entry = shares.sealed.iter().find(|entry| entry.party == from.0);
        let evidence = fault.evidence.as_ref().unwrap();
        assert_eq!(evidence.bytes(), entry.unwrap().sealed.as_slice());
    }
    fault
}

/// Case 8: what party 0 sealed for 1 comes back to 0; what 1 sealed for 2 comes to 0; a bit is flipped;
/// a share of another round.
#[test]
fn case_08_sealed_shares_moved() {
    let sealed = |fault: Fault| {
        assert_eq!(fault.culprit, Culprit::ServerOr(PartyId(1)));
        assert_eq!(fault.kind, FaultKind::Sealed { from: PartyId(1) });
    };
    let delivered_to = |rig: &Rig, to: u32, from: u32| {
        let shares: SharesIn = decode("shares", body(&rig.down[&PartyId(to)])).unwrap();
        shares
            .sealed
            .into_iter()
            .find(|entry| entry.party == from)
            .unwrap()
            .sealed
    };
    sealed(shares_changed(|shares, rig| {
        shares.sealed[0].sealed = delivered_to(rig, 1, 0)
    }));
    sealed(shares_changed(|shares, rig| {
        shares.sealed[0].sealed = delivered_to(rig, 2, 1)
    }));
    sealed(shares_changed(|shares, _| {
        let mut bytes = shares.sealed[0].sealed.as_slice().to_vec();
        bytes[20] ^= 1;
        shares.sealed[0].sealed = bytes.into();
    }));
    sealed(shares_changed(|shares, _| {
        let mut earlier = Rig::new(active(6), 55);
        earlier.serve().unwrap();
        earlier.answer_all().unwrap();
        earlier.serve().unwrap();
        shares.sealed[0].sealed = delivered_to(&earlier, 0, 1);
    }));
}

/// Case 51: a holder that reveals wrong shares is found out and named once; the sum is exact all the same. The
/// owner of the first one is named with it: it may have dealt a wrong one to frame the holder.
#[test]
fn case_51_wrong_shares_are_corrected_and_named_once() {
    let mut rig = Rig::at(active(10), UNMASK);
    let message = rig.up[&PartyId(4)].clone();
    let mut revealed: Revealed = decode("revealed", body(&message)).unwrap();
    revealed
        .shares
        .iter_mut()
        .for_each(|entry| entry.share[0] ^= 1);
    rig.up.insert(
        PartyId(4),
        with_body(&message, &encode("revealed", &revealed).unwrap()),
    );
    let outcome = rig.finish().unwrap();
    assert_eq!(outcome.sum, Some(rig.cohort.sum_of(parties(0..10))));
    let owner = PartyId(0);
    let kind = FaultKind::WrongShare { owner };
    let culprit = Culprit::OneOf(PartyId(4), owner);
    assert_eq!(outcome.faults, [Fault::new(culprit, kind)]);
}

/// Too many liars: a named abort, never a wrong sum.
#[test]
fn too_many_wrong_shares_end_the_round() {
    let mut rig = Rig::at(active(10), UNMASK);
    for liar in 2..7 {
        let message = rig.up[&PartyId(liar)].clone();
        let mut revealed: Revealed = decode("revealed", body(&message)).unwrap();
        revealed
            .shares
            .iter_mut()
            .for_each(|entry| entry.share[0] ^= liar as u8);
        rig.up.insert(
            PartyId(liar),
            with_body(&message, &encode("revealed", &revealed).unwrap()),
        );
    }
    let fault = rig.finish().unwrap_err();
    assert_eq!(fault.kind, FaultKind::BadShares { owner: PartyId(0) });
}
