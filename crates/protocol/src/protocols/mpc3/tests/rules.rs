//! What the servers make of vectors by each rule is what it is in the clear, as far as their numbers are exact;
//! and which rules a job refuses.

use std::sync::{Arc, Mutex};

use blindsum_math::words::Words;

use super::spec;
use crate::testing::{Rig, body, parties};
use crate::{
    Adversary, Clipping, Integers, JobSpec, Mpc3, Outcome, PartyId, Quantised, RoundingName,
    RuleName, Server, ServerRole, TruncationName, TrustName,
};

pub(super) const BOTH: [Adversary; 2] = [Adversary::SemiHonest, Adversary::Active];

/// Rules that compute, with their options.
pub(super) fn rules() -> Vec<Mpc3> {
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
pub(super) fn fltrust() -> Mpc3 {
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
        shorten(inputs);
        lie(inputs);
    })
}

/// Makes vectors as short as the encoding does.
pub(super) fn shorten(inputs: &mut [Words]) {
    for words in inputs.iter_mut() {
        let short = |word| (1 << 15) + word % (1 << 13);
        let levels: Vec<u64> = words.iter().map(short).collect();
        *words = Words::from_values(words.width(), &levels).unwrap();
    }
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

#[test]
fn without_the_root_there_is_no_result() {
    let spec = JobSpec {
        parties: 8,
        ..with(fltrust(), Adversary::Active)
    };
    let mut rig = rig(spec, 7, |_| ());
    rig.drop_out([PartyId(4)]);
    let fault = rig.finish().unwrap_err();
    assert!(fault.to_string().contains("party-00004"), "{fault}");
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

#[test]
fn case_24_what_cannot_be_computed_is_refused_by_the_job() {
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
    for (rule, noise, what) in [
        (RuleName::FedAvg, 1e-7, "from 1 to 2^56"),
        (RuleName::Clipped, 1e5, "from 1 to 2^56"),
        // 64 is 2^56; 6 vectors of 2^50 besides are too much.
        (RuleName::Clipped, 63.95, "below 2^62: choose fewer bits"),
        (RuleName::FedAvg, -1.0, "noise"),
        (RuleName::FedAvg, f64::NAN, "noise"),
    ] {
        let text = refused(&|_, it, encoding| {
            *it = Mpc3 {
                rule,
                noise,
                ..Mpc3::default()
            };
            encoding.bits = 22;
        });
        says(text, &["noise", what]);
    }
    // 64 standard deviations of 10^6 · 10^30 · √10,000 / 6 are more than a float32 holds, of 10^5 they are not; nor are they
    // of means that are doubles.
    for (noise, bits, what) in [(1e6, 8, "largest float32"), (1e5, 8, ""), (1e6, 25, "")] {
        let text = refused(&|spec, it, encoding| {
            *it = Mpc3 {
                noise,
                ..Mpc3::default()
            };
            spec.dim = 10_000;
            (encoding.clip, encoding.bits) = (1e30, bits);
            encoding.clipping = Clipping::Tensor;
        });
        says(text.clone(), &[what]);
        assert_eq!(text.is_empty(), what.is_empty(), "{text}");
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
    // One of 1.9 is 1.9 times as long.
    let short = |encoding: &mut Quantised, max_norm| {
        tensors(encoding, 23);
        encoding.max_norm = max_norm;
    };
    assert_eq!(refused(&|_, _, encoding| short(encoding, 1.9)), "");
    says(
        refused(&|_, _, encoding| short(encoding, 2.1)),
        &[
            "bits",
            "max_norm / clip) = 17616075 <= 2^24",
            "smaller max_norm",
        ],
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
        &[
            "too few with rule = multi-krum and 4 bad vectors",
            "at least 7",
        ],
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
        &[
            "too few with rule = trimmed-mean and 3 bad vectors",
            "at least 9",
        ],
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

/// Abuse case 39: noise is that of the survivors. Other survivors have other noise, also where the servers have the same
/// keys: the difference of two results is not the vector of a party.
#[test]
fn case_39_other_survivors_have_other_noise() {
    let play = |without: Option<PartyId>| {
        let options = Mpc3 {
            noise: 0.5,
            ..Mpc3::default()
        };
        let spec = JobSpec {
            parties: 7,
            min_parties: 5,
            ..with(options, Adversary::SemiHonest)
        };
        let mut rig = rig(spec, 7, |_| ());
        rig.drop_out(without);
        let keys = keys_of(&mut rig);
        rig.serve().unwrap();
        rig.serve().unwrap();
        let keys = keys.lock().unwrap().clone();
        (keys, rig.outcome.take().unwrap().sum.unwrap(), rig)
    };
    let (keys, all, rig) = play(None);
    let (again, others, _) = play(Some(PartyId(6)));
    assert_eq!(keys, again);
    let vector = rig.cohort.inputs[6]
        .iter()
        .map(|level| 2 * level as i64 - ((1 << 16) - 1));
    for (at, coordinate) in vector.enumerate() {
        let difference = all.get(at).wrapping_sub(others.get(at));
        assert!(difference.cast_signed() != coordinate, "coordinate {at}");
    }
}

/// The keys that servers say to each other in this round.
pub(super) fn keys_of(rig: &mut Rig) -> Arc<Mutex<Vec<[u8; 32]>>> {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let say = keys.clone();
    rig.on_letter = Box::new(move |_, _, letter| {
        if let Some(list) = body(&letter).strip_suffix(&[0; 4]) {
            say.lock().unwrap().extend(list.last_chunk().copied());
        }
        Some(letter)
    });
    keys
}
