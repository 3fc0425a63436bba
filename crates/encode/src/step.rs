//! Server steps: how the mean of a round changes the values of a model.
//!
//! The rules are those of Reddi et al., "Adaptive Federated Optimization", 2021, without bias correction. Δ is the mean
//! of a round, x a coordinate of the model, η the learning rate, m the momentum and v the second moment:
//!
//! ```text
//! average     x ← x + η·Δ
//! momentum    m ← β·m + Δ                        x ← x + η·m
//! adaptive    m ← β1·m + (1 − β1)·Δ              x ← x + η·m / (√v + τ)
//!   adagrad   v ← v + Δ²
//!   adam      v ← β2·v + (1 − β2)·Δ²
//!   yogi      v ← v − (1 − β2)·Δ²·sign(v − Δ²)
//! ```
//!
//! m begins with 0, v with τ². Each right-hand side is computed in double precision, from left to right, without fused
//! operations. It is rounded once to the precision of the model, and later lines use the rounded number. IEEE 754 fixes
//! the result of every operation used, so that all parties get the same bits.

use crate::{EncodeError, Precision, Real, Reals};
use blindsum_math::simd::{self, Kernel};

/// The rule of a job, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerStep {
    /// η.
    pub learning_rate: f64,
    /// The vector that η is multiplied with.
    pub direction: Direction,
}

/// The direction of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Direction {
    /// The mean.
    Mean,
    /// The momentum.
    Momentum {
        /// β, `0 <= β < 1`.
        decay: f64,
    },
    /// The momentum, divided by the root of the second moment.
    Adaptive {
        /// β1, `0 <= β1 < 1`.
        decay: f64,
        /// How the second moment changes.
        second: SecondMoment,
        /// τ, above 0.
        tau: f64,
    },
}

/// How the second moment of a coordinate changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SecondMoment {
    /// It grows by Δ².
    Adagrad,
    /// It is a moving average, with β2, `0 <= β2 < 1`.
    Adam(f64),
    /// It moves towards Δ² by (1 − β2)·Δ², `0 <= β2 < 1`.
    Yogi(f64),
}

impl Default for ServerStep {
    /// The mean is added.
    fn default() -> Self {
        Self {
            learning_rate: 1.0,
            direction: Direction::Mean,
        }
    }
}

/// The state of a step between rounds: no vector, m, or m and v, each of the length and precision of the model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepState {
    vectors: Vec<Reals>,
}

impl StepState {
    /// The vectors one after the other, as little-endian IEEE 754 numbers.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.vectors.iter().flat_map(Reals::to_bytes).collect()
    }

    /// Whether there is no vector.
    pub fn is_empty(&self) -> bool {
        self.vectors.is_empty()
    }

    /// Checks that all numbers are finite.
    ///
    /// # Errors
    /// [`EncodeError::NotFinite`] names the first coordinate with a number that is NaN or infinite.
    pub fn check_finite(&self) -> Result<(), EncodeError> {
        self.vectors.iter().try_for_each(Reals::check_finite)
    }
}

impl ServerStep {
    /// The number of vectors in its state: 0, 1 or 2.
    pub fn vectors(&self) -> usize {
        match self.direction {
            Direction::Mean => 0,
            Direction::Momentum { .. } => 1,
            Direction::Adaptive { .. } => 2,
        }
    }

    /// The state before the first round of a model of `dim` coordinates.
    pub fn new_state(&self, precision: Precision, dim: usize) -> StepState {
        let mut vectors = Vec::new();
        if self.direction != Direction::Mean {
            vectors.push(Reals::zeros(precision, dim));
        }
        if let Direction::Adaptive { tau, .. } = self.direction {
            vectors.push(match precision {
                Precision::Single => Reals::Single(vec![(tau * tau) as f32; dim]),
                Precision::Double => Reals::Double(vec![tau * tau; dim]),
            });
        }
        StepState { vectors }
    }

    /// Reads the state of a model of `dim` coordinates from [`StepState::to_bytes`].
    ///
    /// # Errors
    /// [`EncodeError::State`] for another length, a number that is not finite, or a second moment below 0.
    pub fn read_state(
        &self,
        precision: Precision,
        dim: usize,
        bytes: &[u8],
    ) -> Result<StepState, EncodeError> {
        let one = dim.saturating_mul(precision.bytes());
        let (got, expected) = (bytes.len(), one.saturating_mul(self.vectors()));
        // guard: states-of-steps-are-of-the-model
        if got != expected {
            return Err(wrong(format!("{got} bytes, must be {expected}")));
        }
        let parts = bytes.chunks_exact(one.max(1));
        let read = parts.filter_map(|part| Reals::from_bytes(precision, part));
        let vectors: Vec<Reals> = read.collect();
        for vector in &vectors {
            // guard: states-of-steps-are-finite
            let checked = vector.check_finite();
            checked.map_err(|error| wrong(error.to_string()))?;
        }
        if let Some(second) = vectors.get(1)
            // guard: second-moments-are-squares
            && let Some(index) = second.iter().position(|number| number < 0.0)
        {
            let rule = format!("the second moment of coordinate {index} must be >= 0");
            return Err(wrong(rule));
        }
        Ok(StepState { vectors })
    }

    /// The values and the state after a round with this mean, `[dim]`. They may be infinite or NaN: see
    /// [`Reals::check_finite`] and [`StepState::check_finite`].
    ///
    /// # Errors
    /// [`EncodeError::Dim`] for a mean or a state of another length than the values, [`EncodeError::Precision`] for
    /// another precision, and [`EncodeError::State`] for the state of another step.
    pub fn apply(
        &self,
        values: &Reals,
        state: &StepState,
        mean: &Reals,
    ) -> Result<(Reals, StepState), EncodeError> {
        for vector in [mean].into_iter().chain(&state.vectors) {
            let (got, dim) = (vector.len(), values.len());
            if got != dim {
                return Err(EncodeError::Dim { got, dim });
            }
        }
        match values {
            Reals::Single(values) => self.applied(values, state, mean),
            Reals::Double(values) => self.applied(values, state, mean),
        }
    }

    fn applied<R: Stored>(
        &self,
        values: &[R],
        state: &StepState,
        mean: &Reals,
    ) -> Result<(Reals, StepState), EncodeError> {
        let vectors = state.vectors.iter().map(|vector| R::slice(vector));
        let vectors: Result<Vec<&[R]>, _> = vectors.collect();
        let mut vectors: Vec<Vec<R>> = vectors?.into_iter().map(<[R]>::to_vec).collect();
        let (mut values, mean) = (values.to_vec(), R::slice(mean)?);
        let learning_rate = self.learning_rate;
        match (self.direction, &mut vectors[..]) {
            (Direction::Mean, []) => simd::run(AlongMean {
                values: &mut values,
                mean,
                learning_rate,
            }),
            (Direction::Momentum { decay }, [momentum]) => simd::run(AlongMomentum {
                values: &mut values,
                mean,
                momentum,
                learning_rate,
                decay,
            }),
            (Direction::Adaptive { decay, second, tau }, [momentum, moments]) => {
                let mut adaptive = Adaptive {
                    values: &mut values,
                    mean,
                    momentum,
                    moments,
                    learning_rate,
                    decay,
                    tau,
                };
                match second {
                    SecondMoment::Adagrad => adaptive.run(|v, square| v + square),
                    SecondMoment::Adam(decay) => {
                        adaptive.run(|v, square| decay * v + (1.0 - decay) * square)
                    }
                    SecondMoment::Yogi(decay) => adaptive.run(|v, square| {
                        let step = (1.0 - decay) * square;
                        // The sign of 0 is 0; v and the square are then equal.
                        let step = if v == square { 0.0 } else { step };
                        if v > square { v - step } else { v + step }
                    }),
                }
            }
            (_, vectors) => {
                let (got, expected) = (vectors.len(), self.vectors());
                return Err(wrong(format!("{got} vectors, must be {expected}")));
            }
        }
        let vectors = vectors.into_iter().map(R::wrap).collect();
        Ok((R::wrap(values), StepState { vectors }))
    }
}

fn wrong(rule: String) -> EncodeError {
    EncodeError::State {
        of: "state of the server step",
        rule,
    }
}

/// A number of a vector of [`Reals`].
trait Stored: Real {
    /// The numbers of a vector of this precision.
    fn slice(vector: &Reals) -> Result<&[Self], EncodeError>;
    /// A vector of these numbers.
    fn wrap(numbers: Vec<Self>) -> Reals;
}

impl Stored for f32 {
    fn slice(vector: &Reals) -> Result<&[Self], EncodeError> {
        match vector {
            Reals::Single(numbers) => Ok(numbers),
            Reals::Double(_) => Err(EncodeError::Precision),
        }
    }
    fn wrap(numbers: Vec<Self>) -> Reals {
        numbers.into()
    }
}

impl Stored for f64 {
    fn slice(vector: &Reals) -> Result<&[Self], EncodeError> {
        match vector {
            Reals::Single(_) => Err(EncodeError::Precision),
            Reals::Double(numbers) => Ok(numbers),
        }
    }
    fn wrap(numbers: Vec<Self>) -> Reals {
        numbers.into()
    }
}

struct AlongMean<'a, R> {
    values: &'a mut [R],
    mean: &'a [R],
    learning_rate: f64,
}

impl<R: Real> Kernel for AlongMean<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (x, mean) in self.values.iter_mut().zip(self.mean) {
            *x = R::from_f64(x.to_f64() + self.learning_rate * mean.to_f64());
        }
    }
}

struct AlongMomentum<'a, R> {
    values: &'a mut [R],
    mean: &'a [R],
    momentum: &'a mut [R],
    learning_rate: f64,
    decay: f64,
}

impl<R: Real> Kernel for AlongMomentum<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let vectors = self.values.iter_mut().zip(self.mean).zip(self.momentum);
        for ((x, mean), m) in vectors {
            *m = R::from_f64(self.decay * m.to_f64() + mean.to_f64());
            *x = R::from_f64(x.to_f64() + self.learning_rate * m.to_f64());
        }
    }
}

struct Adaptive<'a, R> {
    values: &'a mut [R],
    mean: &'a [R],
    momentum: &'a mut [R],
    moments: &'a mut [R],
    learning_rate: f64,
    decay: f64,
    tau: f64,
}

impl<R: Real> Adaptive<'_, R> {
    /// Runs with the rule that gives the next second moment from the one before and from Δ².
    fn run(&mut self, next: impl Fn(f64, f64) -> f64) {
        simd::run(AlongAdapted {
            vectors: self,
            next,
        });
    }
}

struct AlongAdapted<'a, 'b, R, F> {
    vectors: &'a mut Adaptive<'b, R>,
    next: F,
}

impl<R: Real, F: Fn(f64, f64) -> f64> Kernel for AlongAdapted<'_, '_, R, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Adaptive {
            values,
            mean,
            momentum,
            moments,
            learning_rate,
            decay,
            tau,
        } = self.vectors;
        let (learning_rate, decay, tau) = (*learning_rate, *decay, *tau);
        let moving = values.iter_mut().zip(mean.iter());
        let kept = momentum.iter_mut().zip(moments.iter_mut());
        for ((x, mean), (m, v)) in moving.zip(kept) {
            let mean = mean.to_f64();
            *m = R::from_f64(decay * m.to_f64() + (1.0 - decay) * mean);
            *v = R::from_f64((self.next)(v.to_f64(), mean * mean));
            let step = learning_rate * m.to_f64() / (v.to_f64().sqrt() + tau);
            *x = R::from_f64(x.to_f64() + step);
        }
    }
}
