//! Server steps: laws on random models and means, and what is refused.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::{Direction, EncodeError, Precision, Reals, SecondMoment, ServerStep, StepState};

const DIM: usize = 13;

fn step(learning_rate: f64, direction: Direction) -> ServerStep {
    ServerStep {
        learning_rate,
        direction,
    }
}

fn adaptive(decay: f64, second: SecondMoment, tau: f64) -> Direction {
    Direction::Adaptive { decay, second, tau }
}

fn directions() -> impl Strategy<Value = Direction> {
    let tau = prop_oneof![1e-12..1e-9_f64, 1e-4..1e3_f64];
    let second = prop_oneof![
        Just(SecondMoment::Adagrad),
        (0.0..1.0_f64).prop_map(SecondMoment::Adam),
        (0.0..1.0_f64).prop_map(SecondMoment::Yogi),
    ];
    prop_oneof![
        Just(Direction::Mean),
        (0.0..1.0_f64).prop_map(|decay| Direction::Momentum { decay }),
        (0.0..1.0_f64, second, tau).prop_map(|(decay, second, tau)| adaptive(decay, second, tau)),
    ]
}

fn numbers() -> impl Strategy<Value = Vec<f64>> {
    let number = prop_oneof![4 => -1.0..1.0_f64, 1 => -1e30..1e30_f64, 1 => Just(0.0)];
    vec(number, DIM)
}

fn reals(numbers: Vec<f64>, single: bool) -> Reals {
    let precision = if single {
        Precision::Single
    } else {
        Precision::Double
    };
    Reals::from(numbers).in_precision(precision)
}

proptest! {
    #[test]
    fn an_average_with_learning_rate_1_adds_the_mean_in_the_precision_of_the_model(x in numbers(), mean in numbers()) {
        let average = ServerStep::default();
        let double: Vec<f64> = x.iter().zip(&mean).map(|(x, mean)| x + mean).collect();
        let (x, mean) = (reals(x, false), reals(mean, false));
        let none = average.new_state(Precision::Double, DIM);
        prop_assert!(none.is_empty());
        prop_assert_eq!(average.apply(&x, &none, &mean).unwrap().0, double);
        let (x, mean) = (x.in_precision(Precision::Single), mean.in_precision(Precision::Single));
        let (Reals::Single(a), Reals::Single(b)) = (&x, &mean) else { unreachable!() };
        let single: Vec<f32> = a.iter().zip(b).map(|(a, b)| a + b).collect();
        prop_assert_eq!(average.apply(&x, &none, &mean).unwrap().0, Reals::Single(single));
    }

    #[test]
    fn momentum_0_is_an_average(x in numbers(), means in vec(numbers(), 3), rate in 1e-3..10.0_f64, single: bool) {
        let (average, momentum) = (step(rate, Direction::Mean), step(rate, Direction::Momentum { decay: 0.0 }));
        let precision = reals(Vec::new(), single).precision();
        let (mut one, mut other) = (reals(x.clone(), single), reals(x, single));
        let (none, mut state) = (average.new_state(precision, DIM), momentum.new_state(precision, DIM));
        for mean in means {
            let mean = reals(mean, single);
            // From where a model is not finite nothing goes on.
            one = average.apply(&one, &none, &mean).unwrap().0;
            (other, state) = momentum.apply(&other, &state, &mean).unwrap();
            prop_assert_eq!(&one, &other);
        }
    }

    #[test]
    fn means_of_zeros_change_nothing_where_none_came_before(x in numbers(), direction in directions(), single: bool) {
        let (step, x, zeros) = (step(0.3, direction), reals(x, single), reals(vec![0.0; DIM], single));
        let mut state = step.new_state(x.precision(), DIM);
        for _ in 0..3 {
            let (after, next) = step.apply(&x, &state, &zeros).unwrap();
            prop_assert_eq!(&after, &x);
            state = next;
        }
    }

    #[test]
    fn adagrad_without_momentum_stands_still_at_a_mean_of_zeros(x in numbers(), first in numbers(), single: bool) {
        let adagrad = step(0.1, adaptive(0.0, SecondMoment::Adagrad, 1e-3));
        let (x, first, zeros) = (reals(x, single), reals(first, single), reals(vec![0.0; DIM], single));
        let state = adagrad.new_state(x.precision(), DIM);
        let (moved, state) = adagrad.apply(&x, &state, &first).unwrap();
        prop_assume!(moved.check_finite().is_ok() && state.check_finite().is_ok());
        let (still, after) = adagrad.apply(&moved, &state, &zeros).unwrap();
        prop_assert_eq!(still, moved);
        // Its second moment is kept.
        let half = state.to_bytes().len() / 2;
        prop_assert_eq!(&after.to_bytes()[half..], &state.to_bytes()[half..]);
    }

    #[test]
    fn states_are_read_back_or_are_not_finite(
        x in numbers(), means in vec(numbers(), 4), direction in directions(), rate in 1e-6..1e6_f64, single: bool,
    ) {
        let step = step(rate, direction);
        let mut x = reals(x, single);
        let precision = x.precision();
        let mut state = step.new_state(precision, DIM);
        for mean in means {
            (x, state) = step.apply(&x, &state, &reals(mean, single)).unwrap();
            let bytes = state.to_bytes();
            prop_assert_eq!(bytes.len(), step.vectors() * DIM * precision.bytes());
            match state.check_finite() {
                Ok(()) => prop_assert_eq!(step.read_state(precision, DIM, &bytes).unwrap(), state.clone()),
                Err(_) => {
                    prop_assert!(step.read_state(precision, DIM, &bytes).is_err());
                    return Ok(());
                }
            }
            if x.check_finite().is_err() {
                return Ok(());
            }
        }
    }
}

/// One coordinate, by hand: Δ = 0.5 twice.
#[test]
fn steps_follow_their_formulas() {
    let after_two = |direction| {
        let step = step(0.5, direction);
        let (mut x, mean) = (Reals::from(vec![1.0_f64]), Reals::from(vec![0.5_f64]));
        let mut state = step.new_state(Precision::Double, 1);
        for _ in 0..2 {
            (x, state) = step.apply(&x, &state, &mean).unwrap();
        }
        x.to_doubles()[0]
    };
    assert_eq!(after_two(Direction::Mean), 1.5);
    // m = 0.5, 0.75.
    assert_eq!(after_two(Direction::Momentum { decay: 0.5 }), 1.625);
    let close = |x: f64, expected: f64| assert!((x - expected).abs() < 1e-15, "{x} {expected}");
    // m = 0.25, 0.375; v begins with 0.25.
    let m = |v: [f64; 2]| 1.0 + 0.125 / (v[0].sqrt() + 0.5) + 0.1875 / (v[1].sqrt() + 0.5);
    let of = |second| after_two(adaptive(0.5, second, 0.5));
    close(of(SecondMoment::Adagrad), m([0.5, 0.75]));
    close(of(SecondMoment::Adam(0.5)), m([0.25, 0.25]));
    close(of(SecondMoment::Yogi(0.5)), m([0.25, 0.25]));
    let small = |second| after_two(adaptive(0.5, second, 0.25));
    // v begins with 0.0625, below Δ².
    let m = |v: [f64; 2]| 1.0 + 0.125 / (v[0].sqrt() + 0.25) + 0.1875 / (v[1].sqrt() + 0.25);
    close(small(SecondMoment::Yogi(0.5)), m([0.1875, 0.3125]));
    close(small(SecondMoment::Adam(0.5)), m([0.15625, 0.203125]));
}

#[test]
fn case_26_what_does_not_fit_a_step_is_refused() {
    let adam = step(0.1, adaptive(0.9, SecondMoment::Adam(0.99), 1e-3));
    let (x, double) = (Reals::from(vec![0.0_f32; 2]), Reals::from(vec![0.0_f64; 2]));
    let state = adam.new_state(Precision::Single, 2);
    let apply = |state: &StepState, mean: &Reals| adam.apply(&x, state, mean).unwrap_err();
    assert_eq!(apply(&state, &double), EncodeError::Precision);
    let shorter = Reals::from(vec![0.0_f32]);
    let dim = EncodeError::Dim { got: 1, dim: 2 };
    assert_eq!(apply(&state, &shorter), dim);
    assert_eq!(apply(&adam.new_state(Precision::Single, 1), &x), dim);
    let wide = adam.new_state(Precision::Double, 2);
    assert_eq!(apply(&wide, &x), EncodeError::Precision);
    let none = ServerStep::default().new_state(Precision::Single, 2);
    let error = apply(&none, &x).to_string();
    assert!(error.contains("0 vectors, must be 2"), "{error}");
    let read = |bytes: &[u8]| adam.read_state(Precision::Single, 2, bytes);
    let bytes = state.to_bytes();
    assert_eq!(read(&bytes).unwrap(), state);
    assert!(read(&bytes[1..]).is_err() && read(&[]).is_err());
    for (at, number) in [(0, f32::NAN), (4, f32::INFINITY), (12, -1e-9)] {
        let mut bad = bytes.clone();
        bad[at..at + 4].copy_from_slice(&number.to_le_bytes());
        let error = read(&bad).unwrap_err().to_string();
        assert!(error.contains("coordinate"), "{error}");
    }
    // A mean whose square is beyond the precision.
    let large = Reals::from(vec![1e30_f32, 0.0]);
    let (_, state) = adam.apply(&x, &state, &large).unwrap();
    let index = 0;
    assert_eq!(state.check_finite(), Err(EncodeError::NotFinite { index }));
}
