//! Rules of the job.

use super::*;
use crate::{Flashe, Integers, Masking, ModelUpdate, ProtocolChoice};

fn refused(change: impl FnOnce(&mut JobSpec), field: &str, rule: &str) {
    let mut spec = spec(5);
    change(&mut spec);
    let error = spec.validate().unwrap_err();
    assert_eq!(error.field, field);
    assert!(error.rule.contains(rule), "{error}");
}

#[test]
fn rules_name_the_field() {
    refused(|s| s.parties = 1, "parties", "2 <= parties = 1");
    refused(|s| s.min_parties = 1, "min_parties", "2 <= min_parties");
    refused(
        |s| s.min_parties = 6,
        "min_parties",
        "is 6 and must be at most parties = 5",
    );
    // Two words of 8 bytes a coordinate and one for the weight, and 2^36 bytes of mask.
    let long = |s: &mut JobSpec| {
        let (bits, max_weight) = (64, 2);
        s.encoding = Integers { bits, max_weight }.into();
        (s.dim, s.model_update) = (1 << 32, ModelUpdate::Nothing);
    };
    refused(long, "dim", "D = 8589934593, but D <= 8589934592");
}

#[test]
fn the_cheaper_masking_is_chosen_by_the_dropouts() {
    let masks = |masking, dropout, parties| {
        let spec = JobSpec {
            protocol: Flashe {
                masking,
                ..Default::default()
            }
            .into(),
            dropout,
            ..spec(parties)
        };
        spec.validate().unwrap().parameters()[0]
    };
    let name = "masks";
    // 4 masks a word, or 11.
    assert_eq!(masks(Masking::Cheaper, 0.0, 10), (name, 2));
    // 2 * 5 * 6 / 10 + 2 = 8 masks, or 6.
    assert_eq!(masks(Masking::Cheaper, 0.5, 10), (name, 1));
    assert_eq!(masks(Masking::Single, 0.0, 10), (name, 1));
    assert_eq!(masks(Masking::Double, 0.9, 10), (name, 2));
}

#[test]
fn only_this_protocol_has_a_key_set_up() {
    let job = |protocol| {
        let spec = JobSpec {
            protocol: ProtocolChoice::from(protocol),
            ..spec(5)
        };
        spec.validate().unwrap()
    };
    assert!(job(ProtocolName::Flashe).hides_sum());
    assert_eq!(
        job(ProtocolName::Flashe)
            .key_setup_plan()
            .unwrap()
            .answers()
            .count(),
        3
    );
    let plain = Rig::new(
        JobSpec {
            protocol: ProtocolName::Plain.into(),
            ..spec(5)
        },
        1,
    );
    assert!(!plain.cohort.round.job().hides_sum());
    assert_eq!(plain.cohort.round.job().key_setup_plan(), None);
    let (job, roster) = (plain.cohort.round.job(), plain.cohort.round.roster());
    let Err(fault) = crate::Round::key_setup(job.clone(), 1, roster.clone()) else {
        panic!("plain has no keys");
    };
    assert!(fault.to_string().contains("plain share no key"), "{fault}");
}
