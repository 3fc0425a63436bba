//! What the servers make of vectors by each rule is what it is in the clear, as far as their numbers are exact.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use blindsum_math::words::Words;

use super::spec;
use crate::testing::{Rig, body, parties};
use crate::{
    Adversary, Clipping, Culprit, FaultKind, Integers, JobSpec, Mpc3, Outcome, PartyId, Quantised,
    RoundingName, RuleName, Server, ServerRole, TruncationName, TrustName,
};

pub(super) const BOTH: [Adversary; 2] = [Adversary::SemiHonest, Adversary::Active];

/// Rules that compute, with their options.
fn rules() -> Vec<Mpc3> {
    let of = |rule| Mpc3 {
        rule,
        ..Mpc3::default()
    };
    vec![
        of(RuleName::Clipped),
        Mpc3 {
            norm: 0.4,
            ..of(RuleName::Clipped)
        },
        fltrust(),
        Mpc3 {
            trust: TrustName::Hidden,
            ..fltrust()
        },
        Mpc3 {
            truncation: TruncationName::Exact,
            ..fltrust()
        },
        of(RuleName::Krum),
        Mpc3 {
            bad: 2,
            ..of(RuleName::MultiKrum)
        },
        of(RuleName::Median),
        of(RuleName::TrimmedMean),
        of(RuleName::Cosine),
    ]
}

/// Compared with the vector of party 4.
fn fltrust() -> Mpc3 {
    Mpc3 {
        rule: RuleName::FlTrust,
        root: "party-00004".into(),
        ..Mpc3::default()
    }
}

pub(super) fn with(options: Mpc3, adversary: Adversary) -> JobSpec {
    JobSpec {
        protocol: options.into(),
        encoding: Quantised {
            clipping: Clipping::L2,
            clip: 2.0,
            rounding: RoundingName::Nearest,
            ..Default::default()
        }
        .into(),
        ..spec(adversary)
    }
}

/// A round whose vectors are as short as the encoding makes them, but for those that `lie` changes.
pub(super) fn rig(spec: JobSpec, seed: u64, lie: impl FnOnce(&mut Vec<Words>)) -> Rig {
    Rig::lying(spec, seed, |inputs| {
        for words in inputs.iter_mut() {
            let short = |word| (1 << 15) + word % (1 << 13);
            let levels: Vec<u64> = words.iter().map(short).collect();
            *words = Words::from_values(words.width(), &levels).unwrap();
        }
        lie(inputs);
    })
}

/// As long as words allow.
fn lengthen(words: &mut Words) {
    let levels = vec![words.width().mask(); words.len()];
    *words = Words::from_values(words.width(), &levels).unwrap();
}

/// The mean that parties are told is that in the clear.
pub(super) fn assert_right(rig: &Rig, outcome: &Outcome, what: &str) {
    let round = &rig.cohort.round;
    let (sum, survivors) = (outcome.sum.as_ref().unwrap(), &outcome.survivors);
    let mut mean = vec![0.0f64; round.job().spec().dim as usize];
    let total = round.decode_mean(sum, survivors.len(), &mut mean).unwrap();
    assert_eq!(total, survivors.len() as u64);
    let encoded = |party: PartyId| (party, rig.cohort.inputs[party.rank()].clone());
    let encoded: Vec<(PartyId, Words)> = survivors.iter().map(encoded).collect();
    let expected = round.in_the_clear(&encoded).unwrap();
    assert!(expected.error < 5.0, "{what}: {}", expected.error);
    for (found, mean) in mean.iter().zip(&expected.mean) {
        let off = (found - mean).abs();
        assert!(
            off <= expected.error,
            "{what}: {found}, not {mean}, within {}",
            expected.error
        );
    }
}

#[test]
fn every_rule_is_that_in_the_clear() {
    for (options, adversary) in rules()
        .into_iter()
        .flat_map(|it| BOTH.map(|who| (it.clone(), who)))
    {
        let what = format!("{options:?} {adversary}");
        let mut rig = rig(with(options, adversary), 5, |_| ());
        let outcome = rig.finish().unwrap();
        assert_eq!(outcome.survivors.len(), 6, "{what}");
        assert!(outcome.faults.is_empty(), "{what}: {:?}", outcome.faults);
        assert_right(&rig, &outcome, &what);
    }
}

/// The plan has room for the letters of as many vectors as are usual.
#[test]
fn letters_are_not_longer_than_the_plan_says() {
    for (options, adversary) in rules()
        .into_iter()
        .flat_map(|it| BOTH.map(|who| (it.clone(), who)))
    {
        let spec = JobSpec {
            parties: 17,
            dim: 3,
            ..with(options, adversary)
        };
        // The rig compares each letter with the plan.
        rig(spec, 5, |_| ()).finish().unwrap();
    }
}

#[test]
fn whoever_vanishes_is_left_out_of_every_rule() {
    for options in rules() {
        let what = format!("{options:?}");
        let spec = JobSpec {
            parties: 7,
            min_parties: 5,
            ..with(options, Adversary::Active)
        };
        let mut rig = rig(spec, 6, |_| ());
        rig.drop_out([PartyId(1)]);
        rig.parts.remove(&(PartyId(3), ServerRole::Third));
        let outcome = rig.finish().unwrap();
        let survivors: Vec<PartyId> = outcome.survivors.iter().collect();
        assert_eq!(survivors, parties([0, 2, 4, 5, 6]).collect::<Vec<_>>());
        assert_right(&rig, &outcome, &what);
    }
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
    assert_eq!(fault.kind, FaultKind::TooFewSurvivors { have: 3, need });
    // The last letters of a round are those that open something, and were not said.
    assert!(said.load(Ordering::Relaxed) < 234, "{said:?}");
}

#[test]
fn without_the_root_there_is_no_result() {
    let spec = JobSpec {
        parties: 8,
        ..with(fltrust(), Adversary::Active)
    };
    let mut rig = rig(spec, 7, |_| ());
    rig.drop_out([PartyId(4)]);
    let fault = rig.finish().unwrap_err();
    assert!(fault.to_string().contains("party 4"), "{fault}");
    let spec = with(
        Mpc3 {
            root: "nobody".into(),
            ..fltrust()
        },
        Adversary::Active,
    );
    let cohort = crate::testing::Cohort::new(spec, 7);
    let fault = Server::start(cohort.round.clone()).err().unwrap();
    assert!(fault.to_string().contains("nobody"), "{fault}");
}

/// Abuse case 38: the root's norm is in what servers compare, and is a norm that a vector can have.
#[test]
fn case_38_the_norm_of_the_root_is_that_which_it_said() {
    let at = 3 * 32;
    for norm in [f64::NAN, 0.0, 1e-320, -1.0, f64::INFINITY, 1e9, 3.0] {
        let mut rig = rig(with(fltrust(), Adversary::SemiHonest), 7, |_| ());
        let key = (PartyId(4), ServerRole::Second);
        let mut changed = body(&rig.parts[&key]).to_vec();
        changed[at..at + 8].copy_from_slice(&norm.to_be_bytes());
        let changed = crate::testing::with_body(&rig.parts[&key], &changed);
        rig.parts.insert(key, changed);
        assert!(rig.finish().is_err(), "{norm}");
    }
}

#[test]
fn what_cannot_be_computed_is_refused_by_the_job() {
    let refused = |change: &dyn Fn(&mut JobSpec, &mut Mpc3, &mut Quantised)| {
        let (mut options, mut encoding) = (
            fltrust(),
            Quantised {
                clipping: Clipping::L2,
                ..Default::default()
            },
        );
        let mut spec = spec(Adversary::Active);
        change(&mut spec, &mut options, &mut encoding);
        if !matches!(spec.encoding, crate::EncodingChoice::Integers(_)) {
            spec.encoding = encoding.into();
        }
        spec.protocol = options.into();
        spec.validate()
            .map(|_| String::new())
            .unwrap_or_else(|e| e.to_string())
    };
    let says = |text: String, words: &[&str]| {
        for word in words {
            assert!(text.contains(word), "{text:?} lacks {word:?}");
        }
    };
    assert_eq!(refused(&|_, _, _| ()), "");
    says(
        refused(&|_, it, _| it.root.clear()),
        &["root", "name of a party"],
    );
    says(refused(&|_, it, _| it.root = "No Name".into()), &["root"]);
    says(refused(&|_, it, _| it.noise = 0.5), &["noise", "fedavg"]);
    says(
        refused(&|_, it, encoding| {
            *it = Mpc3 {
                noise: 1.0,
                ..Mpc3::default()
            };
            encoding.clipping = Clipping::Tensor;
            let layout = |len, clip| crate::TensorLayout {
                name: String::new(),
                len,
                clip,
            };
            encoding.tensors = vec![layout(4, 1.0), layout(5, 9.0)];
        }),
        &["tensors", "noise"],
    );
    for (rule, noise) in [
        (RuleName::FedAvg, 1e-7),
        (RuleName::Clipped, 1e5),
        (RuleName::FedAvg, -1.0),
        (RuleName::FedAvg, f64::NAN),
    ] {
        let text = refused(&|_, it, encoding| {
            *it = Mpc3 {
                rule,
                noise,
                ..Mpc3::default()
            };
            encoding.bits = 22;
        });
        says(text, &["noise"]);
    }
    says(refused(&|_, it, _| it.norm = 0.5), &["norm", "clipped"]);
    says(refused(&|_, it, _| it.bad = 1), &["bad", "krum"]);
    says(
        refused(&|_, it, _| it.rule = RuleName::Krum),
        &["root", "fltrust"],
    );
    let of = |it: &mut Mpc3, rule| {
        *it = Mpc3 {
            rule,
            ..Mpc3::default()
        };
    };
    says(
        refused(&|_, it, _| {
            of(it, RuleName::Median);
            it.trust = TrustName::Hidden;
        }),
        &["trust", "fltrust"],
    );
    says(
        refused(&|_, it, encoding| {
            of(it, RuleName::Clipped);
            it.norm = 1.5;
            encoding.clip = 1.0;
        }),
        &["norm = 1.5 <= 1.00"],
    );
    says(
        refused(&|_, it, _| {
            of(it, RuleName::Clipped);
            it.norm = 1e-9;
        }),
        &["<= norm = 0.000000001 must hold"],
    );
    says(
        refused(&|_, it, _| of(it, RuleName::Weighted)),
        &["max_weight > 1"],
    );
    says(
        refused(&|_, _, encoding| encoding.max_weight = 2),
        &["max_weight must be 1"],
    );
    // Nine coordinates at their bounds are three times as long as one.
    let tensors = |encoding: &mut Quantised, bits| {
        (encoding.clipping, encoding.bits) = (Clipping::Tensor, bits);
    };
    assert_eq!(refused(&|_, _, encoding| tensors(encoding, 22)), "");
    says(
        refused(&|_, _, encoding| tensors(encoding, 23)),
        &["bits", "2^24", "clipping = l2"],
    );
    says(
        refused(&|_, _, encoding| {
            tensors(encoding, 8);
            let layout = |len| crate::TensorLayout {
                name: String::new(),
                len,
                clip: 1.0,
            };
            encoding.tensors = vec![layout(4), layout(5)];
        }),
        &["tensors", "must be empty"],
    );
    says(
        refused(&|_, _, encoding| encoding.bits = 24),
        &["bits", "2^24"],
    );
    says(
        refused(&|spec, _, _| {
            spec.encoding = Integers::default().into();
            spec.model_update = crate::ModelUpdate::Nothing;
        }),
        &["encoding", "quantised"],
    );
    says(
        refused(&|_, it, _| {
            of(it, RuleName::MultiKrum);
            it.bad = 4;
        }),
        &["bad = 4 needs 7 parties", "parties = 6"],
    );
    says(
        refused(&|spec, it, _| {
            of(it, RuleName::Krum);
            spec.parties = 49;
        }),
        &["parties", "n <= 48"],
    );
    says(
        refused(&|_, it, _| {
            of(it, RuleName::TrimmedMean);
            it.bad = 3;
        }),
        &["bad = 3 needs 9 parties"],
    );
}

/// Abuse case 39: noise that no server knows is in what is shown, as much as the job says, and in both modes.
#[test]
fn case_39_results_have_the_noise_of_the_job() {
    for (rule, adversary) in [RuleName::FedAvg, RuleName::Clipped].into_iter().zip(BOTH) {
        let options = Mpc3 {
            rule,
            noise: 0.5,
            ..Mpc3::default()
        };
        let spec = JobSpec {
            dim: 3000,
            ..with(options, adversary)
        };
        let mut rig = Rig::lying(spec, 7, |inputs| {
            for words in inputs {
                *words = Words::from_values(words.width(), &vec![1 << 15; words.len()]).unwrap();
            }
        });
        let outcome = rig.finish().unwrap();
        assert_right(&rig, &outcome, rule.as_str());
        let mut mean = vec![0.0f64; 3000];
        let sum = outcome.sum.as_ref().unwrap();
        rig.cohort.round.decode_mean(sum, 6, &mut mean).unwrap();
        // The longest vector has the norm 2 and some rounding; three components of half of that, over six parties.
        let expected = 3.0 * (0.5f64 * 2.0 / 6.0).powi(2);
        let ratio = mean.iter().map(|it| it * it).sum::<f64>() / 3000.0 / expected;
        assert!(
            (ratio - 1.0).abs() < 5.0 * (2.0f64 / 3000.0).sqrt(),
            "{rule}: {ratio}"
        );
    }
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
            (!lost).then(|| crate::testing::with_body(&letter, &changed))
        });
        let outcome = rig.finish();
        (rig, outcome, said.load(Ordering::Relaxed))
    };
    let (rig, outcome, letters) = play(usize::MAX, false);
    assert_right(&rig, &outcome.unwrap(), "honest");
    // Two rounds to agree, one for the gate's coin, and those of the rule.
    assert_eq!(letters, 6 * 39);
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
    let liar = crate::ServerIndex::ALL[1];
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
            return Some(crate::testing::with_body(&letter, &changed));
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
        if from == crate::ServerIndex::ALL[1] && changed.ends_with(&[0; 4]) {
            changed[0] &= !(1 << 5);
            return Some(crate::testing::with_body(&letter, &changed));
        }
        Some(letter)
    });
    let fault = rig.finish().unwrap_err();
    assert!(fault.to_string().contains("not in the list"), "{fault}");
}
