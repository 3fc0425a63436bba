//! Which jobs there are, and words of fewer parties than the job has.

use rand_core::SeedableRng;

use super::*;
use crate::testing::Cohort;
use crate::{Clipping, Fixed64, ModelUpdate};

/// A key service has no model, so it knows no bounds of later rounds.
#[test]
fn case_37_bounds_that_a_key_service_cannot_know_are_refused() {
    for name in NAMES {
        let spec = JobSpec {
            encoding: Quantised {
                clipping: Clipping::Aciq,
                ..Quantised::default()
            }
            .into(),
            model_update: ModelUpdate::Add,
            ..job(name, 3, 5)
        };
        let refused = spec.validate().unwrap_err();
        assert_eq!(refused.field, "encoding.clipping");
        let said = refused.to_string();
        assert!(said.contains("must not be aciq"), "{said}");
    }
}

#[test]
fn case_37_a_job_has_parties_enough_and_not_too_many() {
    for name in NAMES {
        let of = |parties, min_parties| {
            let spec = JobSpec {
                min_parties,
                ..job(name, parties, 5)
            };
            spec.validate().map(drop).map_err(|error| error.field)
        };
        for parties in [2, 250] {
            assert_eq!(of(parties, 2), Ok(()), "{name}, {parties}");
            assert_eq!(of(parties, 1), Err("min_parties".into()), "{name}");
        }
        for parties in [1, 251] {
            assert_eq!(of(parties, 0), Err("parties".into()), "{name}, {parties}");
        }
    }
}

/// The roll call of more parties than one ciphertext has lanes for.
#[test]
fn a_roll_call_takes_as_many_ciphertexts_as_it_needs() {
    let layout = |parties| {
        let spec = job(ProtocolName::PaillierRing, parties, 1);
        let job = Arc::new(spec.validate().unwrap());
        let options = Options::of(job.spec()).unwrap();
        let layout = Layout::of(&job, &options, parties as usize).unwrap();
        layout.ciphertexts(1)
    };
    assert_eq!([127, 128, 250].map(layout), [2, 3, 3]);
}

/// What is added to every word, and taken off its sum, is by the parties of the job, not those of the round. Words at both
/// limits.
#[test]
fn words_of_fewer_parties_than_the_job_has() {
    for name in NAMES {
        let spec = |parties| JobSpec {
            encoding: Fixed64::default().into(),
            min_parties: 2,
            ..job(name, parties, 7)
        };
        let mut cohort = Cohort::new(spec(3), 3);
        let most = (1u64 << 63) / 5;
        let values = [most, most.wrapping_neg(), 1, 0, u64::MAX, most, 2];
        for words in &mut cohort.inputs {
            *words = blindsum_math::words::Words::from_values(words.width(), &values).unwrap();
        }
        let of_five = Arc::new(spec(5).validate().unwrap());
        let round = Round::new(of_five, 3, cohort.round.roster().clone(), &[9; 32]).unwrap();
        let rng = rand_chacha::ChaCha20Rng::from_seed([1; 32]);
        let mut rig = Rig::of_parties(cohort.begin(round), rng, &[0, 1, 2]);
        let outcome = rig.finish().unwrap();
        let expected = rig.cohort.sum_of(everyone(&rig));
        assert_eq!(outcome.sum, Some(expected), "{name}");
    }
}
