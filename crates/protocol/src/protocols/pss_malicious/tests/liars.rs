//! Parties that lie: each is found out and named, nobody else is, and the sum is that of the others.

use super::*;
use crate::protocols::pss_malicious::messages::JUDGED;

/// Runs a round with these liars; these, and nobody else, must be named for these lies, and left out.
fn found_out(lies: &[(u32, Deviation)], expected: &[(u32, &'static str)], without: &[u32]) {
    found_out_in(&[0, 1], lies, expected, without);
}

/// As [`found_out`], with these of [`specs`].
fn found_out_in(
    which: &[usize],
    lies: &[(u32, Deviation)],
    expected: &[(u32, &'static str)],
    without: &[u32],
) {
    let adversaries = [Adversary::SemiHonest, Adversary::Active];
    let jobs = adversaries.into_iter().flat_map(|adversary| {
        let specs = specs(adversary);
        which.iter().map(move |&of| specs[of].clone())
    });
    for spec in jobs {
        let mut rig = rig(spec, 5, lies);
        let outcome = rig
            .finish()
            .unwrap_or_else(|fault| panic!("{lies:?}: {fault}"));
        assert_eq!(found(&outcome), expected, "{lies:?}");
        assert_sum(&rig, &outcome, without);
        // Whoever shows nothing leaves no evidence, nor does what it showed that nobody signed.
        let mut shown = outcome
            .faults
            .iter()
            .filter(|fault| fault.kind.lie().is_some() && fault.kind != FaultKind::Unshown);
        assert!(shown.all(|fault| fault.evidence.is_some()), "{lies:?}");
    }
}

fn victims<const N: usize>(ranks: [u32; N]) -> Vec<PartyId> {
    parties(ranks).collect()
}

#[test]
fn case_14_vectors_that_are_not_valid() {
    for (lie, test) in [
        (Deviation::BadDegree, "degree"),
        (Deviation::NonBit, "input-bit"),
        (Deviation::WrongSquare, "quadratic"),
        (Deviation::OutOfBound, "input-bound"),
        (Deviation::WrongNorm, "norm"),
    ] {
        found_out_in(&[0], &[(4, lie)], &[(4, test)], &[4]);
    }
}

#[test]
fn case_14_vectors_whose_norm_is_not_valid() {
    for (lie, test) in [
        (Deviation::BadDegree, "degree"),
        (Deviation::NonBit, "projection-bit"),
        (Deviation::WrongSquare, "quadratic"),
        // The sum of squares wraps around, and is right in the field.
        (Deviation::OutOfBound, "projection"),
        (Deviation::CancellingPair, "norm"),
        (Deviation::WrongNorm, "norm"),
    ] {
        found_out_in(&[1], &[(4, lie)], &[(4, test)], &[4]);
    }
}

/// The words of some columns are others than the projections follow from. Who was dealt such a column says that it is unusable, and
/// the prover can show none that is in both of its trees.
#[test]
fn case_14_words_that_were_changed_behind_the_projections() {
    for victims in [victims([7]).to_vec(), victims([0, 7])] {
        let lies = [(3, Deviation::OtherWords(victims))];
        found_out_in(&[1], &lies, &[(3, "silent-discloser")], &[3]);
    }
    let many = [(3, Deviation::OtherWords(victims([0, 7, 8])))];
    found_out_in(&[1], &many, &[(3, "wrong-share")], &[3]);
}

#[test]
fn case_15_words_that_err_in_opposite_directions() {
    found_out_in(
        &[0],
        &[(0, Deviation::CancellingPair)],
        &[(0, "input-bound")],
        &[0],
    );
}

#[test]
fn case_14_the_bounds_themselves_are_accepted() {
    let mut all = cohort(spec(Adversary::Active, 0.5), 9, &[]);
    let norm = all.round.job().encoding().squared_norm().unwrap();
    let square = |word: u64| {
        let v = word as i64 - norm.offset as i64;
        (v * (v + 1)) as u64
    };
    // One party's norm is exactly the bound.
    let mut values = vec![norm.offset; 7];
    let mut left = norm.most;
    for value in &mut values {
        while *value < 255 && square(*value + 1) <= left {
            *value += 1;
        }
        left -= square(*value);
    }
    let reached: u64 = values.iter().map(|value| square(*value)).sum();
    assert!(norm.most - reached < 2, "{reached} of {}", norm.most);
    let width = all.inputs[0].width();
    all.inputs[0] = Words::from_values(width, &values).unwrap();
    let everybody: Vec<u32> = (0..12).collect();
    let mut rig = Rig::of_parties(all, ChaCha20Rng::seed_from_u64(1), &everybody);
    let outcome = rig.finish().unwrap();
    assert_sum(&rig, &outcome, &[]);
}

#[test]
fn case_14_what_is_above_the_bounds_is_refused_before_anything_is_sent() {
    let mut all = cohort(spec(Adversary::Active, 0.5), 9, &[]);
    let width = all.inputs[0].width();
    all.inputs[0] = Words::from_values(width, &[255; 7]).unwrap();
    let everybody: Vec<u32> = (0..12).collect();
    let mut rig = Rig::of_parties(all, ChaCha20Rng::seed_from_u64(1), &everybody);
    rig.serve().unwrap();
    let fault = rig.answer(PartyId(0)).unwrap_err();
    assert_eq!(fault.culprit, Culprit::Caller);
    assert!(
        fault
            .kind
            .to_string()
            .contains("sum of squares must be at most"),
        "{fault}"
    );
    rig.drop_out(parties([0]));
    rig.answer_all().unwrap();
    let outcome = rig.finish().unwrap();
    assert_sum(&rig, &outcome, &[0]);
}

#[test]
fn case_16_wrong_shares_for_one_for_c_and_for_more() {
    found_out(
        &[(3, Deviation::WrongShare(victims([7])))],
        &[(3, "wrong-share")],
        &[3],
    );
    found_out(
        &[(3, Deviation::WrongShare(victims([0, 11])))],
        &[(3, "wrong-share")],
        &[3],
    );
    found_out(
        &[(3, Deviation::WrongShare(victims([0, 5, 11])))],
        &[(3, "wrong-share")],
        &[3],
    );
    // All others have shares of another word, one above.
    let all: Vec<PartyId> = (0..12).filter(|rank| *rank != 3).map(PartyId).collect();
    let all = || Deviation::WrongShare(all.clone());
    found_out_in(&[0], &[(3, all())], &[(3, "input-bound")], &[3]);
    found_out_in(&[1], &[(3, all())], &[(3, "quadratic")], &[3]);
}

/// What is sealed for a victim is rubbish. The prover shows what it committed to, which is right, and nobody can tell who of
/// the two lied: the victim gets its column late, and both stay.
#[test]
fn case_57_rubbish_sealed_for_some() {
    found_out(&[(3, Deviation::Rubbish(victims([7])))], &[], &[]);
    found_out(&[(3, Deviation::Rubbish(victims([0, 7])))], &[], &[]);
    found_out(
        &[(3, Deviation::Rubbish(victims([0, 7, 8])))],
        &[(3, "wrong-share")],
        &[3],
    );
}

#[test]
fn case_16_columns_that_are_none() {
    found_out(
        &[(3, Deviation::NoColumn(victims([7])))],
        &[(3, "wrong-share")],
        &[3],
    );
    found_out(
        &[(3, Deviation::NoColumn(victims([0, 7])))],
        &[(3, "wrong-share")],
        &[3],
    );
}

/// A round without a sum names who was found out in it, by what.
#[test]
fn case_14_a_round_that_ends_for_want_of_vectors_names_who_lied() {
    for lie in [
        Deviation::WrongSquare,
        Deviation::MassAccuser,
        Deviation::WrongShare(victims([7])),
    ] {
        let all = JobSpec {
            min_parties: 12,
            dropout: 0.0,
            ..spec(Adversary::Active, 0.5)
        };
        let fault = rig(all, 5, &[(4, lie.clone())]).finish().unwrap_err();
        assert_eq!(fault.kind, FaultKind::TooFewHonest { have: 11, need: 12 });
        let [found] = fault.found() else {
            panic!("{lie:?}: {:?}", fault.found());
        };
        assert_eq!(found.culprit, Culprit::Party(PartyId(4)));
        assert!(found.evidence.is_some(), "{lie:?}");
    }
}

#[test]
fn case_14_a_round_that_ends_later_names_who_lied() {
    let mut rig = rig_at(
        spec(Adversary::Active, 0.5),
        &[(4, Deviation::WrongSquare)],
        4,
    );
    rig.serve().unwrap();
    rig.drop_out(parties(5..11));
    let fault = rig.finish().unwrap_err();
    assert!(
        matches!(fault.kind, FaultKind::TooFewSurvivors { .. }),
        "{fault}"
    );
    assert_eq!(fault.found().len(), 1);
}

/// It cannot show anything. It is left out, and is no liar for that.
#[test]
fn case_17_an_accused_party_that_was_lost_is_not_asked() {
    for lies in [
        vec![(6, Deviation::LyingVerifier)],
        vec![(6, Deviation::FalseAccuser(victims([3])))],
    ] {
        let mut rig = rig_at(spec(Adversary::Active, 0.5), &lies, 2);
        rig.serve().unwrap();
        rig.drop_out(parties([3]));
        rig.answer_all().unwrap();
        rig.serve().unwrap();
        assert!(!rig.down.contains_key(&PartyId(3)), "{lies:?}");
        // Where it alone is accused nobody is asked.
        if let Deviation::FalseAccuser(_) = lies[0].1 {
            assert_eq!(body(&rig.down[&PartyId(0)])[0], JUDGED);
        }
        rig.answer_all().unwrap();
        let outcome = rig.finish().unwrap();
        let lied = outcome
            .faults
            .iter()
            .filter(|fault| fault.kind.proves_a_lie());
        let lied: Vec<Culprit> = lied.map(|fault| fault.culprit).collect();
        match lies[0].1 {
            Deviation::LyingVerifier => assert_eq!(lied, [Culprit::Party(PartyId(6))]),
            _ => assert_eq!(lied, []),
        }
        assert!(!outcome.survivors.contains(PartyId(3)));
    }
}

#[test]
fn case_17_verifiers_that_lie_about_honest_provers() {
    found_out(
        &[(6, Deviation::LyingVerifier)],
        &[(6, "lying-verifier")],
        &[6],
    );
    found_out(&[(6, Deviation::MassAccuser)], &[(6, "mass-accuser")], &[6]);
    // Accusations that the provers answer cost nobody anything.
    found_out(&[(6, Deviation::FalseAccuser(victims([2, 9])))], &[], &[]);
}

#[test]
fn case_17_provers_that_show_nothing() {
    found_out(
        &[(1, Deviation::SilentDiscloser(victims([4])))],
        &[(1, "silent-discloser")],
        &[1],
    );
}

#[test]
fn case_19_wrong_sums_of_columns() {
    found_out(
        &[(1, Deviation::LyingAggregator)],
        &[(1, "lying-aggregator")],
        &[],
    );
    let two = [
        (1, Deviation::LyingAggregator),
        (8, Deviation::LyingAggregator),
    ];
    found_out(
        &two,
        &[(1, "lying-aggregator"), (8, "lying-aggregator")],
        &[],
    );
}

#[test]
fn case_19_more_liars_than_can_be_corrected_make_no_sum() {
    for adversary in [Adversary::SemiHonest, Adversary::Active] {
        let lies: Vec<(u32, Deviation)> = (0..5)
            .map(|liar| (liar, Deviation::LyingAggregator))
            .collect();
        let fault = rig(spec(adversary, 0.5), 5, &lies).finish().unwrap_err();
        assert!(
            matches!(fault.kind, FaultKind::Undecodable { .. }),
            "{fault}"
        );
    }
}

/// c provers deal wrong shares to different victims, and lie as verifiers and about sums as far as they are still there.
#[test]
fn case_18_provers_with_different_victims() {
    let lies = [
        (2, Deviation::WrongShare(victims([0, 4]))),
        (9, Deviation::WrongShare(victims([5, 7]))),
    ];
    found_out(&lies, &[(2, "wrong-share"), (9, "wrong-share")], &[2, 9]);
    let mixed = [
        (2, Deviation::WrongShare(victims([0, 4]))),
        (9, Deviation::LyingAggregator),
    ];
    found_out(&mixed, &[(2, "wrong-share"), (9, "lying-aggregator")], &[2]);
    let accomplices = [
        (2, Deviation::WrongShare(victims([9]))),
        (9, Deviation::LyingVerifier),
    ];
    found_out(
        &accomplices,
        &[(2, "wrong-share"), (9, "lying-verifier")],
        &[2, 9],
    );
}
