//! What is drawn against what it must be.

use blindsum_crypto::kex::{KeyPair, Suite};
use blindsum_crypto::secret::Secret;
use blindsum_privacy::{Adjacency, Multiplier, ServerNoiseSpec};

use super::*;
use crate::line::Line;
use crate::put_together;
use crate::testing::{opened_signed, server, shared_signed};

fn keys(me: ServerIndex, round: u8, begun: u8) -> NoiseKeys {
    let pair = |server: ServerIndex| {
        KeyPair::from_secret(Suite::X25519, Secret::from([server.number() + 1; 32])).unwrap()
    };
    let with = |other| pair(me).agree(pair(other).public()).unwrap();
    let (previous, next) = (with(me.previous()), with(me.next()));
    let agreed = Agreed {
        round: [round; 32],
        begun: [begun; 32],
    };
    NoiseKeys::derive(me, &previous, &next, &agreed)
}

fn drawn(gaussian: &Gaussian, count: usize) -> [Shares<u64>; 3] {
    ServerIndex::ALL.map(|me| keys(me, 2, 3).draw(Some(gaussian), 0, count))
}

fn signed(component: &[u64]) -> Vec<i64> {
    component.iter().map(|it| *it as i64).collect()
}

fn variance(values: &[i64]) -> f64 {
    values.iter().map(|it| (*it as f64).powi(2)).sum::<f64>() / values.len() as f64
}

/// Both holders of a component draw the same, and its variance is σ²; the sum has 3σ².
#[test]
fn case_39_three_components_of_the_same_variance() {
    const COUNT: usize = 60_000;
    for (a, b, sigma_squared) in [
        (1, 4, 0.25),
        (9, 2, 4.5),
        (100, 1, 100.0),
        (1 << 40, 1, 2f64.powi(40)),
    ] {
        let shares = drawn(&Gaussian::new(a, b).unwrap(), COUNT);
        let sum = opened_signed(&shares);
        let all: Vec<Vec<i64>> = shares.iter().map(|it| signed(it.components()[0])).collect();
        assert!(all[0] != all[1] && all[1] != all[2] && all[2] != all[0]);
        // A discrete Gaussian has a little less than its parameter where that is small: Σ x² e^(−x²/2σ²) / Σ e^(−x²/2σ²).
        let weight = |x: i64| (-((x * x) as f64) / (2.0 * sigma_squared)).exp();
        let expected = match sigma_squared < 1000.0 {
            true => {
                let total: f64 = (-300..=300).map(weight).sum();
                (-300..=300)
                    .map(|x| (x * x) as f64 * weight(x))
                    .sum::<f64>()
                    / total
            }
            false => sigma_squared,
        };
        // Five standard deviations of the mean and of the mean square, of a normal distribution or one with fatter tails.
        let slack = 5.0 * (2.0 / COUNT as f64).sqrt() * if sigma_squared < 1.0 { 2.0 } else { 1.0 };
        for (component, times) in all.iter().map(|it| (it, 1.0)).chain([(&sum, 3.0)]) {
            let mean = component.iter().sum::<i64>() as f64 / COUNT as f64;
            assert!(
                mean.abs() < 5.0 * (times * expected / COUNT as f64).sqrt(),
                "mean {mean}"
            );
            let ratio = variance(component) / (times * expected);
            assert!(
                (ratio - 1.0).abs() < slack,
                "{sigma_squared}: variance off by {ratio}"
            );
        }
        let product: f64 = all[0]
            .iter()
            .zip(&all[1])
            .map(|(x, y)| *x as f64 * *y as f64)
            .sum();
        let correlation = product / COUNT as f64 / expected;
        assert!(
            correlation.abs() < 5.0 / (COUNT as f64).sqrt(),
            "{correlation}"
        );
    }
}

/// Each number comes as often as the distribution says, by a chi-square test.
#[test]
fn case_39_numbers_come_as_often_as_they_must() {
    const COUNT: usize = 200_000;
    for (a, b, reach) in [(1, 3, 2), (2, 1, 5), (49, 4, 10)] {
        let shares = drawn(&Gaussian::new(a, b).unwrap(), COUNT);
        let weight = |x: i64| (-((x * x) as f64) * b as f64 / (2.0 * a as f64)).exp();
        let total: f64 = (-200..=200).map(weight).sum();
        for component in shares.iter().map(|it| signed(it.components()[0])) {
            let mut often = vec![0.0; 2 * reach as usize + 1];
            let mut outside = 0.0;
            for value in component {
                match usize::try_from(value + reach)
                    .ok()
                    .and_then(|at| often.get_mut(at))
                {
                    Some(often) => *often += 1.0,
                    None => outside += 1.0,
                }
            }
            let expected = |x: i64| COUNT as f64 * weight(x) / total;
            let mut chi: f64 = (-reach..=reach)
                .zip(&often)
                .map(|(x, often)| (often - expected(x)).powi(2) / expected(x))
                .sum();
            let rest = COUNT as f64 - (-reach..=reach).map(expected).sum::<f64>();
            chi += (outside - rest).powi(2) / rest;
            // Mean k and variance 2k for k degrees of freedom: five standard deviations.
            let k = often.len() as f64;
            assert!(chi < k + 5.0 * (2.0 * k).sqrt(), "{a}/{b}: {chi}");
        }
    }
}

#[test]
fn case_39_keys_are_those_of_the_round_and_its_survivors() {
    let gaussian = Gaussian::new(1 << 30, 1).unwrap();
    let me = ServerIndex::ALL[1];
    let draw = |round, begun| {
        let shares: Shares<u64> = keys(me, round, begun).draw(Some(&gaussian), 0, 4);
        shares.components().map(<[u64]>::to_vec)
    };
    let first = draw(2, 3);
    assert_eq!(first, draw(2, 3));
    for other in [draw(3, 3), draw(2, 4)] {
        assert!(other[0] != first[0] && other[1] != first[1]);
    }
}

#[test]
fn noise_is_added_to_what_is_shared() {
    let gaussian = Gaussian::new(25, 1).unwrap();
    let values = [1000, -2000, 0, 7];
    let noisy = ServerIndex::ALL.map(|me| {
        let noise = keys(me, 2, 3).draw::<u64>(Some(&gaussian), 0, 4);
        shared_signed(me, &values).plus(&noise).unwrap()
    });
    let noise = opened_signed(&drawn(&gaussian, 4));
    for ((noisy, value), noise) in opened_signed(&noisy).iter().zip(values).zip(noise) {
        assert_eq!(*noisy, value + noise);
    }
    // Blocks are drawn each by itself.
    let long = opened_signed(&drawn(&gaussian, 3000));
    assert_eq!(opened_signed(&drawn(&gaussian, 1030)), long[..1030]);
}

/// Whoever gets the result finds out that one of the two holders of a component has left its noise out.
#[test]
fn case_39_noise_that_one_server_leaves_out() {
    let gaussian = Gaussian::new(1 << 20, 1).unwrap();
    for lazy in 0..3 {
        let parts = ServerIndex::ALL.map(|me| {
            let (own, next) = (shared_signed::<u64>(me, &[7; 4]), keys(me, 2, 3));
            let noisy = match me.number() == lazy {
                true => own,
                false => own.plus(&next.draw(Some(&gaussian), 0, 4)).unwrap(),
            };
            server::<u64>(me, Line::default()).part(&noisy).unwrap()
        });
        let found = put_together(&parts);
        assert!(matches!(found, Err(MpcError::Differs { .. })), "{lazy}");
    }
}

#[test]
fn variances_that_cannot_be_are_refused() {
    let refused = |a, b| Gaussian::new(a, b).unwrap_err().to_string();
    assert_eq!(
        refused(1, 0),
        "denominator of the variance = 0, but 1 <= denominator <= 2^10 must hold"
    );
    assert!(refused(1, 1025).starts_with("denominator"));
    assert_eq!(
        refused(0, 1),
        "numerator of the variance = 0, but 0 < variance <= 2^40 must hold"
    );
    assert!(refused((1 << 40) + 1, 1).starts_with("numerator"));
}

/// Large noise has wide steps: its variance is right, and what lies within a step is drawn evenly, so that nothing of a
/// number shows behind the last step.
#[test]
fn case_39_large_noise_hides_the_last_bits_too() {
    const COUNT: usize = 60_000;
    for (deviation, k) in [(1.0, 0), (1048576.0, 0), (3e6, 2), (2f64.powi(45), 25)] {
        let gaussian = Gaussian::of_deviation(deviation).unwrap();
        assert_eq!(gaussian.shift, k);
        let component = signed(drawn(&gaussian, COUNT)[0].components()[0]);
        let ratio = variance(&component) / (deviation * deviation);
        let slack = 5.0 * (2.0 / COUNT as f64).sqrt();
        assert!((ratio - 1.0).abs() < slack, "{deviation}: {ratio}");
        for bit in 0..k {
            let ones = component.iter().filter(|it| **it >> bit & 1 == 1).count() as f64;
            let off = (ones - COUNT as f64 / 2.0).abs() / (COUNT as f64 / 4.0).sqrt();
            assert!(off < 5.0, "{deviation}, bit {bit}: {off}");
        }
    }
    for deviation in [0.5, f64::NAN, 2f64.powi(57)] {
        assert!(Gaussian::of_deviation(deviation).is_err(), "{deviation}");
    }
}

/// The steps of noise follow from the bits of the deviation: 2^k is the least power of two with which 2^20 steps are enough,
/// at powers of two and next to them, for every server alike.
#[test]
fn steps_follow_from_the_bits_of_the_deviation() {
    for exponent in 0..=56u32 {
        let power = (1u64 << exponent) as f64;
        let (at, above) = (
            exponent.saturating_sub(20),
            (exponent + 1).saturating_sub(20),
        );
        let beside = [
            (power.next_down(), at, exponent > 0),
            (power, at, true),
            (power.next_up(), above, exponent < 56),
        ];
        for (deviation, shift, _) in beside.into_iter().filter(|it| it.2) {
            let gaussian = Gaussian::of_deviation(deviation).unwrap();
            assert_eq!(gaussian.shift, shift, "{deviation} by 2^{exponent}");
            let steps = deviation / (1u64 << shift) as f64;
            assert!(steps <= 1048576.0 && (shift == 0 || steps > 524288.0));
            let numerator = (steps * steps * 1024.0).round() as u64;
            assert_eq!(gaussian.variance.numerator(), numerator, "{deviation}");
        }
    }
    for deviation in [1f64.next_down(), MAX_DEVIATION.next_up()] {
        assert!(Gaussian::of_deviation(deviation).is_err(), "{deviation}");
    }
}

/// Bits that are drawn evenly hide those of what is shown, and move it by no more than half a step for each component.
#[test]
fn case_39_low_bits_are_drawn_evenly() {
    const COUNT: usize = 60_000;
    let shares = ServerIndex::ALL.map(|me| keys(me, 2, 3).draw::<u64>(None, 5, COUNT));
    for component in shares.iter().map(|it| signed(it.components()[0])) {
        let mut often = [0.0; 32];
        for value in component {
            often[(value + 16) as usize] += 1.0;
        }
        let expected = COUNT as f64 / 32.0;
        let chi: f64 = often
            .iter()
            .map(|it| (it - expected).powi(2) / expected)
            .sum();
        assert!(chi < 31.0 + 5.0 * 62f64.sqrt(), "{chi}");
    }
    let none = keys(ServerIndex::ALL[0], 2, 3).draw::<u64>(None, 0, 3);
    assert_eq!(none, Shares::zeros(3));
}

/// Abuse case 39: of the noise that is sized for a guarantee, one server lacks one component, and that alone has the variance of
/// the claim, by a one-sided chi-square test; the sum has three times as much.
#[test]
fn case_39_what_one_server_lacks_is_the_noise_of_the_claim() {
    const COUNT: usize = 60_000;
    for (sensitivity, shift) in [(65_601, 0), (1 << 44, 25)] {
        let spec = ServerNoiseSpec {
            dim: COUNT,
            sensitivity,
            adjacency: Adjacency::ZeroOut,
            multiplier: Multiplier::at_least(1.25).unwrap(),
        };
        let sized = spec.validate().unwrap();
        let gaussian = Gaussian::accounted(&sized);
        assert_eq!(gaussian.shift, shift);
        let shares = drawn(&gaussian, COUNT);
        let sum = opened_signed(&shares);
        let claim = (1.25 * sensitivity as f64).powi(2);
        let slack = (2.0 / COUNT as f64).sqrt();
        assert!(variance(&sum) / (3.0 * claim) > 1.0 - 3.7 * slack);
        for server in &shares {
            let [own, next] = server.components().map(signed);
            let known = own.iter().zip(&next).map(|(own, next)| own + next);
            let lacking: Vec<i64> = sum
                .iter()
                .zip(known)
                .map(|(sum, known)| sum - known)
                .collect();
            let ratio = variance(&lacking) / claim;
            // 3.7 deviations have a chance of 10^-4; steps take a little more.
            assert!(ratio > 1.0 - 3.7 * slack, "{sensitivity}: {ratio}");
            assert!(ratio < 1.01 + 5.0 * slack, "{sensitivity}: {ratio}");
        }
    }
}
