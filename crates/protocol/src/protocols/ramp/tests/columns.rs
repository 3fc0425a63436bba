//! Sealed columns that were moved or changed, and sums of columns that are wrong.

use blindsum_math::words::Words;

use super::*;
use crate::protocols::ramp::messages::sealed_len;
use crate::protocols::ramp::sharing_of;
use crate::{Culprit, Fault, Quantised};

/// Bytes of a sealed column of the rig's round.
fn sealed(rig: &Rig) -> usize {
    sealed_len(sharing_of(&rig.cohort.round).unwrap().column_len())
}

/// Party 0 receives its columns after `change`; gives its fault.
fn changed(change: impl FnOnce(&mut Vec<u8>, &Rig)) -> Fault {
    let mut rig = Rig::at(active(6), SHARE_VECTOR);
    rig.serve().unwrap();
    let message = rig.down[&PartyId(0)].clone();
    let mut bytes = body(&message).to_vec();
    change(&mut bytes, &rig);
    let fault = rig
        .answer_to(PartyId(0), &with_body(&message, &bytes))
        .unwrap_err();
    assert!(!rig.up.contains_key(&PartyId(0)), "no sum was sent");
    assert_ended(&mut rig, PartyId(0));
    if let FaultKind::Sealed { .. } = fault.kind {
        let evidence = fault.evidence.as_ref().unwrap();
        assert_eq!(evidence.length(), sealed(&rig) as u64, "the one column");
    }
    fault
}

/// Case 8: two columns exchanged, a column for another party, one reflected, a bit flipped, one of another
/// round.
#[test]
fn case_08_sealed_columns_moved() {
    let damaged = |party: u32, change: &dyn Fn(&mut Vec<u8>, &Rig)| {
        let fault = changed(change);
        let from = PartyId(party);
        assert_eq!(fault.culprit, Culprit::ServerOr(from));
        assert_eq!(fault.kind, FaultKind::Sealed { from });
    };
    damaged(1, &|bytes, rig| {
        let (first, rest) = bytes[1..].split_at_mut(sealed(rig));
        first.swap_with_slice(&mut rest[..sealed(rig)]);
    });
    damaged(1, &|bytes, rig| {
        // What 1 sealed for 2 comes second in the message to 2.
        let place = 1 + sealed(rig)..1 + 2 * sealed(rig);
        let column = &body(&rig.down[&PartyId(2)])[place];
        bytes[1..1 + sealed(rig)].copy_from_slice(column);
    });
    damaged(1, &|bytes, rig| {
        // What 0 itself sealed for 1.
        let place = 1..1 + sealed(rig);
        bytes[place.clone()].copy_from_slice(&body(&rig.down[&PartyId(1)])[place]);
    });
    damaged(3, &|bytes, rig| bytes[1 + 2 * sealed(rig) + 5] ^= 4);
    damaged(1, &|bytes, rig| {
        let mut earlier = rig.again(1234);
        earlier.serve().unwrap();
        earlier.answer_all().unwrap();
        earlier.serve().unwrap();
        bytes.copy_from_slice(body(&earlier.down[&PartyId(0)]));
    });
}

/// Case 27: messages that are too short or too long, on either side, and elements from p on.
#[test]
fn case_27_lengths_and_elements() {
    for change in [
        |bytes: &mut Vec<u8>| bytes.truncate(bytes.len() - 1),
        |bytes: &mut Vec<u8>| bytes.push(0),
        |bytes: &mut Vec<u8>| bytes.clear(),
    ] {
        let fault = changed(|bytes, _| change(bytes));
        assert!(matches!(fault.kind, FaultKind::Malformed { .. }), "{fault}");
        for stage in [SHARE_VECTOR, aggregate(Adversary::Active)] {
            let fault = answer_changed(stage, change);
            assert!(matches!(fault.kind, FaultKind::Malformed { .. }), "{fault}");
        }
    }
    let text =
        answer_changed(aggregate(Adversary::Active), |bytes| bytes[..4].fill(0xff)).to_string();
    assert!(text.contains("canonical"), "{text}");
}

/// The server receives the answer of party 0 after `change`; gives the fault. The others go on.
fn answer_changed(stage: u8, change: impl FnOnce(&mut Vec<u8>)) -> Fault {
    let mut rig = Rig::at(active(6), stage);
    let message = rig.up.remove(&PartyId(0)).unwrap();
    let mut bytes = body(&message).to_vec();
    change(&mut bytes);
    let message = with_body(&message, &bytes);
    let server = rig.server.as_mut().unwrap();
    let fault = server.receive(PartyId(0), &message).unwrap_err();
    assert_eq!(fault.culprit, Culprit::Party(PartyId(0)));
    let outcome = rig.finish().unwrap();
    assert_eq!(
        outcome.sum,
        Some(rig.cohort.sum_of(outcome.survivors.iter()))
    );
    assert_eq!(outcome.faults, std::slice::from_ref(&fault));
    fault
}

/// A sum of columns that is off is found, left out and reported, as long as the others tell.
#[test]
fn wrong_sums_are_left_out_where_there_are_enough() {
    for variant in VARIANTS {
        // 10 parties, k = 8: one wrong sum in ten can be told.
        let run = |wrong: &[u32]| {
            let mut rig = Rig::at(spec(variant, 10), aggregate(variant.1));
            for &party in wrong {
                let message = rig.up[&PartyId(party)].clone();
                let mut bytes = body(&message).to_vec();
                bytes[0] ^= 1;
                rig.up.insert(PartyId(party), with_body(&message, &bytes));
            }
            let outcome = rig.finish()?;
            assert_eq!(
                outcome.sum,
                Some(rig.cohort.sum_of(outcome.survivors.iter()))
            );
            Ok::<_, Fault>(outcome)
        };
        let outcome = run(&[4]).unwrap();
        let holder = PartyId(4);
        assert_eq!(outcome.survivors.len(), 10);
        assert_eq!(outcome.faults[0].kind, FaultKind::WrongColumn { holder });
        let kind = run(&[4, 5]).unwrap_err().kind;
        let (got, threshold) = (10, 8);
        assert_eq!(kind, FaultKind::Undecodable { got, threshold });
    }
}

/// Case 26: a word beyond what the encoding gives could wrap in the field without a trace; nothing is sent of a
/// vector that has one.
#[test]
fn case_26_words_that_the_field_might_not_hold() {
    for (bits, largest) in [(16, u16::MAX.into()), (32, u64::from(u32::MAX))] {
        let spec = JobSpec {
            encoding: Quantised {
                bits,
                ..Default::default()
            }
            .into(),
            ..spec((ProtocolName::Fssa, Adversary::Active), 10)
        };
        for (word, fits) in [(largest, true), (largest + 1, false)] {
            let mut rig = Rig::at(spec.clone(), 0);
            rig.serve().unwrap();
            let mut values = vec![0; 101];
            values[100] = word;
            let width = rig.cohort.round.job().width();
            rig.cohort.inputs[0] = Words::from_values(width, &values).unwrap();
            let answer = rig.answer(PartyId(0));
            assert_eq!(answer.is_ok(), fits);
            assert_eq!(rig.up.contains_key(&PartyId(0)), fits);
            if let Err(fault) = answer {
                assert_eq!(fault.culprit, Culprit::Caller);
                let text = fault.to_string();
                assert!(text.contains(&format!("at most {largest}")), "{text}");
            }
        }
    }
}
