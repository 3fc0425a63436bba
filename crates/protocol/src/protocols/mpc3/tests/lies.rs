//! Parties whose vectors are too long, a root that lies, and a server that does not keep to the protocol, where servers
//! compute more than a sum.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use blindsum_crypto::mask::apply_masks;
use blindsum_crypto::secret::Secret;
use blindsum_math::words::{TileMut, Words};
use blindsum_sharing::replicated::Dealer;

use super::super::upload::Uploads;
use super::super::{TAG, has_keys};
use super::rules::{BOTH, assert_right, fltrust, rig, rules, with};
use crate::kit::vector::pack_mapped;
use crate::testing::{Rig, body, with_body};
use crate::{
    Adversary, Culprit, FaultKind, JobSpec, Message, Mpc3, PartyId, RuleName, ServerIndex,
    ServerRole,
};

fn clipped() -> Mpc3 {
    Mpc3 {
        rule: RuleName::Clipped,
        ..Mpc3::default()
    }
}

/// The same level for each coordinate.
fn fill(words: &mut Words, level: u64) {
    let levels = vec![level; words.len()];
    *words = Words::from_values(words.width(), &levels).unwrap();
}

/// As long as words allow.
fn lengthen(words: &mut Words) {
    fill(words, words.width().mask());
}

/// Abuse case 38: a party whose vector is longer than any honest one is left out and named; the others have their result.
#[test]
fn case_38_a_vector_that_is_too_long_is_left_out_and_named() {
    for options in rules() {
        let sorts = [RuleName::Median, RuleName::TrimmedMean].contains(&options.rule);
        let what = format!("{options:?}");
        let spec = JobSpec {
            parties: 7,
            min_parties: 5,
            ..with(options, Adversary::Active)
        };
        let mut rig = rig(spec, 7, |inputs| lengthen(&mut inputs[2]));
        let outcome = rig.finish().unwrap();
        let named: Vec<Culprit> = outcome.faults.iter().map(|it| it.culprit).collect();
        match sorts {
            // Coordinates are taken modulo 2^bits, each by itself.
            true => assert_eq!(outcome.survivors.len(), 7, "{what}"),
            false => {
                assert_eq!(named, [Culprit::Party(PartyId(2))], "{what}");
                assert_eq!(outcome.survivors.len(), 6, "{what}");
                assert_right(&rig, &outcome, &what);
            }
        }
    }
}

#[test]
fn case_38_too_few_that_are_short_enough_open_nothing() {
    let spec = with(fltrust(), Adversary::Active);
    let mut rig = rig(spec, 7, |inputs| inputs[..3].iter_mut().for_each(lengthen));
    let need = rig.cohort.round.job().min_parties();
    let said = Arc::new(AtomicUsize::new(0));
    let letters = said.clone();
    rig.on_letter = Box::new(move |_, _, letter| {
        letters.fetch_add(1, Ordering::Relaxed);
        Some(letter)
    });
    let fault = rig.finish().unwrap_err();
    assert_eq!(fault.culprit, Culprit::Party(PartyId(0)));
    let few = format!("Only 3 of {need} parties");
    assert!(fault.to_string().contains(&few), "{fault}");
    // The last letters of a round are those that open something, and were not said.
    assert!(said.load(Ordering::Relaxed) < 6 * 39, "{said:?}");
}

/// Abuse case 38: nobody can make a vector that fits the rows of the gate, since they are others in each round. Of vectors
/// like this one about half are thrown out.
#[test]
fn case_38_the_gate_has_other_rows_in_each_round() {
    let passes = |seed: u64| {
        let spec = JobSpec {
            parties: 7,
            min_parties: 5,
            ..with(clipped(), Adversary::SemiHonest)
        };
        // 95,001 for each of nine coordinates. Five times that is below β = 2^19, six times is above it: the vector fails if
        // there is a row among the 80 whose signs have a sum beyond 5, which has probability 0.45.
        let level = (95_001 + (1 << 16) - 1) / 2;
        let mut rig = rig(spec, seed, |inputs| fill(&mut inputs[2], level));
        rig.finish().unwrap().survivors.contains(PartyId(2))
    };
    let passed = (1..=20).filter(|seed| passes(*seed)).count();
    assert!((4..=16).contains(&passed), "{passed} of 20");
}

/// The upload with another norm of the root.
fn with_norm(upload: &Message, norm: f64) -> Message {
    let at = 3 * 32;
    let mut changed = body(upload).to_vec();
    changed[at..at + 8].copy_from_slice(&norm.to_be_bytes());
    with_body(upload, &changed)
}

/// Abuse case 38: the root's norm is in what servers compare.
#[test]
fn case_38_the_norm_of_the_root_is_that_which_it_said() {
    let mut rig = rig(with(fltrust(), Adversary::SemiHonest), 7, |_| ());
    let root = PartyId(4);
    let key = (root, ServerRole::Second);
    let changed = with_norm(&rig.parts[&key], 3.0);
    rig.parts.insert(key, changed);
    let fault = rig.finish().unwrap_err();
    let root = "party-00004".into();
    assert_eq!(fault.kind, FaultKind::RootMissing { root });
}

/// Abuse case 38: no server takes a norm of the root that no vector has, also where all servers are told the same one.
#[test]
fn case_38_the_norm_of_the_root_is_that_of_a_vector() {
    let root = PartyId(4);
    let outcome = |norm: f64| {
        let mut rig = rig(with(fltrust(), Adversary::SemiHonest), 7, |_| ());
        let own = with_norm(&rig.up[&root], norm);
        rig.up.insert(root, own);
        for role in [ServerRole::Second, ServerRole::Third] {
            let part = with_norm(&rig.parts[&(root, role)], norm);
            rig.parts.insert((root, role), part);
        }
        rig.finish()
    };
    // t + 2√9.
    let longest = f64::from((1 << 16) - 2 + 6);
    for wrong in [f64::NAN, -1.0, -0.0, 0.0, 1e-320, 0.99, longest + 0.5, 1e9] {
        let kind = outcome(wrong).unwrap_err().kind;
        let root = "party-00004".into();
        assert_eq!(kind, FaultKind::RootMissing { root }, "{wrong}");
    }
    // 2^-40 is that of a vector of zeros.
    for right in [1.0, longest, f64::powi(2.0, -40)] {
        assert!(outcome(right).is_ok(), "{right}");
    }
}

/// What the root gives if it shares what `lie` makes of its levels.
fn share_as_root(rig: &mut Rig, root: PartyId, lie: impl Fn(u64) -> u64 + Sync) {
    let setup = Arc::new(rig.cohort.setup(root));
    let dealer = Dealer::new(root.0, &mut rig.rng);
    let masks = dealer.masks();
    let mask = |lane: u64, tile: TileMut<'_>| apply_masks(&masks, lane, tile);
    let packed = {
        let input = rig.cohort.input(root);
        pack_mapped(rig.cohort.round.job(), &*input, |_, level| lie(level), mask).unwrap()
    };
    let uploads = Uploads::new(&setup, dealer, packed, Some(1000.0));
    let key = has_keys(setup.round.job()).then(|| Secret::from([7; TAG]));
    let own = with_body(&rig.up[&root], &uploads.to(ServerIndex::ALL[0], None));
    rig.up.insert(root, own);
    for role in [ServerRole::Second, ServerRole::Third] {
        let part = uploads.to(role.place().unwrap(), key.as_ref());
        let part = with_body(&rig.parts[&(root, role)], &part);
        rig.parts.insert((root, role), part);
    }
}

/// Abuse case 38: a root that shares other words than a direction is named, and nothing is shown.
#[test]
fn case_38_a_root_that_shares_no_direction_is_named() {
    let root = PartyId(4);
    let outcome = |adversary, lie: fn(u64) -> u64| {
        let mut rig = rig(with(fltrust(), adversary), 7, |_| ());
        share_as_root(&mut rig, root, lie);
        // It has no keys for what it is told.
        rig.clients.remove(&root);
        rig.finish()
    };
    // Nine coordinates of a third of 2^26.
    let honest = |_| (1 << 26) / 3;
    let wrong: [fn(u64) -> u64; 5] = [
        |level| level,
        |_| 0,
        |_| 1 << 62,
        |_| (1 << 26) / 2,
        |level| level.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    ];
    for adversary in BOTH {
        let right = outcome(adversary, honest);
        assert!(right.is_ok(), "{adversary}: {right:?}");
        for (number, wrong) in wrong.into_iter().enumerate() {
            let fault = outcome(adversary, wrong).unwrap_err();
            let culprit = Culprit::Party(root);
            assert_eq!(fault.culprit, culprit, "{adversary}, {number}: {fault}");
            assert!(fault.to_string().contains("direction"), "{fault}");
        }
    }
}

/// Abuse case 38: a party divides by no divisor but a number above 0, where no tag tells it that the coordinator lies.
#[test]
fn case_38_a_divisor_is_a_number_above_0() {
    let told = || {
        let mut rig = rig(with(clipped(), Adversary::SemiHonest), 7, |_| ());
        rig.serve().unwrap();
        rig.serve().unwrap();
        rig
    };
    let honest = told().down[&PartyId(1)].clone();
    let (rest, divisor) = body(&honest).split_last_chunk().unwrap();
    assert_eq!(
        f64::from_bits(u64::from_le_bytes(*divisor)),
        6.0 * 2f64.powi(28)
    );
    let answer = |divisor: f64| {
        let changed = [rest, &divisor.to_bits().to_le_bytes()].concat();
        told().answer_to(PartyId(1), &with_body(&honest, &changed))
    };
    for wrong in [
        0.0,
        -0.0,
        -1.0,
        1e-320,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ] {
        let fault = answer(wrong).unwrap_err();
        assert_eq!(fault.culprit, Culprit::Server);
        assert!(fault.to_string().contains("divisor"), "{wrong}: {fault}");
    }
    assert!(answer(1.0).is_ok());
}

/// Abuse case 38: any letter of any server changed or lost while the servers compute. No wrong result comes out.
#[test]
fn case_38_a_changed_letter_gives_no_wrong_result() {
    let play = |place: usize, lost: bool| {
        let spec = JobSpec {
            parties: 5,
            dim: 3,
            ..with(fltrust(), Adversary::Active)
        };
        let mut rig = rig(spec, 7, |_| ());
        let said = Arc::new(AtomicUsize::new(0));
        let number = said.clone();
        rig.on_letter = Box::new(move |_, _, letter| {
            if number.fetch_add(1, Ordering::Relaxed) != place {
                return Some(letter);
            }
            let mut changed = body(&letter).to_vec();
            let at = place * 7919 % (changed.len() - 4);
            changed[at] ^= 1 << (place % 8);
            (!lost).then(|| with_body(&letter, &changed))
        });
        let outcome = rig.finish();
        (rig, outcome, said.load(Ordering::Relaxed))
    };
    let (rig, outcome, letters) = play(usize::MAX, false);
    assert_right(&rig, &outcome.unwrap(), "honest");
    // Two rounds to agree, one for the gate's coin, and those of the rule, of which one tells that the root is a direction.
    assert_eq!(letters, 6 * 40);
    for (place, lost) in (0..letters).map(|place| (place, place % 9 == 0)) {
        let (rig, outcome, _) = play(place, lost);
        // What changes nothing but the rounding, or a byte that nobody reads, is harmless.
        if let Ok(outcome) = outcome {
            assert_right(&rig, &outcome, &format!("letter {place} of {letters}"));
        }
    }
}

/// Abuse case 32: a server that shows each of the others another key gets no further than the hashes.
#[test]
fn case_32_different_keys_compute_nothing() {
    let spec = with(fltrust(), Adversary::SemiHonest);
    let mut rig = rig(spec, 7, |_| ());
    let liar = ServerIndex::ALL[1];
    let computed = Arc::new(AtomicUsize::new(0));
    let letters = computed.clone();
    rig.on_letter = Box::new(move |from, to, letter| {
        let mut changed = body(&letter).to_vec();
        let end = changed.len() - 4;
        let number = u32::from_be_bytes(changed[end..].try_into().unwrap());
        if from != liar && number > 1 {
            letters.fetch_add(1, Ordering::Relaxed);
        }
        if from == liar && to == liar.next() && number == 0 {
            changed[end - 32..end].fill(9);
            return Some(with_body(&letter, &changed));
        }
        Some(letter)
    });
    assert!(rig.finish().is_err());
    assert_eq!(computed.load(Ordering::Relaxed), 0);
}

/// Abuse case 32: a list that says something of a party which it does not have is refused, so that lists of the same
/// parties are the same bytes.
#[test]
fn case_32_a_list_says_nothing_of_parties_that_are_not_in_it() {
    let mut rig = rig(with(fltrust(), Adversary::SemiHonest), 7, |_| ());
    rig.on_letter = Box::new(move |from, _, letter| {
        let mut changed = body(&letter).to_vec();
        if from == ServerIndex::ALL[1] && changed.ends_with(&[0; 4]) {
            changed[0] &= !(1 << 5);
            return Some(with_body(&letter, &changed));
        }
        Some(letter)
    });
    let fault = rig.finish().unwrap_err();
    assert!(fault.to_string().contains("not in the list"), "{fault}");
}
