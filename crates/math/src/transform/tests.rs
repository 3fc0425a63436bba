//! Every backend against Horner's rule, which knows nothing of trees.

use proptest::prelude::*;

use super::*;
use crate::field::Field;
use crate::prime_field::{Field31, Field47, Field48};

/// What the rows hold before a call where nothing is to be read.
const JUNK: Row = Row([u64::MAX; 8]);

fn available() -> impl Iterator<Item = Backend> {
    Backend::ALL.into_iter().filter(|b| b.is_available())
}

fn horner<F: NttField>(coefficients: &[Row], point: F) -> Row {
    let mut value = [F::ZERO; 8];
    for row in coefficients.iter().rev() {
        for (value, &coefficient) in value.iter_mut().zip(&row.0) {
            *value = *value * point + F::from_canonical(coefficient).expect("canonical");
        }
    }
    Row(value.map(F::to_canonical))
}

/// Numbers below p without any pattern.
fn noise<F: NttField>(rows: usize, seed: u64) -> Vec<Row> {
    let mut state = seed;
    let mut draw = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        F::from_wide((mixed ^ mixed >> 27).into()).to_canonical()
    };
    (0..rows)
        .map(|_| Row([0; 8].map(|_: u64| draw())))
        .collect()
}

fn largest<F: NttField>(rows: usize) -> Vec<Row> {
    vec![Row([F::MODULUS - 1; 8]); rows]
}

/// The values of these coefficients by one backend.
fn evaluated<F: NttField>(coefficients: &[Row], n: usize, backend: Backend) -> Vec<Row> {
    let transform =
        CosetTransform::<F>::with_backend(coefficients.len(), n, backend).expect("a size");
    let mut rows = coefficients.to_vec();
    rows.resize(transform.scratch_rows(), JUNK);
    transform.evaluate(&mut rows);
    rows.truncate(n);
    rows
}

/// The coefficients of these values by one backend.
fn interpolated<F: NttField>(values: &[Row], backend: Backend) -> Vec<Row> {
    let interpolation = Interpolation::<F>::with_backend(values.len(), backend).expect("a size");
    let mut rows = values.to_vec();
    rows.resize(interpolation.scratch_rows(), JUNK);
    interpolation.interpolate(&mut rows);
    rows.truncate(values.len());
    rows
}

fn check_evaluation<F: NttField>(coefficients: &[Row], n: usize) {
    let transform = CosetTransform::<F>::new(coefficients.len(), n).expect("a size");
    let expected: Vec<Row> = (0..n)
        .map(|j| horner(coefficients, transform.point(j)))
        .collect();
    for backend in available() {
        let k = coefficients.len();
        let values = evaluated::<F>(coefficients, n, backend);
        assert!(values == expected, "{} k = {k}, n = {n}", backend.name());
    }
}

fn check_interpolation<F: NttField>(coefficients: &[Row]) {
    let k = coefficients.len();
    let interpolation = Interpolation::<F>::new(k).expect("a size");
    let values: Vec<Row> = (0..k)
        .map(|e| horner(coefficients, interpolation.point(e)))
        .collect();
    for backend in available() {
        let result = interpolated::<F>(&values, backend);
        assert!(result == coefficients, "{} k = {k}", backend.name());
    }
}

fn all_small_sizes<F: NttField>(evaluations: usize) {
    for k in 1..=evaluations {
        let (noise, largest) = (noise::<F>(k, k as u64), largest::<F>(k));
        for n in k..=evaluations {
            check_evaluation::<F>(&noise, n);
        }
        check_evaluation::<F>(&largest, 2 * k);
    }
    for k in 1..=140 {
        check_interpolation::<F>(&noise::<F>(k, k as u64));
        check_interpolation::<F>(&largest::<F>(k));
    }
}

#[test]
fn small_sizes_modulo_31_bits() {
    all_small_sizes::<Field31>(40);
}

#[test]
fn small_sizes_modulo_47_bits() {
    all_small_sizes::<Field47>(40);
}

#[test]
fn small_sizes_modulo_48_bits() {
    all_small_sizes::<Field48>(40);
}

#[test]
fn large_sizes() {
    for (k, n) in [(64, 729), (450, 500), (512, 2187), (1000, 1001)] {
        check_evaluation::<Field31>(&noise::<Field31>(k, 1), n);
        check_evaluation::<Field47>(&noise::<Field47>(k, 2), n);
        check_evaluation::<Field48>(&noise::<Field48>(k, 3), n);
        check_interpolation::<Field48>(&noise::<Field48>(k, 4));
    }
}

/// Alternating signs make the residues grow in some lane at every level, as far as anything does.
#[test]
fn the_largest_residues_fit() {
    for k in [512, 1024] {
        check_evaluation::<Field47>(&largest::<Field47>(k), k);
        check_evaluation::<Field48>(&largest::<Field48>(k), k);
        check_interpolation::<Field48>(&largest::<Field48>(k));
    }
}

/// The largest sums and differences on the way up: values that are all p − 1, or 0 and p − 1 in every pattern of a power
/// of two.
#[test]
fn extreme_values_are_interpolated() {
    for k in [64, 100, 256] {
        let interpolation = Interpolation::<Field48>::new(k).expect("a size");
        for pattern in 0..=8 {
            let value =
                |e: usize| Row([(Field48::MODULUS - 1) * u64::from(e >> pattern & 1 == 0); 8]);
            let values: Vec<Row> = (0..k).map(value).collect();
            for backend in available() {
                let coefficients = interpolated::<Field48>(&values, backend);
                for (e, value) in values.iter().enumerate() {
                    assert_eq!(
                        horner(&coefficients, interpolation.point(e)),
                        *value,
                        "{}",
                        backend.name()
                    );
                }
            }
        }
    }
}

#[test]
fn the_largest_transform_is_its_own_inverse() {
    let coefficients = largest::<Field48>(MAX_POINTS);
    let transform = CosetTransform::<Field48>::new(MAX_POINTS, MAX_POINTS).expect("a size");
    let reference = evaluated::<Field48>(&coefficients, MAX_POINTS, Backend::Scalar);
    for j in [0, 1, MAX_POINTS / 2, MAX_POINTS - 1] {
        assert_eq!(reference[j], horner(&coefficients, transform.point(j)));
    }
    for backend in available() {
        assert!(evaluated::<Field48>(&coefficients, MAX_POINTS, backend) == reference);
        assert!(
            interpolated::<Field48>(&coefficients, backend)
                == interpolated::<Field48>(&coefficients, Backend::Scalar)
        );
    }
}

#[test]
fn points_do_not_depend_on_the_size_and_never_meet() {
    let small = CosetTransform::<Field47>::new(3, 5).expect("a size");
    let large = CosetTransform::<Field47>::new(100, 300).expect("a size");
    let secrets = Interpolation::<Field47>::new(100).expect("a size");
    for j in 0..8 {
        assert_eq!(small.point(j), large.point(j));
    }
    let mut points: Vec<u64> = (0..512).map(|j| large.point(j).to_canonical()).collect();
    points.extend((0..128).map(|e| secrets.point(e).to_canonical()));
    points.push(0);
    points.sort_unstable();
    points.dedup();
    assert_eq!(points.len(), 512 + 128 + 1);
}

#[test]
fn points_are_in_bit_reversed_order() {
    let transform = CosetTransform::<Field48>::new(1, 16).expect("a size");
    let interpolation = Interpolation::<Field48>::new(9).expect("a size");
    let theta = Field48::root_of_unity(4).expect("16 divides p - 1");
    for j in 0..16_u64 {
        let power = theta.power(j.reverse_bits() >> 60);
        assert_eq!(transform.point(j as usize), Field48::GENERATOR * power);
        assert_eq!(interpolation.point(j as usize), power);
    }
}

#[test]
fn impossible_sizes_are_refused() {
    for (coefficients, points) in [(0, 0), (0, 4), (5, 4), (1, MAX_POINTS + 1), (1, usize::MAX)] {
        let refusal = MathError::TransformSize {
            coefficients,
            points,
            largest: MAX_POINTS,
        };
        assert_eq!(
            CosetTransform::<Field31>::new(coefficients, points).err(),
            Some(refusal)
        );
    }
    assert!(Interpolation::<Field31>::new(0).is_err());
    assert!(Interpolation::<Field31>::new(MAX_POINTS + 1).is_err());
}

#[test]
#[should_panic(expected = "rows for the whole tree")]
fn too_few_rows_are_a_bug() {
    let transform = CosetTransform::<Field31>::new(2, 5).expect("a size");
    transform.evaluate(&mut [Row::default(); 7]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_size_is_horner(k in 1_usize..200, more in 0_usize..300, seed: u64) {
        check_evaluation::<Field31>(&noise::<Field31>(k, seed), k + more);
        check_evaluation::<Field47>(&noise::<Field47>(k, seed), k + more);
        check_evaluation::<Field48>(&noise::<Field48>(k, seed), k + more);
        check_interpolation::<Field31>(&noise::<Field31>(k, seed));
        check_interpolation::<Field47>(&noise::<Field47>(k, seed));
        check_interpolation::<Field48>(&noise::<Field48>(k, seed));
    }
}
