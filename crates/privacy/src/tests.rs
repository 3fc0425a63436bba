//! Sizes, tables, numbers and ε against the model, and laws.

use blindsum_crypto::mask::{MaskKey, MaskSeed};
use blindsum_crypto::secret::Secret;
use proptest::prelude::*;
use serde::Deserialize;

use crate::accounting::{ORDERS, check_draws, orders};
use crate::*;

#[path = "../../../vectors/support.rs"]
#[allow(dead_code)]
pub(crate) mod support;

use support::{Hex, load};

pub(crate) const FILE: &str = include_str!("../../../vectors/privacy.json");

fn mechanism(name: &str) -> Mechanism {
    match name {
        "discrete-gaussian" => Mechanism::DiscreteGaussian,
        "skellam" => Mechanism::Skellam,
        _ => panic!("no mechanism: {name}"),
    }
}

pub(crate) fn adjacency(name: &str) -> Adjacency {
    match name {
        "zero-out" => Adjacency::ZeroOut,
        "replace" => Adjacency::Replace,
        _ => panic!("no adjacency: {name}"),
    }
}

fn rounding(name: &str) -> Rounding {
    match name {
        "stochastic" => Rounding::Stochastic,
        "nearest" => Rounding::Nearest,
        _ => panic!("no rounding: {name}"),
    }
}

/// A job that fits.
fn spec() -> SizesSpec {
    SizesSpec {
        parties: 100,
        dim: 100_000,
        honest: 80,
        bits: 12,
        rounding: Rounding::Stochastic,
        mechanism: Mechanism::DiscreteGaussian,
        adjacency: Adjacency::ZeroOut,
        multiplier: Multiplier::at_least(1.0).unwrap(),
    }
}

#[derive(Deserialize)]
struct SizesVector {
    parties: usize,
    dim: usize,
    honest: usize,
    bits: u32,
    units: u32,
    rounding: String,
    mechanism: String,
    adjacency: String,
    refused: Option<String>,
    squared_norm: Option<u64>,
    variance_units: Option<u64>,
    reach: Option<u64>,
    limit: Option<u64>,
    width: Option<u32>,
    squared_mu: Option<String>,
    squared_mu_alone: Option<String>,
}

fn rule(error: &PrivacyError) -> &'static str {
    match error {
        PrivacyError::Honest { .. } => "honest",
        PrivacyError::Growth { .. } => "growth",
        PrivacyError::Norm { .. } => "norm",
        PrivacyError::SmallVariance { .. } => "small",
        PrivacyError::LargeVariance { .. } => "large",
        PrivacyError::SkellamVariance { .. } => "skellam",
        _ => panic!("{error}"),
    }
}

#[test]
fn case_39_sizes_are_those_of_the_model() {
    for vector in load::<SizesVector>(FILE, "sizes") {
        let spec = SizesSpec {
            parties: vector.parties,
            dim: vector.dim,
            honest: vector.honest,
            bits: vector.bits,
            rounding: rounding(&vector.rounding),
            mechanism: mechanism(&vector.mechanism),
            adjacency: adjacency(&vector.adjacency),
            multiplier: Multiplier::of_units(vector.units).unwrap(),
        };
        let sizes = match (spec.validate(), &vector.refused) {
            (Ok(sizes), None) => sizes,
            (Err(error), Some(refused)) => {
                assert_eq!(rule(&error), refused, "{spec:?}");
                continue;
            }
            other => panic!("{spec:?}: {other:?}"),
        };
        assert_eq!(Some(sizes.squared_norm()), vector.squared_norm, "{spec:?}");
        let variance = sizes.variance();
        assert_eq!(variance.denominator(), 1024);
        assert_eq!(
            Some(variance.numerator()),
            vector.variance_units,
            "{spec:?}"
        );
        assert_eq!(Some(sizes.reach()), vector.reach, "{spec:?}");
        assert_eq!(Some(sizes.limit()), vector.limit, "{spec:?}");
        assert_eq!(Some(sizes.width()), vector.width, "{spec:?}");
        assert_eq!(sizes.largest(), (1 << (vector.bits - 1)) - 1);
        if spec.mechanism == Mechanism::DiscreteGaussian {
            for (honest, expected) in [
                (spec.honest, vector.squared_mu),
                (1, vector.squared_mu_alone),
            ] {
                let squared = SquaredMu::of_sizes(&sizes, honest);
                assert_eq!(
                    squared.ok().map(|it| it.units().to_string()),
                    expected,
                    "{spec:?}"
                );
            }
        }
    }
}

#[derive(Deserialize)]
struct TableVector {
    mechanism: String,
    numerator: u64,
    denominator: u64,
    cuts: Vec<Hex>,
}

#[test]
fn case_39_tables_are_those_of_the_model_bit_by_bit() {
    for vector in load::<TableVector>(FILE, "tables") {
        let variance = Variance::new(vector.numerator, vector.denominator).unwrap();
        let sampler = Sampler::new(mechanism(&vector.mechanism), variance).unwrap();
        let cuts: Vec<Vec<u8>> = sampler
            .first_cuts()
            .map(|cut| cut.to_be_bytes().to_vec())
            .collect();
        let expected: Vec<Vec<u8>> = vector.cuts.into_iter().map(|cut| cut.0).collect();
        assert_eq!(cuts, expected, "{} {variance:?}", vector.mechanism);
    }
}

#[derive(Deserialize)]
struct DrawVector {
    mechanism: String,
    numerator: u64,
    denominator: u64,
    seed: Hex,
    first: u64,
    numbers: Vec<i32>,
}

#[test]
fn case_39_numbers_are_those_of_the_model() {
    for vector in load::<DrawVector>(FILE, "draws") {
        let variance = Variance::new(vector.numerator, vector.denominator).unwrap();
        let sampler = Sampler::new(mechanism(&vector.mechanism), variance).unwrap();
        let key = MaskKey::new(MaskSeed::from(Secret::from(vector.seed.array())));
        let mut numbers = vec![0; vector.numbers.len()];
        sampler.draw(&key, vector.first, &mut numbers);
        assert_eq!(numbers, vector.numbers, "{} {variance:?}", vector.mechanism);
    }
}

#[derive(Deserialize)]
struct GaussianVector {
    units: u32,
    releases: u64,
    delta: f64,
    epsilon: f64,
    epsilon_renyi: f64,
}

/// Not below the exact figure, and no further above it than a millionth; the model compares itself with dp-accounting.
fn assert_just_above(got: f64, exact: f64, of: &str) {
    let slack = 1e-6 * exact.max(1e-3);
    assert!(
        got >= exact * (1.0 - 1e-15) && got <= exact + slack,
        "{of}: {got} for {exact}"
    );
}

#[test]
fn case_39_epsilon_is_that_of_the_model_and_not_below() {
    for vector in load::<GaussianVector>(FILE, "gaussian") {
        let multiplier = Multiplier::of_units(vector.units).unwrap();
        let squared =
            SquaredMu::of_multiplier(multiplier, Adjacency::ZeroOut).times(vector.releases);
        let of = format!(
            "{multiplier:?}, {} releases, {:e}",
            vector.releases, vector.delta
        );
        assert_just_above(squared.epsilon(vector.delta).unwrap(), vector.epsilon, &of);
        let curve = RenyiCurve::of_gaussian(squared);
        assert_just_above(
            curve.epsilon(vector.delta).unwrap(),
            vector.epsilon_renyi,
            &of,
        );
    }
}

#[derive(Deserialize)]
struct ExactVector {
    variance: u64,
    squares: u64,
    delta: f64,
    epsilon: f64,
}

/// The exact privacy loss of discrete Gaussian noise in many dimensions is not above the claim, and near it.
#[test]
fn case_39_the_claim_holds_for_discrete_gaussian_noise() {
    for vector in load::<ExactVector>(FILE, "exact_discrete") {
        let squared = u128::from(vector.squares) << 64;
        let claim = SquaredMu::of_units(squared.div_ceil(u128::from(vector.variance - 8)));
        let epsilon = claim.epsilon(vector.delta).unwrap();
        assert!(
            vector.epsilon <= epsilon * 1.002 && epsilon <= vector.epsilon * 1.04,
            "{epsilon}"
        );
    }
}

#[derive(Deserialize)]
struct SkellamVector {
    parties: usize,
    dim: usize,
    bits: u32,
    units: u32,
    adjacency: String,
    honest: usize,
    releases: u64,
    delta: f64,
    epsilon: f64,
}

#[test]
fn case_39_epsilon_of_skellam_noise_is_that_of_the_model_and_not_below() {
    for vector in load::<SkellamVector>(FILE, "skellam") {
        let sizes = SizesSpec {
            parties: vector.parties,
            dim: vector.dim,
            honest: vector.parties,
            bits: vector.bits,
            mechanism: Mechanism::Skellam,
            adjacency: adjacency(&vector.adjacency),
            multiplier: Multiplier::of_units(vector.units).unwrap(),
            ..spec()
        };
        let curve = RenyiCurve::of_sizes(&sizes.validate().unwrap(), vector.honest).unwrap();
        let epsilon = curve.times(vector.releases).epsilon(vector.delta).unwrap();
        assert_just_above(epsilon, vector.epsilon, &format!("{sizes:?}"));
    }
}

#[derive(Deserialize)]
struct MultiplierVector {
    epsilon: f64,
    delta: f64,
    releases: u64,
    adjacency: String,
    units: u32,
}

#[test]
fn case_39_the_least_multiplier_is_that_of_the_model() {
    for vector in load::<MultiplierVector>(FILE, "multipliers") {
        let adjacency = adjacency(&vector.adjacency);
        let found = least_multiplier(vector.epsilon, vector.delta, vector.releases, adjacency);
        assert_eq!(found.unwrap().units(), vector.units);
    }
}

#[test]
fn orders_are_the_fixed_list() {
    let orders = orders();
    assert_eq!(orders.len(), ORDERS);
    assert!(orders.is_sorted());
    let at = [0, 98, 99, 151, 152, 155].map(|place| orders[place]);
    assert_eq!(at, [1.1, 10.9, 11.0, 63.0, 128.0, 1024.0]);
}

#[test]
fn errors_have_the_rule_and_the_advice() {
    let refused = |spec: SizesSpec| spec.validate().unwrap_err().to_string();
    assert_eq!(
        refused(SizesSpec {
            honest: 0,
            ..spec()
        }),
        "min_parties - ceil(corrupt * parties) = m = 0, but 1 <= m <= parties = 100 must hold: noise is that of \
         honest survivors; use a larger min_parties"
    );
    assert_eq!(
        refused(SizesSpec { bits: 8, ..spec() }),
        "rounding lifts the norm by 1.638 > 1.1: bits >= 10 would do"
    );
    assert!(
        refused(SizesSpec { bits: 33, ..spec() }).starts_with("bits = 33, but 2 <= bits <= 32")
    );
    assert!(refused(SizesSpec { dim: 0, ..spec() }).starts_with("dim = 0"));
    assert!(
        refused(SizesSpec {
            parties: 0,
            ..spec()
        })
        .starts_with("parties = 0")
    );
    let coarse = SizesSpec {
        multiplier: Multiplier::MIN,
        ..spec()
    };
    assert_eq!(
        refused(coarse),
        "(z^2 T + 8) / m = v = 13.0 >= 16 must hold, and m = 80: steps are too coarse for shares of noise; use more \
         bits"
    );
    let wide = SizesSpec {
        bits: 24,
        multiplier: Multiplier::MAX,
        ..spec()
    };
    assert!(refused(wide).starts_with("variance of a share v = "));
}

#[test]
fn multipliers_lie_on_their_grid() {
    assert_eq!(Multiplier::at_least(1.0).unwrap().units(), 1 << 16);
    assert_eq!(
        Multiplier::at_least(1.0000001).unwrap().units(),
        (1 << 16) + 1
    );
    assert_eq!(Multiplier::at_least(1.5).unwrap().value(), 1.5);
    for outside in [0.0, 0.0156, 1024.1, f64::NAN, f64::INFINITY] {
        assert!(Multiplier::at_least(outside).is_err(), "{outside}");
    }
    assert!(
        Multiplier::of_units((1 << 10) - 1).is_err()
            && Multiplier::of_units((1 << 26) + 1).is_err()
    );
}

#[test]
fn targets_out_of_range_are_refused() {
    let least = |epsilon, delta, releases| {
        least_multiplier(epsilon, delta, releases, Adjacency::ZeroOut)
            .unwrap_err()
            .to_string()
    };
    assert!(least(0.0, 1e-5, 1).starts_with("epsilon = 0e0, but 0 < epsilon <= 100"));
    assert!(least(101.0, 1e-5, 1).starts_with("epsilon"));
    assert!(least(1.0, 0.0, 1).starts_with("delta = 0e0, but 1e-30 <= delta <= 0.01"));
    assert!(least(1.0, 0.5, 1).starts_with("delta"));
    assert!(least(1.0, 1e-5, 0).starts_with("releases = 0"));
    assert_eq!(
        least(1e-3, 1e-8, 1000),
        "epsilon = 0.001 cannot be reached with 1000 releases: noise_multiplier <= 2^10; use fewer rounds or a larger epsilon"
    );
    let easy = least_multiplier(100.0, 1e-2, 1, Adjacency::ZeroOut).unwrap();
    assert!(easy > Multiplier::MIN);
}

#[test]
fn case_39_delta_must_be_above_the_error_of_all_draws() {
    assert!(check_draws(1e-5, 1000, 1000, 1_000_000).is_ok());
    // 2^20 · 2^24 = 2^44 draws move δ by 2^-72 at most, which is 2^-20 of 2^-52.
    let (releases, parties) = (1 << 10, 1 << 10);
    let delta = f64::powi(2.0, -52);
    assert!(check_draws(delta, releases, parties, 1 << 24).is_ok());
    let error = check_draws(delta, releases, parties, (1 << 24) + 1).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("is too small for 1.7592187092992e13 draws"),
        "{error}"
    );
    assert!(check_draws(1.0, 1, 1, 1).is_err());
}

#[test]
fn case_39_noise_that_hides_nobody_has_no_epsilon() {
    let sizes = SizesSpec {
        honest: 80,
        ..spec()
    }
    .validate()
    .unwrap();
    let none = SquaredMu::of_sizes(&sizes, 0).unwrap_err();
    assert_eq!(
        none.to_string(),
        "this job's noise hides nobody: variance of the noise of 0 honest parties is at most 8"
    );
    let skellam = SizesSpec {
        mechanism: Mechanism::Skellam,
        ..spec()
    }
    .validate()
    .unwrap();
    assert!(RenyiCurve::of_sizes(&skellam, 0).is_err());
    // Renyi divergences of a Gaussian job are those of its μ².
    let curve = RenyiCurve::of_sizes(&sizes, 80).unwrap();
    assert_eq!(
        curve,
        RenyiCurve::of_gaussian(SquaredMu::of_sizes(&sizes, 80).unwrap())
    );
}

#[test]
fn sums_of_mu_stop_at_the_largest_number() {
    let most = SquaredMu::of_units(u128::MAX);
    assert_eq!(most.plus(SquaredMu::of_units(1)), most);
    assert_eq!(SquaredMu::of_units(1 << 127).times(2), most);
    assert!(most.epsilon(1e-5).unwrap() > 1e18);
    assert_eq!(SquaredMu::default().epsilon(1e-5).unwrap(), 0.0);
}

fn multipliers() -> impl Strategy<Value = Multiplier> {
    (10..=26_u32, any::<u32>()).prop_map(|(bits, rest)| {
        let units = (1 << bits) + (u64::from(rest) & ((1 << bits) - 1));
        Multiplier::of_units(units.min(1 << 26) as u32).unwrap()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The multiplier that is asked for is met by the honest shares, by no more than rounding and the 8 of the proof.
    #[test]
    fn case_39_honest_shares_meet_the_multiplier(
        parties in 1..3000_usize,
        dim in 1..10_000_000_usize,
        bits in 8..31_u32,
        multiplier in multipliers(),
        replace in any::<bool>(),
    ) {
        let honest = parties.div_ceil(2);
        let adjacency = if replace { Adjacency::Replace } else { Adjacency::ZeroOut };
        let spec = SizesSpec { parties, dim, honest, bits, multiplier, adjacency, ..spec() };
        if let Ok(sizes) = spec.validate() {
            let asked = SquaredMu::of_multiplier(multiplier, Adjacency::ZeroOut).units();
            let met = SquaredMu::of_sizes(&sizes, honest).unwrap().units();
            prop_assert!(met <= asked);
            prop_assert!(met as f64 >= asked as f64 * (1.0 - honest as f64 / (1024.0 * 16.0 * honest as f64 - 8.0) * 1.01));
            let most = parties as u128 * u128::from(sizes.largest()) + u128::from(sizes.reach());
            prop_assert_eq!(u128::from(sizes.limit()), most);
            prop_assert!(sizes.width() <= 64 && most >> (sizes.width() - 1) == 0);
            prop_assert!(sizes.growth() <= 1.1);
        }
    }

    /// ε grows with μ² and falls with δ, and gives back δ.
    #[test]
    fn case_39_epsilon_is_monotone_and_inverts_delta(
        multiplier in multipliers(),
        releases in 1..1000_u64,
        exponent in -28.0..-2.0_f64,
    ) {
        let delta = f64::powf(10.0, exponent);
        let squared = SquaredMu::of_multiplier(multiplier, Adjacency::ZeroOut).times(releases);
        let epsilon = squared.epsilon(delta).unwrap();
        prop_assert!(squared.delta(epsilon) <= delta);
        prop_assert!(epsilon == 0.0 || squared.delta(epsilon * (1.0 - 1e-6)) > delta);
        prop_assert_eq!(squared.plus(squared), squared.times(2));
        let more = squared.plus(SquaredMu::of_multiplier(multiplier, Adjacency::ZeroOut));
        prop_assert!(more.epsilon(delta).unwrap() >= epsilon);
        prop_assert!(squared.epsilon((delta * 1.1).min(1e-2)).unwrap() <= epsilon);
        // Accounting by orders is looser.
        let curve = RenyiCurve::of_gaussian(squared);
        prop_assert!(curve.epsilon(delta).unwrap() >= epsilon);
        let twice = curve.plus(&curve).epsilon(delta).unwrap();
        prop_assert!((twice - curve.times(2).epsilon(delta).unwrap()).abs() <= 1e-9 * twice);
    }
}
