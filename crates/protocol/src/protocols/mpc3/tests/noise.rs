//! Noise that the servers add for the guarantee of a table `privacy`.

use blindsum_math::words::Words;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use super::rules::{BOTH, assert_right, keys_of, with};
use crate::testing::Rig;
use crate::{DiscreteGaussian, JobSpec, Mpc3, Round, RuleName};

const DIM: usize = 3000;

fn spec(rule: RuleName, adversary: crate::Adversary) -> JobSpec {
    let options = Mpc3 {
        rule,
        ..Mpc3::default()
    };
    let privacy = DiscreteGaussian {
        noise_multiplier: 0.5,
        delta: 1e-5,
        ..DiscreteGaussian::default()
    };
    JobSpec {
        dim: DIM as u64,
        privacy: privacy.into(),
        ..with(options, adversary)
    }
}

/// A round of vectors of zeros.
fn silent(spec: JobSpec) -> Rig {
    Rig::lying(spec, 7, |inputs| {
        for words in inputs {
            let zeros = vec![(1 << 15) - 1; words.len()];
            *words = Words::from_values(words.width(), &zeros).unwrap();
        }
    })
}

/// What six parties hear.
fn mean(rig: &mut Rig, what: &str) -> Vec<f64> {
    let outcome = rig.finish().unwrap();
    assert_right(rig, &outcome, what);
    let mut mean = vec![0.0f64; DIM];
    let sum = outcome.sum.as_ref().unwrap();
    rig.cohort.round.decode_mean(sum, 6, &mut mean).unwrap();
    mean
}

fn mean_square(values: &[f64]) -> f64 {
    values.iter().map(|it| it * it).sum::<f64>() / values.len() as f64
}

/// Abuse case 39: what is shown has no less noise than the claim counts on, by a one-sided chi-square test, and as much as the
/// job says of itself; in both modes and both rules.
#[test]
fn case_39_results_have_the_noise_of_the_claim() {
    for rule in [RuleName::FedAvg, RuleName::Clipped] {
        for adversary in BOTH {
            let mut rig = silent(spec(rule, adversary));
            let mean = mean(&mut rig, rule.as_str());
            let job = rig.cohort.round.job();
            let privacy = job.privacy().unwrap();
            // The norm of an update is 2, and in the mean of six there is a sixth of three components.
            let least = 3.0 * (0.5 * 2.0 / 6.0f64).powi(2);
            let slack = (2.0 / DIM as f64).sqrt();
            // 3.7 deviations of the chi-square distribution have a chance of 10^-4.
            let found = mean_square(&mean);
            assert!(found / least > 1.0 - 3.7 * slack, "{rule}: {found}");
            let said = privacy.noise_deviation(6).unwrap().powi(2);
            assert!(
                (found / said - 1.0).abs() < 5.0 * slack,
                "{rule}: {found}, {said}"
            );
            assert!(said >= least && said < 1.01 * least, "{rule}: {said}");
        }
    }
}

/// Abuse case 39: a round that is repeated has fresh noise, also with the same vectors and the same keys of the servers.
#[test]
fn case_39_a_repeated_round_has_fresh_noise() {
    for rule in [RuleName::FedAvg, RuleName::Clipped] {
        let first = silent(spec(rule, BOTH[0]));
        let play = |number: u64| {
            let cohort = &first.cohort;
            let (job, roster) = (cohort.round.job(), cohort.round.roster());
            let round = Round::new(job.clone(), number, roster.clone(), &[9; 32]).unwrap();
            let rng = ChaCha20Rng::seed_from_u64(3);
            let mut rig = Rig::of_parties(cohort.begin(round), rng, &[0, 1, 2, 3, 4, 5]);
            let keys = keys_of(&mut rig);
            let mean = mean(&mut rig, rule.as_str());
            let keys = keys.lock().unwrap().clone();
            (keys, mean)
        };
        let ((keys, one), (again, other)) = (play(11), play(12));
        assert_eq!(keys, again);
        let product: f64 = one.iter().zip(&other).map(|(x, y)| x * y).sum();
        let correlation = product / DIM as f64 / mean_square(&one);
        assert!(
            correlation.abs() < 5.0 / (DIM as f64).sqrt(),
            "{correlation}"
        );
    }
}
